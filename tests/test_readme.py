"""What the README shows works: every command exists with the options shown, and the Python example runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[tuple[str, str]]:
    """Every line of every document that shows a compeer command."""
    found = []
    for document in DOCUMENTS:
        text = re.sub(r" *\\\n *", " ", document.read_text(encoding="utf-8"))  # a command may go on on the next line
        for line in text.splitlines():
            shown = re.match(r"    (compeer .*)", line)
            if shown:
                found.append((document.name, shown.group(1).partition("  #")[0].strip()))
    return found


def help_of(words: list[str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "compeer.cli", *words, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"compeer {' '.join(words)} is no command: {done.stderr}"
    return done.stdout


@pytest.mark.parametrize(("document", "line"), commands(), ids=lambda value: str(value)[:60])
def test_commands_exist_with_their_options(document: str, line: str) -> None:
    words = shlex.split(line)[1:]
    path: list[str] = []
    while words and "Commands:" in help_of(path) and re.search(rf"^  {re.escape(words[0])}\s", help_of(path), re.M):
        path.append(words.pop(0))
    assert path or not words, f"{document}: {line} names no command"
    text = help_of(path)
    for option in (word.partition("=")[0] for word in words if word.startswith("--")):
        assert re.search(rf"{re.escape(option)}\b", text), f"{document}: {line}: there is no option {option}"


def test_the_python_example_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"From Python:\n\n((?:    .*\n|\n)+)", text)
    assert block
    lines = [line[4:] for line in block.group(1).splitlines()]
    program = "\n".join(lines).rstrip()
    last = program.splitlines()[-1]
    program = (
        program.removesuffix(last) + f"shown = ({last})\nassert 1 <= shown[0] <= 5 and shown[1], shown\nprint('ok')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("ok\n"), done.stderr[-2000:]


def test_make_targets_shown_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    shown = {
        name
        for document in DOCUMENTS
        for name in re.findall(r"\bmake ([a-z]+)\b", document.read_text())
        if name != "it"
    }
    for name in {"setup", "demo", "test", "lint", "bench"} | (shown & {"clean", "help"}):
        assert re.search(rf"^{name}:", makefile, re.M), f"make {name} is shown but not there"
