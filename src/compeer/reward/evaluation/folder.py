"""A folder that keeps what judges were asked, so that reports can be made again without asking.

    run.json                      the judges, the sets, and the settings
    sets/NAME.jsonl               the items, as they were
    judgements/SET/JUDGE.jsonl    one judgement per line, in the order in which they came
    report.md, report.json        and report.html, by the command

Judgements are written as they arrive, in portions cut where the history changes, so that a judge can encode a history
once per group. A run that was stopped continues: known judgements are not asked again, failed ones are. Another judge
under the same name, or other items, are refused.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from compeer.cer.item import Item, read_items
from compeer.dialogue import read_rows, write_json, write_rows
from compeer.errors import UserError
from compeer.pipeline.stage import LiveLine
from compeer.reward.case import case_of, split_by_history
from compeer.reward.evaluation.measure import JudgeRole, by_label_source
from compeer.reward.judge import Judge, Judgement, Orders, run_and_close
from compeer.reward.verdict import Kind
from compeer.typed import from_json

T = TypeVar("T")
_PORTION = 64  # cases


class JudgeEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    role: JudgeRole = "judge"
    kind: Kind = "unified"
    orders: Orders = "one"
    identity: dict[str, Any] = {}


class EvaluationRun(msgspec.Struct, kw_only=True):
    """What run.json holds: the sets with a hash of their items, and the judges."""

    sets: dict[str, str] = {}
    judges: list[JudgeEntry] = []


class EvaluationFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = EvaluationRun()
        if self._run_file.exists():
            try:
                self.run = from_json(self._run_file.read_bytes(), EvaluationRun)
            except msgspec.MsgspecError as problem:
                raise UserError(f"{self._run_file} cannot be read: {problem}. Choose another --out.") from None

    @classmethod
    def existing(cls, path: Path) -> EvaluationFolder:
        folder = cls(path)
        if not folder.run.sets:
            raise UserError(f"{path} holds no kept judgements (no run.json); run compeer reward eval with --out first.")
        return folder

    def add_set(self, name: str, items: Sequence[Item]) -> None:
        """Keep the items of a set; other items under a known name are refused."""
        repeated = len(items) - len({item.id for item in items})
        if repeated:
            raise UserError(f"{repeated} items of {name} have the id of another one; ids must differ.")
        digest = items_sha256(items)
        if self.run.sets.get(name, digest) != digest:
            raise UserError(f"{self.path} holds judgements of other items named {name}; choose another --out.")
        if name not in self.run.sets:
            write_rows(self.set_path(name), items)
            self.run.sets[name] = digest
            self._write_run()

    def add_labelled_set(self, name: str, items: Sequence[Item]) -> None:
        """The same for a set to measure on; one without labels is refused before anything is asked."""
        if not by_label_source(items):
            raise UserError(f"None of the {len(items):,} items of {name} has a label, so there is nothing to measure.")
        self.add_set(name, items)

    def items(self, name: str) -> list[Item]:
        return list(read_items(self.set_path(name)))

    def set_path(self, name: str) -> Path:
        return self.path / "sets" / f"{_file_name(name)}.jsonl"

    def add_judge(self, entry: JudgeEntry) -> None:
        """Record a judge; UserError for another one under the same name."""
        entry = from_json(msgspec.json.encode(entry), JudgeEntry)  # as it will be read back: a tuple becomes a list
        known = next((other for other in self.run.judges if other.name == entry.name), None)
        if known is None:
            self.run.judges.append(entry)
            self._write_run()
        elif known != entry:
            changed = [name for name in JudgeEntry.__struct_fields__ if getattr(known, name) != getattr(entry, name)]
            raise UserError(
                f"{self.path} holds judgements of another judge named {entry.name} ({', '.join(changed)} differ); name "
                "this one differently (NAME=SPEC), or choose another --out."
            )

    def judgements(self, name: str, judge: str) -> dict[str, Judgement]:
        """A judge's judgements of a set so far; the later of two judgements of an item counts."""
        return {row.id: row for row in read_whole_rows(self._judgement_file(name, judge), Judgement)}

    def append(self, name: str, judge: str, judgements: Iterable[Judgement]) -> None:
        append_rows(self._judgement_file(name, judge), judgements)

    def _judgement_file(self, name: str, judge: str) -> Path:
        return self.path / "judgements" / _file_name(name) / f"{_file_name(judge)}.jsonl"

    def _write_run(self) -> None:
        write_json(self._run_file, self.run)

    @property
    def _run_file(self) -> Path:
        return self.path / "run.json"


def items_sha256(items: Iterable[Item]) -> str:
    return hashlib.sha256(b"\n".join(msgspec.json.encode(item) for item in items)).hexdigest()


def _file_name(name: str) -> str:
    """A name as a file name; names that would become equal are told apart by a hash."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:80]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def write_study(out: Path, name: str, report: Any, text: str) -> None:
    """NAME.md and NAME.json in a folder."""
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{name}.md").write_text(text, encoding="utf-8")
    write_json(out / f"{name}.json", report)


def append_rows(path: Path, rows: Iterable[Any]) -> None:
    """Add JSON lines to a file in one write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def read_whole_rows(path: Path, kind: type[T]) -> list[T]:
    """The rows of a file that `append_rows` wrote; a last line that was cut off is removed."""
    if not path.exists():
        return []
    whole = path.read_bytes()
    if whole and not whole.endswith(b"\n"):
        path.write_bytes(whole[: whole.rfind(b"\n") + 1])
    return list(read_rows(path, kind))


def ask_judge(
    judge: Judge,
    folder: EvaluationFolder,
    name: str,
    *,
    orders: Orders = "one",
    sets: Sequence[str] | None = None,
) -> JudgeEntry:
    """Have a judge judge every item of the folder's sets that it has not judged yet, and close it."""

    async def judge_sets() -> JudgeEntry:
        entry = JudgeEntry(name=name, kind=judge.kind, orders=orders, identity=dict(await judge.identity()))
        folder.add_judge(entry)
        for set_name in sets or list(folder.run.sets):
            known = folder.judgements(set_name, name)
            items = folder.items(set_name)
            cases = [case_of(item) for item in items if item.id not in known or known[item.id].failure is not None]
            with LiveLine(unit="items").over(f"{name} on {set_name}", len(cases)) as tell:
                for portion in split_by_history(cases, _PORTION):
                    folder.append(set_name, name, await judge.judge(cases[portion.start : portion.stop], orders=orders))
                    tell(portion.stop)
        return entry

    return run_and_close(judge_sets(), [judge])
