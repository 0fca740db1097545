"""The report: runs side by side on one page that needs no network, and as Markdown.

gather        runs read from their folders and sorted by what may stand in one table
names         the columns of the paper, and what figures of other evaluations mean
tables        tables as data, the same for both forms
paper         the paper's own figures, read from paper.json, always marked as the paper's
pairs         two runs on the same cases, case by case
charts        emotion curves, dimensions and strategies as SVG
transcripts   dialogues for the page, with the reasoning taken apart by `compeer.reasoning`
caveats       what a reader must keep in mind, in words
page          the HTML page from page.html, page.css and page.js
markdown      report.md

    write_report([Path("runs/sage-a"), Path("runs/sage-b")], Path("report"))
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from compeer.evals.report.gather import gather
from compeer.evals.report.markdown import markdown
from compeer.evals.report.page import page

PAGE, TEXT = "report.html", "report.md"


class Written(msgspec.Struct, frozen=True):
    """Where the report lies, and what it shows."""

    page: Path
    text: Path
    runs: int
    transcripts: int
    left_out: int  # transcripts beyond `most` of a run


def write_report(runs: Sequence[Path], out: Path, *, most: int = 1000, title: str = "Evaluation report") -> Written:
    """Write both forms into a folder; `most` transcripts of a run at most go into the page."""
    gathered = gather(runs, most)
    out.mkdir(parents=True, exist_ok=True)
    (out / PAGE).write_text(page(gathered, title), encoding="utf-8")
    (out / TEXT).write_text(markdown(gathered, title), encoding="utf-8")
    shown = sum(run.shown for run in gathered.runs)
    hidden = sum(run.left_out for run in gathered.runs)
    return Written(out / PAGE, out / TEXT, len(gathered.runs), shown, hidden)
