"""The stages of the demo that work: data, judge, cold start, GRPO, measurement.

Every stage calls what the commands call (`compeer cer build`, `reward train`, `policy sft`, `policy grpo`,
`cer reason`, `reward score`, `eval diversity`, `eval control`), with small numbers.

Data: the conversations of open CER, sampled by equation 1, labelled silver, split by dialogue; the judge learns from
open CER's items, which authors have labelled. No conversation that a model is measured on has been trained on here;
what the shipped adapters have seen is on their cards.
Training: every step is a checkpoint, so a start that was cut off loses one step at most.
Measurement: `before` is the shipped model, `after` the result of GRPO. Both write without a grammar, so that
completeness means something. The judge is the shipped one, not the one the policy was trained with; on another base
there is only the latter. Control is measured on `after`, where the grammar enforces pins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.build import Build, CorpusSource, build
from compeer.cer.item import Item, Labels, read_items
from compeer.cer.reason import STAGE as REASON
from compeer.config import read_yaml
from compeer.demo.folder import SMALL_MODEL, DemoFolder
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.evals.result import Result, Transcript, TranscriptTurn, cases_digest, load_transcripts, save_result
from compeer.models.embedding import Embedder
from compeer.pipeline.runner import run_stage
from compeer.pipeline.stage import Reject, Tools
from compeer.pipeline.work import ModelSpec
from compeer.policy.prompts import demonstration
from compeer.reasoning import split_thinking, with_thinking
from compeer.reasoning.ontology import words
from compeer.reward.judge import PARTS, Scored
from compeer.statistics import Figure, mean_figure, share_figure
from compeer.typed import from_plain


def make_data(folder: DemoFolder) -> str:
    sizes = folder.sizes
    corpus = CorpusSource("open-cer", limit=sizes.dialogues, options={"language": "en"})
    config = Build(
        name="CER, demo",
        out=str(folder.path("cer")),
        corpora=(corpus,),
        seed=sizes.seed,
        silver={"per_dialogue": sizes.rounds},
    )
    steps = {step.name: step.rows for step in build(config)}
    made = folder.path("cer", "dataset", "jsonl")
    train, test = (list(read_items(made / f"{name}.jsonl")) for name in ("train", "test"))
    taught = _short([item for item in train if demonstration(item) is not None], folder)
    measured = {item.dialogue for item in test}
    found = read_items("open-cer/train")
    labelled = [item for item in found if item.language == "en" and item.dialogue not in measured]
    _write(folder, "judge", _short(labelled, folder), sizes.judge_items)
    _write(folder, "sft", taught, sizes.sft_items)
    _write(folder, "prompts", taught[sizes.sft_items :], sizes.prompts)
    _write(folder, "moments", [_asked(item) for item in _short(test, folder)], sizes.moments)
    return (
        f"{steps['01-dialogues']} conversations, {steps['05-silver']} moments drawn and labelled silver: "
        f"{len(train)} to train on, {len(test)} to measure on, no conversation in both"
    )


def _short(items: Sequence[Item], folder: DemoFolder) -> list[Item]:
    """Those with a short history, one of every conversation before a second one of any; then the rest by length."""
    sized = sorted(items, key=lambda item: (sum(len(words(turn.text)) for turn in item.history), item.id))
    seen: set[str] = set()
    first: list[Item] = []
    later: list[Item] = []
    for item in sized:
        short = sum(len(words(turn.text)) for turn in item.history) <= folder.sizes.longest
        (first if short and item.dialogue not in seen else later).append(item)
        seen.add(item.dialogue)
    return first + later


def _write(folder: DemoFolder, name: str, items: Sequence[Item], count: int) -> None:
    if len(items) < count:
        raise UserError(f"The demo wants {count} items for {name}, and the corpus gives {len(items)}.")
    write_rows(folder.rows(name), items[:count])


def _asked(item: Item) -> Item:
    """An item without its candidate and labels: a moment."""
    return msgspec.structs.replace(item, candidate=None, labels=Labels(), label_source=None)


def _settings(folder: DemoFolder, stage: str, role: str = "") -> dict[str, Any]:
    """What settings.yaml says about a stage. A training of a `role` starts from the shipped adapter, or a new one."""
    known = read_yaml(Path(__file__).with_name("settings.yaml"))
    start = {"adapter": "shipped"} if role in folder.settings.adapters else known["new_adapter"]
    return {**known[stage], **(start if role else {})}


def judge(folder: DemoFolder) -> str:
    from compeer.reward.train import JudgeTraining, train

    sizes = folder.sizes
    given = _settings(folder, "judge", "judge") | {
        "out": str(folder.path("judge")),
        "base": folder.base,
        "train": [str(folder.rows("judge"))],
        "batch_size": sizes.judge_batch,
        "seed": sizes.seed,
    }
    results = train(from_plain(given, JudgeTraining)).results
    return _trained(folder, "judge", results, f"{sizes.judge_items} items")


def sft(folder: DemoFolder) -> str:
    from compeer.policy.sft import SftConfig, train

    sizes = folder.sizes
    given = _settings(folder, "sft", "supporter") | {
        "out": str(folder.path("sft")),
        "model": folder.base,
        "data": [str(folder.rows("sft"))],
        "batch_size": sizes.sft_batch,
        "seed": sizes.seed,
    }
    results = train(from_plain(given, SftConfig))
    return _trained(folder, "supporter", results, f"{sizes.sft_items} turns with written-out reasoning")


def _trained(folder: DemoFolder, role: str, results: Mapping[str, Any], material: str) -> str:
    start = f"the shipped {role}" if role in folder.settings.adapters else "a new adapter"
    return f"{results['steps']} steps on {material}, loss {results['train_loss']:.3f}; from {start}"


def grpo(folder: DemoFolder) -> str:
    from compeer.policy.grpo.config import config_of
    from compeer.policy.grpo.run import train

    sizes = folder.sizes
    given = _settings(folder, "grpo") | {
        "out": str(folder.path("policy")),
        "model": str(folder.path("sft")),
        "data": [str(folder.rows("prompts"))],
        "judge": {"spec": f"hf:{folder.path('judge', 'model')}", "budget": 600},
        "max_completion": sizes.completion,
        "batch": sizes.grpo_batch,
        "group": sizes.group,
        "micro_batch": sizes.group,
        "steps": sizes.grpo_steps,
        "seed": sizes.seed,
    }
    results = train(config_of(given))
    rewards = [results.get(f"reward/total at {when}", float("nan")) for when in ("first", "last")]
    return (
        f"{results['steps']} steps of {sizes.grpo_batch * sizes.group} outputs; the judge's reward (-5 to 5) at first "
        f"{rewards[0]:.2f}, at last {rewards[1]:.2f}"
    )


NAMES = ("before", "after")


def spec_of(folder: DemoFolder, name: str) -> str:
    """A model as the commands name it."""
    if folder.base == SMALL_MODEL:
        return SMALL_MODEL if name == "before" else f"{SMALL_MODEL}+{folder.path('policy', 'model')}"
    return f"hf:{folder.base}" + ("" if name == "before" else f"+{folder.path('policy', 'model')}")


def make_measurement(folder: DemoFolder) -> str:
    """Measure everything; the main figures in a sentence."""
    answers = {name: write_answers(folder, name) for name in NAMES}
    figures = {name: [*result.figures] for name, result in judge_answers(folder, answers).items()}
    embedder = Embedder()
    for name in NAMES:
        figures[name] += measure_language(folder, name, answers[name], embedder)
    found = {name: {figure.name: figure.value for figure in own} for name, own in figures.items()}
    control = measure_control(folder)

    def both(figure: str, form: str) -> str:
        before, after = (found[name].get(figure) for name in NAMES)
        shown = [form.format(value) if value is not None else "none" for value in (before, after)]
        return f"{shown[0]} to {shown[1]}"

    kept = control.figure("adherence")
    told = (
        f"reward {both('reward', '{:.2f}')}, complete {both('complete', '{:.0%}')}, "
        f"distinct-2 {both('en/distinct-2', '{:.3f}')} on {folder.sizes.moments} moments"
    )
    if kept is not None:
        told += f"; {kept.value:.0%} of {kept.n} pins kept"
    return told


def write_answers(folder: DemoFolder, name: str) -> list[Item]:
    """What a model writes at the moments, the incomplete outputs too, in the order of the moments."""
    out = folder.path("answers", f"{name}.jsonl")
    options = _settings(folder, "answers") | {"max_tokens": folder.sizes.completion + 64}
    out.parent.mkdir(parents=True, exist_ok=True)
    manifest = run_stage(
        REASON,
        folder.rows("moments"),
        out,
        Tools(seed=folder.sizes.seed, options=options),
        model_specs={"generator": ModelSpec(spec_of(folder, name), concurrency=4)},
        concurrency=4,
        cache=folder.path("answers", f"{name}.sqlite"),
    )
    written = {item.id: item for item in read_items(out)}
    rejects = read_rows(manifest.rejects, Reject)
    written |= {item.id: item for one in rejects if one.reason == "incomplete" and (item := from_plain(one.row, Item))}
    order = [item.id for item in read_items(folder.rows("moments"))]
    items = [written[one] for one in order if one in written]
    if not items:
        raise UserError(f"The model {name} gave no answer at all; {manifest.rejects} says why.")
    write_rows(folder.path("answers", f"{name}.all.jsonl"), items)
    return items


def judge_answers(folder: DemoFolder, answers: Mapping[str, Sequence[Item]]) -> dict[str, Result]:
    """The rewards of all answers under one judge, part by part; those to one moment side by side."""
    from compeer.reward.score_file import score
    from compeer.reward.spec import open_judge

    by_moment: dict[str, list[Item]] = {}
    for name, items in answers.items():
        for item in items:
            by_moment.setdefault(item.id, []).append(msgspec.structs.replace(item, id=f"{item.id}@{name}"))
    source, out = folder.path("answers", "both.jsonl"), folder.path("answers", "scores.jsonl")
    write_rows(source, (item for beside in by_moment.values() for item in beside))
    spec = f"hf:{SMALL_MODEL}" if "judge" in folder.settings.adapters else f"hf:{folder.path('judge', 'model')}"
    summary = score(source, out, open_judge(spec, batch=8, device="cpu"), orders="both", window=4)
    rows = {row.id: row for row in read_rows(out, Scored)}
    results = {}
    for name, items in answers.items():
        known = [item for item in items if rows[f"{item.id}@{name}"].total is not None]
        scores = [_scores(rows[f"{item.id}@{name}"]) for item in known]
        results[name] = Result(
            "reward",
            name,
            {"judge": summary.judge, "cases": cases_digest(sorted(item.id for item in known))},
            (
                mean_figure("reward", [one["reward"] for one in scores]),
                *(share_figure(part, [one[part] for one in scores]) for part in map(_named, PARTS)),
            ),
            {"seed": folder.sizes.seed, "judge identity": dict(summary.identity), "answers": len(known)},
            (_honest(folder),),
            differences_are_chance=True,
        )
        save_result(folder.path("results", f"reward-{name}"), results[name], map(_transcript, known, scores))
    return results


def measure_language(folder: DemoFolder, name: str, items: Sequence[Item], embedder: Embedder) -> tuple[Figure, ...]:
    """Diversity and length of the replies; nothing where there are none."""
    from compeer.evals.language.measure import measure
    from compeer.evals.language.outputs import read_outputs

    if not any(item.candidate and item.candidate.response.strip() for item in items):
        return ()
    measured = measure(
        read_outputs(folder.path("answers", f"{name}.all.jsonl")), name, embedder, embedder=embedder.name
    )
    result = msgspec.structs.replace(measured.result, differences_are_chance=True)
    save_result(folder.path("results", f"language-{name}"), result, measured.transcripts)
    return measured.result.figures


def measure_control(folder: DemoFolder) -> Result:
    """Measure whether pinned stages and strategies are kept."""
    import sys

    from compeer.evals.control import ControlSettings, run_control

    settings = ControlSettings(
        model=spec_of(folder, "after"),
        turns=1,
        emotions=0,
        limit=folder.sizes.pinned,
        language="en",
        length="brief",
        concurrency=4,
        max_tokens=4 * folder.sizes.completion,  # the grammar ends an output; a cut one would count against it
        seed=folder.sizes.seed,
    )
    out = folder.path("results", "control-after")
    result = run_control(settings, out, lambda line: print(f"control: {line}", file=sys.stderr, flush=True))
    named = msgspec.structs.replace(result, model="after")
    save_result(out, named, list(load_transcripts(out)))
    return named


def _scores(row: Scored) -> dict[str, float]:
    parts = {_named(part): float(value > 0) for part, value in (row.parts or {}).items()}
    return {"reward": float(row.total or 0), **parts}


def _named(part: str) -> str:
    return "complete" if part == "format" else part


def _transcript(item: Item, scores: dict[str, Any]) -> Transcript:
    assert item.candidate is not None
    thinking, _ = split_thinking(item.candidate.raw or "")
    said = [TranscriptTurn(turn.speaker, turn.text) for turn in item.history]
    thought = with_thinking(thinking, "") if thinking else None
    said.append(TranscriptTurn("supporter", item.candidate.response, thought))
    about = {"reference": item.reference}
    return Transcript(item.id, item.language, tuple(said), scores, group=item.dialogue, about=about)


def _honest(folder: DemoFolder) -> str:
    sizes = folder.sizes
    steps = sizes.sft_items // sizes.sft_batch
    return (
        f"This is the demo: {steps} steps of SFT, {sizes.grpo_steps} of GRPO, {sizes.moments} moments. It shows that "
        "every part runs on this machine. It does not show that training helps, and a difference between before and "
        "after is chance. docs/results.md has runs of a size that means something."
    )
