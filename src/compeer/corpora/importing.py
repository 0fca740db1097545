"""An import, from a stream of outcomes to a file: dialogues to one place, rejections to another, and a summary.

Everything streams. Both files are written beside their targets and put in place only when all is in them, so an
interrupted import leaves what was there before. An import in which nothing could be used leaves the old corpus in
place too, but it does write the rejections: they say why.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any

import msgspec

from compeer.corpora.reading import CorpusError, Rejected
from compeer.corpora.records import count
from compeer.dialogue import Dialogue, write_rows
from compeer.dialogue.jsonl import rejects_path, replacing

_KINDS = 50  # of reasons and of unknown names, told apart in the summary


class ImportSummary(msgspec.Struct):
    out: str
    rejects: str | None = None  # where the rejections are
    imported: int = 0
    rejected: int = 0
    reasons: dict[str, int] = {}
    examples: dict[str, str] = {}  # a place for each reason
    strategies_mapped: int = 0
    strategies_unmapped: dict[str, int] = {}

    def take(self, dialogue: Dialogue) -> None:
        self.imported += 1
        self.strategies_mapped += sum(one.strategy is not None for one in dialogue.utterances)
        unmapped: Any = dialogue.extra.get("unmapped_strategies")
        for name, times in (unmapped if isinstance(unmapped, dict) else {}).items():
            count(self.strategies_unmapped, name, times, most=_KINDS)

    def reject(self, rejected: Rejected) -> None:
        self.rejected += 1
        # "utterance 3: text is empty" and "utterance 8: text is empty" are one reason
        kind = count(self.reasons, re.sub(r"\d+", "N", rejected.reason), most=_KINDS)
        self.examples.setdefault(kind, f"{rejected.file}, line {rejected.line}")


def run(
    outcomes: Iterable[Dialogue | Rejected],
    out: str | Path,
    rejects: Path | None = None,
    limit: int | None = None,
    watch: Callable[[ImportSummary], None] | None = None,
) -> ImportSummary:
    """Write the dialogues to `out` and the rejections to `rejects` (beside `out` unless given).

    `limit` is how many dialogues at most. `watch` sees the growing summary after every record.
    """
    place = rejects or rejects_path(out)
    summary = ImportSummary(out=str(out), rejects=str(place) if place else None)

    def dialogues(rejections: IO[bytes] | None) -> Iterator[Dialogue]:
        for outcome in outcomes:
            if isinstance(outcome, Rejected):
                summary.reject(outcome)
                if rejections:
                    rejections.write(msgspec.json.encode(outcome) + b"\n")
            else:
                summary.take(outcome)
                yield outcome
            if watch:
                watch(summary)
            if limit is not None and summary.imported >= limit:
                break
        if not summary.imported:
            why = max(summary.reasons, key=lambda kind: summary.reasons[kind]) if summary.reasons else "no records"
            todo = f"See {place}, and check" if place and summary.rejected else "Check"
            raise CorpusError(out, f"nothing was imported ({why})", f"{todo} that this is the right corpus and path")

    useless: CorpusError | None = None
    with replacing(place) if place else nullcontext() as rejections:
        try:
            write_rows(out, dialogues(rejections))
        except CorpusError as problem:
            if summary.imported or not summary.rejected:
                raise
            useless = problem  # nothing could be used: the rejections say why
    if useless is not None:
        raise useless
    return summary
