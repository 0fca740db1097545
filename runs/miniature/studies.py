"""Studies: the time of a judgement, consistency of verdicts, multipliers of tau, other corpora and the gold set.

Consistency needs someone who says whether a reply follows the reasoning. The paper asks GPT-4o; without a judge model
a rule stands in: the candidate follows when a classifier, learnt from people's strategies in ESConv train, reads the
stated strategy out of the reply; the reference follows when people noted that strategy for it. The classifier's own
accuracy stands beside the result, because it bounds what can be meant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from compeer.cer import gold
from compeer.cer.item import Item
from compeer.dialogue import Dialogue, read_rows
from compeer.errors import UserError
from compeer.evals.strategy_readers import train_classifier
from compeer.models.ask import request_for
from compeer.reward.case import case_of
from compeer.reward.consistency import Following, measure_consistency
from compeer.reward.evaluation.folder import EvaluationFolder, ask_judge
from compeer.reward.evaluation.report import measure_folder
from compeer.reward.spec import open_judge
from compeer.reward.timing import time_study
from runs.miniature import data
from runs.miniature.measuring import adapter, embedders, reduced, samples_path
from runs.miniature.pieces import Work, read_note
from runs.miniature.training import judge_spec
from runs.miniature.writing import answer
from runs.sweep import Point, marked, point

MOMENTS = Path(__file__).with_name("moments.yaml")
PAIR = {"PRM + ORM": "separate", "UnifiReward": "unified"}
_FEWEST = 20  # complete samples, below which the test set's candidates are taken
RULE = "a rule: the strategy read by a classifier, against the one stated"


def outputs(work: Work) -> dict[str, Any]:
    """What SFT, every variant's first seed and the chosen supporter answer to the moments of moments.yaml, as it came:
    nothing is picked."""
    moments: list[list[str]] = yaml.safe_load(MOMENTS.read_text(encoding="utf-8"))
    sample = work.settings.sample
    requests = [
        request_for(
            [{"role": "assistant" if number % 2 else "user", "content": words} for number, words in enumerate(moment)],
            "en",
            length=work.settings.sft.get("length", "full"),
            grammar=False,
            max_tokens=sample.max_tokens,
            temperature=sample.temperature,
        )
        for moment in moments
    ]
    names = ["sft", *(f"{variant}-{work.settings.seeds[0]}" for variant in work.settings.variants)]
    there = [name for name in names if read_note(work, "sft/train" if name == "sft" else f"grpo/{name}")]
    if chosen := read_note(work, "supporter/choose"):
        there = list(dict.fromkeys([*there, chosen.results["supporter"]]))
    found = {name: [one.text for one in answer(work, str(adapter(work, name)), requests)] for name in there}
    return {"moments": moments, "outputs": found}


def timing(work: Work) -> dict[str, Any]:
    plan = work.settings.studies
    cases = [case_of(item) for item in data.read(work.items("test"))[: plan.timing_items]]
    judges = {name: open_judge(judge_spec(work, spec), device=_device(work)) for name, spec in PAIR.items()}
    timed = time_study(judges, cases, batch=plan.timing_batch, rounds=plan.timing_rounds)
    kept = msgspec.to_builtins(timed)
    kept.pop("laps")
    return {"timing": kept}


def consistency(work: Work) -> dict[str, Any]:
    written = [item for item in data.read(samples_path(work, "sft")) if item.candidate and item.candidate.reasoning]
    policy = "the SFT model"
    if len(written) < min(_FEWEST, work.settings.data.moments):
        written, policy = data.read(work.items("test")), "silver"
    folder = EvaluationFolder(work.path("consistency"))
    folder.add_set("samples", written)
    told = {}
    for name, spec in PAIR.items():
        opened = open_judge(judge_spec(work, spec), batch=work.settings.measure.batch, device=_device(work))
        ask_judge(opened, folder, name)
        told[name] = folder.judgements("samples", name)
    following, quality = _following(work, written)
    rounds, seed = work.settings.measure.rounds, work.settings.seed
    made = measure_consistency(written, told, following, judge_model=RULE, policy=policy, rounds=rounds, seed=seed)
    return {"consistency": msgspec.to_builtins(made), "classifier": quality}


def _following(work: Work, items: list[Item]) -> tuple[dict[str, Following], dict[str, Any]]:
    most = work.settings.studies.classifier_utterances
    vectors = embedders(work.settings.embedder)
    labelled = read_rows(work.items("strategies"), Dialogue)
    reader = train_classifier(labelled, vectors, "en", most=most, seed=work.settings.seed)
    usable = [item for item in items if item.candidate and item.candidate.reasoning and item.language == "en"]
    read = reader.classify([item.candidate.response for item in usable if item.candidate])
    found = {}
    for item, strategy in zip(usable, read, strict=True):
        assert item.candidate is not None and item.candidate.reasoning is not None
        stated = item.candidate.reasoning.strategy.strategy
        found[item.id] = Following(item.id, strategy == stated, stated in item.reference_strategies)
    return found, msgspec.to_builtins(reader.quality)


def tau(work: Work) -> dict[str, Any]:
    """Diversity against reward: without reweighting (UR), as the paper has it (URP), and the multipliers."""
    seed = work.settings.seeds[0]
    runs = {0.0: work.run("grpo", f"ur-{seed}"), 1.0: work.run("grpo", f"urp-{seed}")}
    runs |= {scale: work.run("tau", f"{scale:g}-{seed}") for scale in work.settings.studies.tau}
    points: list[Point] = marked([point(scale, runs[scale]) for scale in sorted(runs)])
    kept = [msgspec.to_builtins(msgspec.structs.replace(one, run=f"tau x {one.tau:g}")) for one in points]
    return {"points": kept}


def elsewhere(work: Work) -> dict[str, Any]:
    """The judges on corpora they were not trained on, and on the gold set; labels of different origin stay apart."""
    folder = EvaluationFolder(work.path("elsewhere"))
    sets = {"gold": list(gold.load("en"))[: 8 if work.tiny else None]}
    for name in ("escot", "mesc"):
        if work.items(name).is_file():
            sets[name] = data.read(work.items(name))
    for name, items in sets.items():
        folder.add_labelled_set(name, items)
    for name, spec in {"UnifiReward": "unified", "PRM + ORM": "separate"}.items():
        opened = open_judge(judge_spec(work, spec), batch=work.settings.measure.batch, device=_device(work))
        ask_judge(opened, folder, name, orders="both")
    made = measure_folder(folder, rounds=work.settings.measure.rounds, seed=work.settings.seed)
    missing = [name for name in ("escot", "mesc") if name not in sets]
    if missing and not work.tiny:
        raise UserError(f"There are no items of {', '.join(missing)}: --data had no such folder in the data stage.")
    return {"sections": [reduced(section) for section in made.sections], "missing": missing}


def _device(work: Work) -> str | None:
    return None if work.settings.device == "auto" else work.settings.device
