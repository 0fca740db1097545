"""All pieces of the miniature, in order, with what each of them needs and reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from runs.miniature import adapters, choosing, data, home, measuring, studies, tables, training
from runs.miniature.pieces import Piece
from runs.miniature.settings import MiniatureSettings, over

STAGES = ("data", "sft", "judges", "table1", "grpo", "sample", "score", "studies", "supporter", "tables", "adapters")


def plan(settings: MiniatureSettings) -> list[Piece]:
    """The pieces. Their settings are those parts of config.yaml that change what comes out."""
    known: dict[str, Any] = msgspec.to_builtins(settings)

    def piece(name: str, work: Any, *parts: str, settings: dict[str, Any] | None = None, **more: Any) -> Piece:
        stage = name.partition("/")[0]
        used = {part: known[part] for part in parts} | (settings or {})
        return Piece(name=name, work=work, settings=used, minutes=known["minutes"][stage], **more)

    def trained_by(name: str, folder: str, change: dict[str, Any], seed: int, judge: tuple[str, ...]) -> Piece:
        """A run of GRPO. Its settings are its own and what all runs share: other runs may be added later."""
        work = partial(training.grpo, name=folder, change=change, seed=seed)
        needs, own = ("sft/train", *judge), {"change": change}
        return piece(name, work, "grpo", settings=own, seed=seed, needs=needs, reads=_items("prompts"))

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
    test: dict[str, Any] = {"seed": seed, "reads": _items("test")}
    made += [
        piece("table1/judges", measuring.table1_judges, needs=trained[:3], early=True, **test),
        piece("table1/probe", measuring.table1_probe, needs=("table1/judges",), **test),
        piece("table1/report", measuring.table1_report, "measure", needs=("table1/probe",), **test),
    ]
    needs: tuple[str, ...]
    names = ["sft"]
    for variant, change in settings.variants.items():
        for one in settings.seeds:
            names.append(f"{variant}-{one}")
            judge = ("judges/prm", "judges/orm") if variant == "por" else ("judges/unified",)
            made.append(trained_by(f"grpo/{names[-1]}", f"grpo/{names[-1]}", change, one, judge))
    for name in names:
        needs = ("sft/train" if name == "sft" else f"grpo/{name}",)
        answering = partial(measuring.sample, name=name)
        made.append(piece(f"sample/{name}", answering, "sample", needs=needs, seed=seed, reads=_items("moments")))
    needs = (*(f"sample/{name}" for name in names), "judges/evaluation", "judges/unified")
    score = partial(measuring.score, names=names)
    made.append(piece("score/all", score, "seeds", "measure", needs=needs, seed=seed, early=True))
    made.append(piece("studies/timing", studies.timing, "studies", needs=trained[:3], **test))
    needs = ("sample/sft", *trained[:3])
    made.append(piece("studies/consistency", studies.consistency, "studies", needs=needs, **test))
    made.append(piece("studies/elsewhere", studies.elsewhere, "measure", needs=trained[:3], seed=seed))
    first = settings.seeds[0]
    for scale in settings.studies.tau:
        change = over(settings.variants["urp"], {"reward": {"tau_scale": scale}})
        made.append(trained_by(f"studies/tau-{scale:g}", f"tau/{scale:g}-{first}", change, first, ("judges/unified",)))
    needs = (f"grpo/ur-{first}", f"grpo/urp-{first}", *(f"studies/tau-{scale:g}" for scale in settings.studies.tau))
    made.append(piece("studies/tau", studies.tau, "studies", needs=needs, seed=first))
    made += _supporter(settings, piece, trained_by)
    everything = ("table1/report", "score/all", "studies/timing", "studies/consistency", "studies/elsewhere")
    made.append(piece("adapters/both", adapters.ship, needs=("supporter/confirm", "table1/report"), seed=seed))
    made.append(piece("tables/all", tables.make, needs=(*everything, "studies/tau"), seed=seed, again=True))
    return made


def _supporter(
    settings: MiniatureSettings, piece: Callable[..., Piece], trained_by: Callable[..., Piece]
) -> list[Piece]:
    """Candidates, their answers, the choice, and whether it holds."""
    made, seed = [], settings.seed
    needs: tuple[str, ...]
    for name, recipe in settings.recipes.items():
        for one in recipe.seeds:
            folder = f"{name}-{one}"
            judge = ("judges/unified",)
            made.append(trained_by(f"supporter/{folder}", f"candidates/{folder}", recipe.grpo, one, judge))
    stage = {"candidates": "supporter", "grpo": "grpo"}
    for name, runs in settings.means.items():
        needs = tuple(f"{stage[folder]}/{run}" for folder, _, run in (one.partition("/") for one in runs))
        averaged = partial(choosing.mean, name=name, of=runs)
        made.append(piece(f"supporter/{name}", averaged, settings={"of": list(runs)}, needs=needs, seed=seed))
    everyone = ("sft", *settings.candidates)
    for name in everyone:
        needs = ("sft/train" if name == "sft" else f"supporter/{name}", "judges/evaluation", "data/choice")
        asked, reads = partial(choosing.ask, name=name), _items("choice")
        made.append(piece(f"supporter/ask-{name}", asked, "sample", needs=needs, seed=seed, reads=reads))
    needs = tuple(f"supporter/ask-{name}" for name in everyone)
    made.append(piece("supporter/choose", choosing.choose, "measure", needs=needs, seed=seed, early=True))
    needs, reads = ("supporter/choose", "data/confirm"), _items("confirm")
    used = ("sample", "measure", "draws")
    made.append(piece("supporter/confirm", choosing.confirm, *used, needs=needs, seed=seed, reads=reads, early=True))
    needs, reads = ("supporter/choose", "data/all"), _items("moments")
    made.append(piece("supporter/home", home.home, *used[:2], needs=needs, seed=seed, reads=reads, early=True))
    needs = ("sft/train", *(f"grpo/{variant}-{settings.seeds[0]}" for variant in settings.variants), "supporter/choose")
    made.append(piece("supporter/outputs", studies.outputs, "sample", needs=needs, seed=seed, early=True))
    return made


def _items(*names: str) -> tuple[str, ...]:
    return tuple(f"data/{name}.jsonl.gz" for name in names)
