"""What the pages show: their blocks of code, the commands in them, their links and headings.

Blocks are fenced or indented by four spaces. A command may go on on the next line after a backslash; what follows two
spaces and a # is a remark. Pages are README.md, the others at the top of the repository, and docs/*.md.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
#: variables that are set for one command
_VARIABLES = r"(?:[A-Z][A-Z0-9_]*=\S*\s+)*"
_SHELL = re.compile(rf"{_VARIABLES}(?:compeer|python -m|make|accelerate launch|pip install|inspect eval)(?:\s|$)")


class Block(msgspec.Struct, frozen=True):
    """A block of code: the word behind its fence (nothing for an indented one), where it begins, its text."""

    language: str
    line: int
    text: str


class Command(msgspec.Struct, frozen=True):
    """A command as a page shows it."""

    page: str
    line: int
    text: str

    @property
    def words(self) -> list[str]:
        """Without variables before it, and up to the first sign of the shell."""
        lexer = shlex.shlex(re.sub(rf"^{_VARIABLES}", "", self.text), posix=True, punctuation_chars="|><;&")
        lexer.whitespace_split, lexer.commenters = True, "#"
        words: list[str] = []
        for word in lexer:
            if set(word) <= set("|><;&"):
                break
            words.append(word)
        return words

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def blocks(text: str) -> Iterator[Block]:
    """The blocks of code of a page, in order."""
    fence, start, held = "", 0, list[str]()
    language, free = "", True  # an indented block begins after an empty line
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        mark = re.match(r" {0,3}(```+)\s*(\w*)", line)
        if fence:
            if mark and mark[1] == fence:
                yield Block(language, start, "\n".join(held))
                fence, held = "", []
            else:
                held.append(line)
        elif mark:
            fence, language, start, held = mark[1], mark[2], number + 1, []
        elif line.startswith("    ") and (held or free):
            start = start if held else number
            held.append(line[4:])
        elif held and line.strip():
            yield Block("", start, "\n".join(held).rstrip())
            held = []
        elif held:
            held.append("")
        free = not line.strip()
    if held and not fence:
        yield Block("", start, "\n".join(held).rstrip())


def commands_in(name: str, text: str) -> Iterator[Command]:
    """The commands in the blocks of a page."""
    for block in blocks(text):
        if block.language not in ("", "sh", "bash", "shell", "console"):
            continue
        lines = iter(enumerate(block.text.splitlines(), start=block.line))
        for number, line in lines:
            shown = line.strip().removeprefix("$ ")
            while shown.endswith("\\"):
                shown = shown[:-1].rstrip() + " " + next(lines, (0, ""))[1].strip()
            if _SHELL.match(shown):
                yield Command(name, number, re.split(r"\s\s+#|\s#\s", shown)[0].strip())


def commands() -> list[Command]:
    """Those of every page, and those in the remarks at the top of the shipped configurations."""
    found = [one for page in PAGES for one in commands_in(_name(page), page.read_text(encoding="utf-8"))]
    for config in CONFIGS:
        remarks = [line[1:] for line in config.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
        found += commands_in(_name(config), "\n\n" + "\n".join(f"    {line.strip()}" for line in remarks))
    return found


def mentions() -> list[Command]:
    """Commands in the middle of a sentence, between back quotes; they may leave things out."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in blocks(text):
            text = text.replace(block.text, "\n" * block.text.count("\n"), 1) if block.language else text
        for shown in re.finditer(r"`(compeer [^`]+|make [a-z]+|python -m [^`]+)`", text):
            line = text.count("\n", 0, shown.start()) + 1
            found.append(Command(_name(page), line, " ".join(shown[1].split())))
    return found


def links(text: str) -> Iterator[tuple[str, str]]:
    """Words and target of each link and picture outside of code."""
    for block in blocks(text):
        if block.language:
            text = text.replace(block.text, "")
    text = re.sub(r"`[^`\n]*`", lambda code: "x" * len(code[0]), text)
    for found in re.finditer(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)", text):
        yield found[1], found[2]


def anchors(text: str) -> set[str]:
    """What the headings of a page are called in a link, as GitHub makes it."""
    found = set()
    inside = {line for block in blocks(text) for line in block.text.splitlines()}
    for line in text.splitlines():
        if line.startswith("#") and line not in inside:
            heading = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip()).lower()
            found.add(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-"))
    return found


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))
