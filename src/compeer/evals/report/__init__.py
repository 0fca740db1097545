"""The report: runs side by side on one page that needs no network, and as Markdown.

gather    runs read from their folders and grouped by what may share a table
tables    tables as data, the paper's own figures, paired differences; one result for the terminal
charts    figures as SVG, CSV and LaTeX; the room Runs draws with it too
pictures  which figures evaluations, studies of judges and training runs get
page      the HTML page from page.html, page.css and page.js; report.md from report.md.jinja

figure/ holds what the report and the room Runs share: the style sheet of drawings, and a figure with its downloads.

write_report([Path("runs/sage-a"), Path("runs/sage-b")], Path("report"))
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from compeer.errors import UserError
from compeer.evals.report.gather import gather

PAGE, TEXT = "report.html", "report.md"


class WrittenReport(msgspec.Struct, frozen=True):
    """The two files, and what they show."""

    page: Path
    text: Path
    runs: int
    transcripts: int
    left_out: int  # transcripts beyond `most` per run


def write_report(
    runs: Sequence[Path], out: Path, *, most: int = 1000, title: str = "Evaluation report"
) -> WrittenReport:
    """Write both forms into a folder, with at most `most` transcripts per run in the page."""
    try:
        from compeer.evals.report.page import markdown, page
    except ModuleNotFoundError as missing:
        if missing.name not in ("jinja2", "markupsafe"):
            raise
        raise UserError('The report needs jinja2: pip install "compeer-esc[eval]".') from None
    gathered = gather(runs, most)
    out.mkdir(parents=True, exist_ok=True)
    (out / PAGE).write_text(page(gathered, title), encoding="utf-8")
    (out / TEXT).write_text(markdown(gathered, title), encoding="utf-8")
    shown = sum(run.shown for run in gathered.runs)
    hidden = sum(run.left_out for run in gathered.runs)
    count = len(gathered.runs) + len(gathered.training) + len(gathered.judging)
    return WrittenReport(out / PAGE, out / TEXT, count, shown, hidden)
