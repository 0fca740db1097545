"""The report on one page, and an invitation to talk."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

from rich.console import Console
from rich.text import Text

from compeer.cer.item import Item
from compeer.chat.view import reasoning_panel
from compeer.demo.folder import Folder
from compeer.demo.measuring import NAMES, spec_of
from compeer.demo.stages import Made
from compeer.dialogue import read_rows
from compeer.reasoning import parse


def make(folder: Folder) -> Made:
    """Write the report."""
    from compeer.evals.report import write_report

    names = [f"{kind}-{name}" for kind in ("reward", "language") for name in NAMES] + ["control-after"]
    runs = [folder.path("results", name) for name in names]
    written = write_report([run for run in runs if run.is_dir()], folder.path("report"), title="COMPEER demo")
    told = f"{written.page}, {written.transcripts} answers to read"
    return Made(told, {"page": str(written.page.relative_to(folder.home))})


def show(folder: Folder, console: Console, *, browser: bool = True) -> None:
    """Where the report lies, and what can be done now."""
    page = folder.path("report", "report.html").resolve()
    opened = browser and open_page(page)
    lines = [
        ("The report" + (" is open in your browser: " if opened else ": "), str(page)),
        ("Talk with what you have just trained: ", f"compeer chat --model {spec_of(folder, 'after')}"),
        ("or with the model as it comes: ", "compeer chat"),
        ("Look at these runs, talk and label in the browser: ", f"compeer studio --runs {folder.home}"),
    ]
    show_answer(folder, console)
    console.print()
    for words, what in lines:
        console.print(Text.assemble(words, (what, "bold")), soft_wrap=True)
    said = "A few steps prove that everything runs, not that it helps; docs/results.md has what was really trained."
    console.print(Text(said, style="dim"))


def show_answer(folder: Folder, console: Console) -> None:
    """One of the answers of the trained model, thinking and all: the first that is complete, else the first."""
    items = list(read_rows(folder.path("answers", "after.all.jsonl"), Item))
    item = next((one for one in items if one.candidate and one.candidate.reasoning), items[0])
    assert item.candidate is not None
    console.print(Text.assemble("\nSomebody wrote:  ", (item.history[-1].text, "bold")))
    console.print("What the model thinks and answers now, without a grammar:\n")
    console.print(reasoning_panel(parse(item.candidate.raw or item.candidate.response)))


def open_page(page: Path) -> bool:
    """Open it where somebody can see it. A browser in the terminal would take the terminal, so it is left alone."""
    if not (sys.stdout.isatty() and _has_display()):
        return False
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return False
    return type(found) is not webbrowser.GenericBrowser and found.open(page.as_uri())


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
