"""All pieces of the miniature, in order, with what each of them needs and reads."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from runs.miniature import adapters, choosing, data, measuring, studies, tables, training
from runs.miniature.pieces import Piece
from runs.miniature.settings import Settings

STAGES = ("data", "sft", "judges", "table1", "grpo", "sample", "score", "studies", "tables", "adapters")


def plan(settings: Settings) -> list[Piece]:
    """The pieces. Their settings are those parts of config.yaml that change what comes out."""
    known: dict[str, Any] = msgspec.to_builtins(settings)

    def piece(name: str, work: Any, *parts: str, **more: Any) -> Piece:
        stage = name.partition("/")[0]
        used = {part: known[part] for part in parts}
        return Piece(name=name, work=work, settings=used, minutes=settings.minutes[stage], **more)

    seed = settings.seed
    made = [
        piece("data/all", data.make, "seed", "data", seed=seed),
        piece("data/choice", data.choice, "choice", needs=("data/all",), reads=_items("test")),
        piece("data/confirm", data.confirm, "choice", "confirm", needs=("data/all",), reads=_items("test")),
        piece("sft/train", training.sft, "seed", "sft", seed=seed, needs=("data/all",), reads=_items("sft")),
    ]
    for name in training.JUDGES:
        reads = _items("evaluation" if name == "evaluation" else "judge")
        work = partial(training.judge, name=name)
        made.append(piece(f"judges/{name}", work, "seed", "judges", seed=seed, needs=("data/all",), reads=reads))
    trained = tuple(f"judges/{name}" for name in training.JUDGES)
    test = {"seed": seed, "reads": _items("test")}
    made += [
        piece("table1/judges", measuring.table1_judges, needs=trained[:3], early=True, **test),
        piece("table1/probe", measuring.table1_probe, needs=("table1/judges",), **test),
        piece("table1/report", measuring.table1_report, "measure", needs=("table1/probe",), **test),
    ]
    names = ["sft"]
    for variant in settings.variants:
        for one in settings.seeds:
            names.append(f"{variant}-{one}")
            needs = ("sft/train", *(("judges/prm", "judges/orm") if variant == "por" else ("judges/unified",)))
            work = partial(training.grpo, variant=variant, seed=one)
            more = {"seed": one, "needs": needs, "reads": _items("prompts")}
            made.append(piece(f"grpo/{names[-1]}", work, "grpo", "variants", **more))
    for name in names:
        needs = ("sft/train" if name == "sft" else f"grpo/{name}",)
        work = partial(measuring.sample, name=name)
        reads = _items("moments", "choice")
        made.append(piece(f"sample/{name}", work, "sample", needs=(*needs, "data/choice"), seed=seed, reads=reads))
    needs = (*(f"sample/{name}" for name in names), "judges/evaluation", "judges/unified")
    score = partial(measuring.score, names=names)
    made.append(piece("score/all", score, "seeds", "measure", needs=needs, seed=seed, early=True))
    needs = ("score/all", "data/confirm")
    made.append(piece("score/confirm", choosing.confirm, "sample", "measure", needs=needs, reads=_items("confirm")))
    made.append(piece("studies/timing", studies.timing, "studies", needs=trained[:3], **test))
    needs = ("sample/sft", *trained[:3])
    made.append(piece("studies/consistency", studies.consistency, "studies", needs=needs, **test))
    made.append(piece("studies/elsewhere", studies.elsewhere, "measure", needs=trained[:3], seed=seed))
    first = settings.seeds[0]
    needs = ("sft/train", *(f"grpo/{variant}-{first}" for variant in settings.variants))
    made.append(piece("studies/outputs", studies.outputs, "sample", needs=needs, seed=seed, early=True))
    for scale in settings.studies.tau:
        work, needs = partial(studies.tau_run, scale=scale), ("sft/train", "judges/unified")
        made.append(piece(f"studies/tau-{scale:g}", work, "grpo", needs=needs, seed=first, reads=_items("prompts")))
    needs = (f"grpo/ur-{first}", f"grpo/urp-{first}", *(f"studies/tau-{scale:g}" for scale in settings.studies.tau))
    made.append(piece("studies/tau", studies.tau, "studies", needs=needs, seed=first))
    everything = ("table1/report", "score/all", "studies/timing", "studies/consistency", "studies/elsewhere")
    made.append(piece("adapters/both", adapters.ship, needs=("score/confirm", "table1/report"), seed=seed))
    made.append(piece("tables/all", tables.make, needs=(*everything, "studies/tau"), seed=seed, again=True))
    return made


def _items(*names: str) -> tuple[str, ...]:
    return tuple(f"data/{name}.jsonl.gz" for name in names)
