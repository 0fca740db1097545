"""`compeer doctor`: what is installed, which models answer, what is missing and the command that fixes it."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    quick: Annotated[bool, typer.Option(help="Only look what is installed; ask no model.")] = False,
) -> None:
    """Look at this installation; exit status 1 when no model can be asked."""
    from rich.console import Console
    from rich.table import Table

    from compeer.doctor import examine

    findings = examine(ask_models=not quick)
    if as_json:
        typer.echo(json.dumps([finding.as_dict() for finding in findings], ensure_ascii=False, indent=2))
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        for finding in findings:
            mark = "[green]✓[/green]" if finding.ok else ("[red]✗[/red]" if finding.needed else "[dim]–[/dim]")
            table.add_row(mark, finding.what, finding.found, f"[bold]{finding.fix}[/bold]" if finding.fix else "")
        Console().print(table)
    if any(finding.needed and not finding.ok for finding in findings):
        raise typer.Exit(1)
