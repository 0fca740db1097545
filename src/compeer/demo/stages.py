"""A stage of the demo, the runner that repeats nothing, and the table at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compeer.cer.progress import duration
from compeer.demo.folder import Folder, Note


class Made(msgspec.Struct, frozen=True):
    """What came of a stage: a sentence, and what later stages or the reader may want."""

    told: str
    results: dict[str, Any] = {}


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """`does`: one sentence; `paper`: which part of the paper it is; `command`: what does the same at any size."""

    name: str
    does: str
    paper: str
    command: str
    work: Callable[[Folder], Made]


class Done(msgspec.Struct, frozen=True):
    """A stage with its note; `before`: it had been finished when this start came to it."""

    stage: Stage
    note: Note
    before: bool


def run(folder: Folder, stages: Sequence[Stage], console: Console) -> list[Done]:
    """Run what is not finished, in order; each stage says what it does before it begins."""
    done: list[Done] = []
    for number, stage in enumerate(stages, start=1):
        console.print(Text.assemble("\n", (f"{number}/{len(stages)} {stage.name}", "bold"), f"  {stage.does}"))
        console.print(Text(f"    the paper: {stage.paper}; the command: {stage.command}", style="dim"))
        note = folder.note(stage.name)
        before = note is not None
        if note is None:
            began = time.monotonic()
            made = stage.work(folder)
            note = Note(seconds=round(time.monotonic() - began, 1), told=made.told, results=made.results)
            folder.keep(stage.name, note)
        said = f"done before, in {duration(note.seconds)}" if before else duration(note.seconds)
        console.print(Text.assemble(("    ✓ ", "green"), f"{note.told} ({said})"))
        done.append(Done(stage, note, before))
    return done


def table(done: Sequence[Done]) -> Table:
    """The stages with their time."""
    shown = Table(box=None, pad_edge=False, show_footer=True)
    whole = sum(one.note.seconds for one in done if not one.before)
    shown.add_column("stage", footer="this start")
    shown.add_column("time", justify="right", footer=duration(whole))
    shown.add_column("", footer="")
    for one in done:
        shown.add_row(one.stage.name, duration(one.note.seconds), "done before" if one.before else "")
    return shown
