"""Measuring: Table 1, what the policies write without a grammar, and what the evaluation judge makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from compeer.cer.item import Candidate, Item, chat_history
from compeer.dialogue import write_rows
from compeer.errors import UserError
from compeer.models.ask import request_for
from compeer.models.embedding import Embedder
from compeer.models.request import Request
from compeer.policy.diversity import in_use
from compeer.reasoning import parse
from compeer.reward.evaluation.baselines import TEXT_ONLY, add_probe
from compeer.reward.evaluation.folder import EvaluationFolder, ask_judge
from compeer.reward.evaluation.measure import dialogues_of
from compeer.reward.evaluation.report import ReportSection, measure_folder
from compeer.reward.spec import open_judge
from compeer.statistics import Figure, Resamples, estimate
from runs.miniature import data
from runs.miniature.pieces import Work, read_note, say
from runs.miniature.training import judge_spec
from runs.miniature.writing import answer

SET = "silver ESConv valid"
NAMES = {"unified": "UnifiReward", "prm": "PRM", "orm": "ORM", "untrained": "untrained", "evaluation": "evaluation"}
FIGURES = ("distinct-2", "similarity-across", "similarity-within", "length")


@cache
def embedders(model: str | None) -> Embedder:
    """Sentence vectors, opened once for all pieces of this process."""
    return Embedder(model)


def table1_judges(work: Work) -> dict[str, Any]:
    """The verdicts of the judges that are trained so far on the test set, each pair in both orders; the untrained model
    beside them. What was judged before is not judged again."""
    folder = EvaluationFolder(work.path("table1"))
    folder.add_labelled_set(SET, data.read(work.items("test")))
    for name in ("unified", "prm", "orm", "untrained"):
        if name != "untrained" and read_note(work, f"judges/{name}") is None:
            say(f"{NAMES[name]} is not trained yet and is left out")
            continue
        opened = open_judge(judge_spec(work, name), batch=work.settings.measure.batch, device=_device(work))
        ask_judge(opened, folder, NAMES[name], orders="both")
    return {"judges": [entry.name for entry in folder.run.judges]}


def table1_probe(work: Work) -> dict[str, Any]:
    """The linear probe over sentence embeddings, learnt from the items that the judges learnt from."""
    folder, vectors = EvaluationFolder.existing(work.path("table1")), embedders(work.settings.embedder)
    add_probe(folder, "silver", data.read(work.items("judge")), embedders=vectors)
    return {}


def table1_report(work: Work) -> dict[str, Any]:
    folder = EvaluationFolder.existing(work.path("table1"))
    made = measure_folder(folder, rounds=work.settings.measure.rounds, seed=work.settings.seed)
    return {"sections": [reduced(section) for section in made.sections]}


def reduced(section: ReportSection) -> dict[str, Any]:
    """What the tables need of a section: every figure, without curves and parts; differences from the first judge, and
    of the first judge from the probe."""
    first = section.results[0].name
    rows = []
    for result in section.results:
        figures = {
            f"{question}/{name}": _triple(figure)
            for question, asked in result.questions.items()
            for name, figure in asked.figures.items()
        }
        swayed = result.position.swayed if result.position else None
        rows.append({"name": result.name, "role": result.role, "figures": figures, "swayed": swayed})
    return {
        "set": section.set,
        "label_source": section.label_source,
        "items": section.items,
        "dialogues": section.dialogues,
        "rows": rows,
        "differences": [
            {"judge": one.judge, "other": one.other, "figures": [_triple(figure) for figure in one.figures]}
            for one in section.differences
            if one.other == first or (one.judge == first and not one.other.startswith(TEXT_ONLY))
        ],
    }


def sample(work: Work, name: str, where: str = "moments", draw: int = 0) -> dict[str, Any]:
    """Let a model answer some moments, grammar off: how many answers are complete or cut off, how varied they are."""
    outputs, cut = asked(work, name, where, draw)
    return figures(work, name, samples_path(work, name, where, draw), outputs) | {"cut off": cut}


def asked(work: Work, name: str, where: str, draw: int) -> tuple[list[Item], float]:
    """A model's answers to some moments, kept as a file, and the share of them that were cut off."""
    moments = data.read(work.items(where))
    answers = answer(work, str(adapter(work, name)), requests_for(work, moments), draw)
    outputs = [candidate_of(item, one.text, name) for item, one in zip(moments, answers, strict=True)]
    write_rows(samples_path(work, name, where, draw), outputs)
    return outputs, sum(one.finish == "length" for one in answers) / len(answers)


def requests_for(work: Work, moments: Sequence[Item]) -> list[Request]:
    """What a model is asked at each moment."""
    settings = work.settings.sample
    return [
        request_for(
            chat_history(item),
            item.language,
            length=work.settings.sft.get("length", "full"),
            grammar=False,
            max_tokens=settings.max_tokens,
            temperature=settings.temperature,
        )
        for item in moments
    ]


def candidate_of(item: Item, text: str, name: str) -> Item:
    """A moment with a model's answer to it."""
    parsed = parse(text)
    candidate = Candidate(
        response=parsed.response, reasoning=parsed.reasoning if parsed.complete else None, generator=name, raw=text
    )
    return msgspec.structs.replace(item, candidate=candidate)


