"""compeer eval report: runs side by side, on one page and as Markdown.

compeer eval report runs/sage-a runs/sage-b runs/esc-eval --out report
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from compeer.cli.evaluation import eval_app


@eval_app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Folders of evaluations.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for report.html and report.md.")],
    title: Annotated[str, typer.Option(help="What stands on top.")] = "Evaluation report",
    most: Annotated[int, typer.Option(min=0, help="Dialogues of a run that go into the page.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print where it lies as JSON.")] = False,
) -> None:
    """Write one page with results, intervals, curves and readable dialogues; it needs no network."""
    import msgspec

    from compeer.evals.report import write_report

    written = write_report(runs, out, most=most, title=title)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(written, enc_hook=str)).decode())
        return
    typer.echo(
        f"{written.page}: {written.runs} runs, {written.transcripts:,} dialogues; {written.text} has the tables."
    )
    if written.left_out:
        typer.echo(f"{written.left_out:,} dialogues are left out of the page; --most raises the limit.")
