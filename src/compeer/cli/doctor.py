"""`compeer doctor`: what is installed, which models answer, what is missing and the command that fixes it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from compeer.doctor import Finding


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Only look what is installed; ask no model.")] = False,
) -> None:
    """Look at this installation; exit status 1 when no model can be asked."""
    from compeer.doctor import examine

    findings = examine(ask_models=not quick)
    if as_json:
        typer.echo(json.dumps([finding.as_dict() for finding in findings], ensure_ascii=False, indent=2))
    else:
        _show(findings)
    if any(finding.needed and not finding.ok for finding in findings):
        raise typer.Exit(1)


def _show(findings: list[Finding]) -> None:
    """One line a finding; what is wrong is said in full, and the command that mends it stands below, to be copied."""
    from pathlib import Path

    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from compeer.chat.wrap import plain

    console = Console(highlight=False)
    left = 4 + max(len(finding.what) for finding in findings)
    room = console.width - left if console.is_terminal else 1000
    for finding in findings:
        mark, style = ("✓", "green") if finding.ok else ("✗", "red") if finding.needed else ("–", "yellow")
        found = plain(finding.found).replace(str(Path.home()), "~")
        head = Text.assemble((mark, style), f" {finding.what}".ljust(left - 1))
        if finding.ok:
            console.print(head + Text(_shortened(found, room)), soft_wrap=True)
            continue
        lines = Text(found).wrap(console, max(room, 20)) if console.is_terminal else [Text(found)]
        console.print(head + lines[0], soft_wrap=True)
        for line in lines[1:]:
            console.print(Padding(line, (0, 0, 0, left)))
        if finding.fix:
            console.print(Text(" " * left) + Text(finding.fix, style="bold"), soft_wrap=True)


def _shortened(text: str, room: int) -> str:
    """At most so many characters: of a path the end says most, of a list the beginning."""
    if len(text) <= room:
        return text
    return "…" + text[1 - room :] if text.startswith(("/", "~")) else text[: room - 1] + "…"