def figures(work: Work, name: str, path: Path, outputs: Sequence[Item]) -> dict[str, Any]:
    """How many answers are complete, and how varied the replies and the strategies are."""
    from compeer.evals.language.measure import measure
    from compeer.evals.language.outputs import read_outputs

    complete = np.array([one.candidate is not None and one.candidate.reasoning is not None for one in outputs], float)
    resamples = Resamples(dialogues_of(outputs), work.settings.measure.rounds, work.settings.seed)
    found: dict[str, Any] = {
        "moments": len(outputs),
        "dialogues": resamples.groups,
        "complete": _triple(estimate("", float(complete.mean()), resamples.mean(complete))),
        "strategies": strategies(outputs),
    }
    try:
        written_out = read_outputs(path)
        measured = measure(written_out, name, embedders(work.settings.embedder), seed=work.settings.seed)
    except UserError as error:  # a model that writes no reply at all
        return found | {"language": str(error)}
    for figure in FIGURES:
        if (value := measured.result.figure(f"en/{figure}")) is not None:
            found[figure] = [value.value, value.low, value.high]
    return found


def strategies(outputs: Sequence[Item]) -> float:
    """How many strategies the complete outputs use, from 1 to 8."""
    stated = [one.candidate.reasoning.strategy.strategy for one in outputs if one.candidate and one.candidate.reasoning]
    return round(in_use(stated), 3)


def adapter(work: Work, name: str) -> Path:
    """The adapter of `sft`, of a run of a variant, or of a candidate for the supporter."""
    if name == "sft":
        return work.run("sft", "model")
    return work.run("candidates" if name in work.settings.candidates else "grpo", name, "model")


def samples_path(work: Work, name: str, where: str = "moments", draw: int = 0) -> Path:
    return work.path("samples", f"{name}.jsonl.gz" if where == "moments" else f"{drawn(where, draw)}-{name}.jsonl.gz")


def drawn(where: str, draw: int) -> str:
    """What answers to some moments are called; further answers to the same moments have a number."""
    return f"{where}-{draw}" if draw else where


def score(work: Work, names: Sequence[str]) -> dict[str, Any]:
    """The reward (-5 to 5) of every model's outputs by the evaluation judge and by the training judge, and how far
    each model lies above the SFT model on the same moments, with intervals over dialogues. Of the models that have
    answered so far; what was judged before is not judged again."""
    return {judge: _scored(work, names, judge) for judge in ("evaluation", "unified")}


def _scored(work: Work, names: Sequence[str], judge: str) -> dict[str, Any]:
    """What one judge makes of the models' answers to the moments."""
    sets = {name: data.read(samples_path(work, name)) for name in names if read_note(work, f"sample/{name}")}
    if "sft" not in sets:
        raise UserError("The SFT model has not answered the moments yet, and all others are compared with it: sample.")
    resamples = Resamples(dialogues_of(sets["sft"]), work.settings.measure.rounds, work.settings.seed)
    totals = judged(work, EvaluationFolder(work.path("scores", judge)), sets, judge)
    found: dict[str, Any] = {name: above(values, totals["sft"], resamples) for name, values in totals.items()}
    found["variants"] = {
        variant: _pooled(totals, variant, work.settings.seeds, resamples)
        for variant in work.settings.variants
        if any(f"{variant}-{seed}" in totals for seed in work.settings.seeds)
    }
    return found


def judged(
    work: Work, folder: EvaluationFolder, sets: Mapping[str, Sequence[Item]], judge: str
) -> dict[str, np.ndarray]:
    """The reward of every answer by a judge, model by model, each pair in both orders."""
    for name, items in sets.items():
        folder.add_set(name, items)
    opened = open_judge(judge_spec(work, judge), batch=work.settings.measure.batch, device=_device(work))
    ask_judge(opened, folder, NAMES[judge], orders="both")
    told = {name: folder.judgements(name, NAMES[judge]) for name in sets}
    return {name: np.array([float(told[name][item.id].total) for item in items]) for name, items in sets.items()}


def judged_alone(work: Work, name: str, where: str, draw: int = 0) -> np.ndarray:
    """The reward of a model's answers to some moments by the evaluation judge, kept in a folder of their own."""
    folder = EvaluationFolder(work.path("scores", f"{drawn(where, draw)}-{name}"))
    return judged(work, folder, {name: data.read(samples_path(work, name, where, draw))}, "evaluation")[name]


def above(values: np.ndarray, plain: np.ndarray, resamples: Resamples) -> dict[str, Any]:
    """A model's mean reward, and how far it lies above the SFT model on the same moments."""
    return {
        "reward": _triple(estimate("", float(values.mean()), resamples.mean(values))),
        "above sft": _triple(estimate("", float((values - plain).mean()), resamples.mean(values - plain))),
    }


def _pooled(
    totals: dict[str, np.ndarray], variant: str, seeds: Sequence[int], resamples: Resamples
) -> list[float | None]:
    """How far a variant lies above SFT, the mean over its seeds moment by moment."""
    there = [totals[f"{variant}-{seed}"] for seed in seeds if f"{variant}-{seed}" in totals]
    mean = np.mean(there, axis=0) - totals["sft"]
    return _triple(estimate("", float(mean.mean()), resamples.mean(mean)))


def over_seeds(values: Sequence[float]) -> list[float | None]:
    """A mean over seeds with its 95 % interval (Student's t); one seed has no interval.

    >>> over_seeds([1.0])
    [1.0, None, None]
    """
    from benchmarks.collapse.report import interval

    found = interval(values)
    return (
        [found.mean, None, None] if len(values) < 2 else [found.mean, found.mean - found.half, found.mean + found.half]
    )


def _triple(figure: Figure | None) -> list[float | None]:
    return [None, None, None] if figure is None else [_rounded(one) for one in (figure.value, figure.low, figure.high)]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def _device(work: Work) -> str | None:
    return None if work.settings.device == "auto" else work.settings.device
