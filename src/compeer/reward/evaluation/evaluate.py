"""The evaluation from beginning to end: ask the judges, fit the probes, measure, write.

    evaluate({"test": items}, {"UnifiReward": "hf:judge"}, folder)

What is asked is kept in the folder; `write` makes table, JSON and figures of a folder alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from compeer.cer.item import Item
from compeer.errors import UserError
from compeer.models.embedding import packaged as embedder
from compeer.models.request import run
from compeer.reward.evaluation.baselines import FOLDS, Embedders, probe, remembering
from compeer.reward.evaluation.folder import Entry, Folder, Say, ask, to_stderr
from compeer.reward.evaluation.measure import by_label_source
from compeer.reward.evaluation.report import TEXT_ONLY, Report, report
from compeer.reward.evaluation.table import markdown
from compeer.reward.judge import Judge, Orders
from compeer.statistics import ROUNDS


def keep_sets(folder: Folder, sets: Mapping[str, Sequence[Item]]) -> None:
    """Keep the items to be judged; a set without labels is refused before anything is asked."""
    for name, items in sets.items():
        if not by_label_source(items):
            raise UserError(f"None of the {len(items):,} items of {name} has a label, so there is nothing to measure.")
        folder.add_set(name, items)


def ask_judge(judge: Judge, folder: Folder, name: str, *, orders: Orders = "one", say: Say = to_stderr) -> Entry:
    """Have one judge judge all sets of a folder, and close it."""

    async def work() -> Entry:
        try:
            return await ask(judge, folder, name, orders=orders, say=say)
        finally:
            await judge.close()

    return run(work())


def add_probe(folder: Folder, name: str, train: Sequence[Item], *, embedders: Embedders = embedder) -> None:
    """Fit the linear probe and the one without the history on labelled items, and have them judge all sets."""
    digest = hashlib.sha256(b"\n".join(msgspec.json.encode(item) for item in train)).hexdigest()
    labels = sorted(by_label_source(train))
    if not labels:
        raise UserError(f"None of the items of {name} has a label, so no probe can learn from them.")
    embedders = remembering(embedders)
    known = {"train": name, "sha256": digest, "items": len(train), "label_sources": labels, "folds": FOLDS}
    for history, called in ((True, f"linear probe ({name})"), (False, f"{TEXT_ONLY} ({name})")):
        folder.add_judge(Entry(name=called, role="probe", identity={**known, "history": history}))
        for set_name in folder.run.sets:
            items = folder.items(set_name)
            if set(folder.judgements(set_name, called)) >= {item.id for item in items}:
                continue
            judgements = probe(train, items, history=history, embedders=embedders)
            folder.append(set_name, called, (judgements[item.id] for item in items if item.id in judgements))


def write(folder: Folder, out: Path, *, rounds: int = ROUNDS, seed: int = 0, figures: bool = True) -> Report:
    """Measure what a folder holds, and write report.md, report.json and a figure for each section."""
    made = report(folder, rounds=rounds, seed=seed)
    out.mkdir(parents=True, exist_ok=True)
    (out / "report.md").write_text(markdown(made), encoding="utf-8")
    (out / "report.json").write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
    if figures:
        from compeer.reward.evaluation.plot import draw

        for number, section in enumerate(made.sections):
            draw(section, out / ("report.png" if number == 0 else f"report-{number + 1}.png"))
    return made
