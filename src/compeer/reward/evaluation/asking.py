"""Asking judges about sets of items, into a folder: in portions, each kept as soon as it has come.

Portions are cut where the history changes, so that a judge that encodes a history once for a group can do so.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

from compeer.cer.item import Item
from compeer.reward.case import case_of
from compeer.reward.evaluation.folder import Entry, Folder
from compeer.reward.grouping import parted
from compeer.reward.judge import Judge, Orders

PORTION = 64
Say = Callable[[str], None]


def to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def ask(
    judge: Judge,
    folder: Folder,
    name: str,
    *,
    orders: Orders = "one",
    sets: Sequence[str] | None = None,
    say: Say = to_stderr,
) -> Entry:
    """Have a judge judge every item of the folder's sets that it has not judged yet."""
    entry = Entry(name=name, kind=judge.kind, orders=orders, identity=dict(await judge.identity()))
    folder.add_judge(entry)
    for set_name in sets or list(folder.run.sets):
        known = folder.judgements(set_name, name)
        left = [item for item in folder.items(set_name) if item.id not in known or known[item.id].failure is not None]
        await _ask_set(judge, folder, entry, set_name, left, say)
    return entry


async def _ask_set(judge: Judge, folder: Folder, entry: Entry, name: str, items: Sequence[Item], say: Say) -> None:
    progress = Ticker(f"{entry.name} on {name}", len(items), say)
    cases = [case_of(item) for item in items]
    for portion in parted(cases, PORTION):
        judgements = await judge.judge(cases[portion.start : portion.stop], orders=entry.orders)
        folder.append(name, entry.name, judgements)
        progress.tell(portion.stop)


class Ticker:
    """Says how far a piece of work is, at most every ten seconds."""

    def __init__(self, what: str, total: int, say: Say, every: float = 10.0) -> None:
        self.what, self.total, self.say, self.every = what, total, say, every
        self.next = time.monotonic() + every

    def tell(self, done: int) -> None:
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + self.every
            self.say(f"{self.what}: {done:,} of {self.total:,}")
