"""A folder that keeps what was asked, so that tables can be made again without asking.

    run.json                      who judged what, with which settings
    sets/NAME.jsonl               the items, as they were
    judgements/SET/JUDGE.jsonl    one judgement a line, in the order in which they came
    report.md, report.json, report.png

Judgements are written as they arrive. A run that was stopped goes on where it was: what is there is not asked again,
what failed is. Another judge under the same name, or other items, are refused.

Asking judges about sets of items, into a folder: in portions, each kept as soon as it has come.

Portions are cut where the history changes, so that a judge that encodes a history once for a group can do so.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.item import Item, read_items
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.reward.case import case_of, split_by_history
from compeer.reward.evaluation.measure import Role
from compeer.reward.judge import Judge, Judgement, Orders
from compeer.reward.verdict import Kind
from compeer.typed import from_json


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One judge of a run. `identity` tells it from every other."""

    name: str
    role: Role = "judge"
    kind: Kind = "unified"
    orders: Orders = "one"
    identity: dict[str, Any] = {}


class Run(msgspec.Struct, kw_only=True):
    """What run.json holds: the names of the sets, with a hash of their items, and the judges."""

    sets: dict[str, str] = {}
    judges: list[Entry] = []


class Folder:
    """The kept material of one evaluation."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = Run()
        if self._noted.exists():
            try:
                self.run = from_json(self._noted.read_bytes(), Run)
            except msgspec.MsgspecError as problem:
                raise UserError(f"{self._noted} cannot be read: {problem}. Choose another --out.") from None

    @classmethod
    def existing(cls, path: Path) -> Folder:
        """The folder of an earlier run."""
        folder = cls(path)
        if not folder.run.sets:
            raise UserError(f"{path} holds no kept judgements (no run.json); run compeer reward eval with --out first.")
        return folder

    def add_set(self, name: str, items: Sequence[Item]) -> None:
        """Keep the items of a set; other items under a known name are refused."""
        repeated = len(items) - len({item.id for item in items})
        if repeated:
            raise UserError(f"{repeated} items of {name} have the id of another one; ids must differ.")
        digest = hashlib.sha256(b"\n".join(msgspec.json.encode(item) for item in items)).hexdigest()
        if self.run.sets.get(name, digest) != digest:
            raise UserError(f"{self.path} holds judgements of other items named {name}; choose another --out.")
        if name not in self.run.sets:
            write_rows(self.set_path(name), items)
            self.run.sets[name] = digest
            self._note()

    def items(self, name: str) -> list[Item]:
        return list(read_items(self.set_path(name)))

    def set_path(self, name: str) -> Path:
        return self.path / "sets" / f"{_file(name)}.jsonl"

    def add_judge(self, entry: Entry) -> None:
        """Note a judge; another one under the same name is refused."""
        # as it will be read back: a tuple becomes a list
        entry = from_json(msgspec.json.encode(entry), Entry)
        known = next((other for other in self.run.judges if other.name == entry.name), None)
        if known is None:
            self.run.judges.append(entry)
            self._note()
        elif known != entry:
            changed = [name for name in Entry.__struct_fields__ if getattr(known, name) != getattr(entry, name)]
            raise UserError(
                f"{self.path} holds judgements of another judge named {entry.name} ({', '.join(changed)} differ); name "
                "this one differently (NAME=SPEC), or choose another --out."
            )

    def judgements(self, name: str, judge: str) -> dict[str, Judgement]:
        """What a judge has said of a set so far; of two judgements of an item the later one counts."""
        path = self._kept(name, judge)
        if not path.exists():
            return {}
        whole = path.read_bytes()
        if whole and not whole.endswith(b"\n"):  # cut off in the middle of a line
            path.write_bytes(whole[: whole.rfind(b"\n") + 1])
        return {row.id: row for row in read_rows(path, Judgement)}

    def append(self, name: str, judge: str, judgements: Iterable[Judgement]) -> None:
        """Add judgements to what is there."""
        path = self._kept(name, judge)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as out:
            out.write(b"".join(msgspec.json.encode(row) + b"\n" for row in judgements))

    def _kept(self, name: str, judge: str) -> Path:
        return self.path / "judgements" / _file(name) / f"{_file(judge)}.jsonl"

    def _note(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        written = self._noted.with_name(".run.json")
        written.write_bytes(msgspec.json.format(msgspec.json.encode(self.run)) + b"\n")
        written.replace(self._noted)

    @property
    def _noted(self) -> Path:
        return self.path / "run.json"


def _file(name: str) -> str:
    """A name as a file name; names that would fall together are told apart by a hash."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:80]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


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
    for portion in split_by_history(cases, PORTION):
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
