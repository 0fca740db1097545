"""What the filter dropped, by reason and by corpus, beside the paper's 23 %.

The paper gives one number for its whole collection, removed by a model alone. So the share the model removed is
shown apart from what the checks removed before it. Requests that failed are no verdicts: they are counted, but
not as dropped. Everything is read from the files a run leaves, and must agree with its manifest.

    print(table(collect("kept.manifest.json")))
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from compeer.cer.checks import CODES
from compeer.cer.filter import REASONS
from compeer.cer.manifest import Manifest
from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.typed import from_json

if TYPE_CHECKING:
    from rich.table import Table

PAPER = 0.23  # "removes over 23 % of the data"
_UNKNOWN = "(unreadable)"


class Corpus(msgspec.Struct):
    """What became of the dialogues of one corpus."""

    kept: int = 0
    crisis: int = 0  # of the kept
    dropped: Counter[str] = msgspec.field(default_factory=Counter)  # by reason, checks and model
    failed: Counter[str] = msgspec.field(default_factory=Counter)  # no verdict: no answer, broken rows, errors

    @property
    def judged(self) -> int:
        return self.kept + self.dropped.total()

    @property
    def share(self) -> float:
        """Dropped, of those with a verdict."""
        return self.dropped.total() / self.judged if self.judged else 0.0

    @property
    def share_by_model(self) -> float:
        """Dropped by the model, of those it was asked about: the paper's number."""
        by_model = sum(self.dropped[reason] for reason in REASONS)
        asked = self.kept + by_model
        return by_model / asked if asked else 0.0


class DropReport(msgspec.Struct):
    """The whole, and each corpus."""

    total: Corpus
    corpora: dict[str, Corpus]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for --json."""
        return {
            "paper": {"dropped": PAPER},
            "total": _plain(self.total),
            "corpora": {name: _plain(corpus) for name, corpus in self.corpora.items()},
        }


class _Kept(msgspec.Struct):
    source: str
    crisis: bool = False


class _Rejected(msgspec.Struct):
    reason: str
    row: Any = None


def collect(manifest: str | Path) -> DropReport:
    """The report on a finished run of the filter."""
    try:
        made = from_json(Path(manifest).read_bytes(), Manifest)
    except (OSError, msgspec.MsgspecError) as problem:
        raise UserError(f"{manifest} is no manifest of a finished stage ({problem}).") from None
    if made.stage != "filter":
        raise UserError(f"{manifest} is about the stage {made.stage}; the drop report is about the filter.")
    folder = Path(manifest).parent  # the files may have moved together since
    report = count(folder / Path(made.output).name, folder / Path(made.rejects).name)
    found = dict(report.total.dropped + report.total.failed)
    if (report.total.kept, found) != (made.counts.rows_out, made.counts.rejected):
        raise UserError(
            f"{manifest} tells of {made.counts.rows_out} kept and {made.counts.rejected} rejected, "
            f"but its files hold {report.total.kept} and {found}. Run the filter again."
        )
    return report


def count(output: str | Path, rejects: str | Path) -> DropReport:
    """The report from the two files themselves, streamed."""
    corpora: dict[str, Corpus] = {}
    for kept in read_rows(output, _Kept):
        corpus = corpora.setdefault(kept.source, Corpus())
        corpus.kept += 1
        corpus.crisis += kept.crisis
    for rejected in read_rows(rejects, _Rejected):
        row = rejected.row if isinstance(rejected.row, dict) else {}
        corpus = corpora.setdefault(str(row.get("source", _UNKNOWN)), Corpus())
        verdict = rejected.reason in CODES or rejected.reason in REASONS
        (corpus.dropped if verdict else corpus.failed)[rejected.reason] += 1
    total = Corpus()
    for corpus in corpora.values():
        total.kept += corpus.kept
        total.crisis += corpus.crisis
        total.dropped += corpus.dropped
        total.failed += corpus.failed
    return DropReport(total, dict(sorted(corpora.items())))


def table(report: DropReport) -> Table:
    """A row for each reason, a column for each corpus."""
    from rich.table import Table
    from rich.text import Text

    columns = [*report.corpora.values(), report.total]
    caption = f"The paper: over {PAPER:.0%} dropped, by Qwen2.5-72B. Here: {report.total.share:.1%}."
    shown = Table(title="What the filter dropped", caption=caption, title_justify="left", caption_justify="left")
    shown.add_column("")
    for name in (*report.corpora, "all"):
        shown.add_column(Text(name), justify="right")
    shown.add_row("dialogues judged", *(f"{corpus.judged:,}" for corpus in columns), end_section=True)
    for reason in (*CODES, *REASONS):
        if report.total.dropped[reason]:
            shown.add_row(reason, *(_number(corpus.dropped[reason]) for corpus in columns))
    shown.add_section()
    shown.add_row("dropped", *(f"{corpus.share:.1%}" for corpus in columns))
    if any(report.total.dropped[reason] for reason in REASONS):
        shown.add_row("dropped by the model", *(f"{corpus.share_by_model:.1%}" for corpus in columns))
    shown.add_row("kept", *(f"{corpus.kept:,}" for corpus in columns))
    shown.add_row("of these, crisis", *(_number(corpus.crisis) for corpus in columns))
    for reason in sorted(report.total.failed):
        shown.add_row(f"no verdict: {reason}", *(_number(corpus.failed[reason]) for corpus in columns))
    return shown


def _number(value: int) -> str:
    return f"{value:,}" if value else ""


def _plain(corpus: Corpus) -> dict[str, Any]:
    return {
        "judged": corpus.judged,
        "kept": corpus.kept,
        "crisis": corpus.crisis,
        "dropped": dict(corpus.dropped),
        "dropped_share": round(corpus.share, 4),
        "dropped_by_model_share": round(corpus.share_by_model, 4),
        "no_verdict": dict(corpus.failed),
    }
