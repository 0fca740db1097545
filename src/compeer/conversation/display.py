"""An answer as a person reads it: names of the steps, chips, the panel; text made harmless and wrapped for a terminal.

A server can send anything. Escape sequences that would move the cursor, change the title or hide text are removed, so
what a person sees is only ever text. Wrapping holds the last word back until it is finished: a word is broken only when
it is longer than a line. Chinese breaks between any two characters, but not before a closing mark nor after an opening
one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from compeer.reasoning import LABELS, STEPS, Parsed, Problem
from compeer.reasoning.ontology import Language
from compeer.reasoning.parse import chips as short_conclusions
from compeer.reasoning.parse import named_labels
from compeer.typed import from_json

#: cells of a line that is pleasant to read, where the terminal is wider
WIDTH = 88

#: the words around an answer, by place and language
WORDS: dict[str, dict[Language, dict[str, str]]] = from_json(
    Path(__file__).with_name("words.json").read_bytes(), dict[str, dict[str, dict[str, str]]]
)
#: names of the steps, as a person reads them
STEP_TITLES = WORDS["steps"]

_ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # control sequence: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # title, clipboard, device strings
    r"|\x1b[ -/]*[0-~]?"
)
# control characters except the line break and the tab, and the marks that reverse or hide the order of writing
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_WIDE = "\u2e80-\u2fff\u3040-\ua4cf\uac00-\ud7af\uf900-\ufaff"
_OPENING = "（《〈「『【〔“‘"
_CLOSING = "，。！？、；：）》〉」』】〕”’…—"
_UNIT = re.compile(  # a line break, white space, one wide character with its marks, or a word
    rf"\n|[^\S\n\u00a0]+|[{_OPENING}]*[{_WIDE}][{_CLOSING}]*|[{_OPENING}]*(?:[^\s{_WIDE}{_OPENING}]|\u00a0)+|[{_OPENING}]+"
)


def plain(text: str) -> str:
    r"""The text without control characters and escape sequences.

    >>> plain("\x1b]0;title\x07be \x1b[31mcalm\x1b[0m\r\n\x9b2Jnow")
    'be calm\n2Jnow'
    """
    return _SURROGATE.sub("\ufffd", _CONTROL.sub("", _ESCAPE.sub("", text)))


class Wrapped:
    """Writes text that arrives in pieces, at most `width` cells a line, each further line after `indent` spaces."""

    def __init__(self, write: Callable[[str], None], width: int, indent: int = 0) -> None:
        self._write, self._width, self._indent = write, max(10, width - indent), indent
        self._held = ""  # the last word, which may not be finished
        self._column = 0
        self._space = ""
        self._breaks = 0  # line breaks since the last word
        self._torn = False  # what comes next continues a word without end

    def feed(self, text: str) -> None:
        units = _UNIT.findall(self._held + text)
        *finished, self._held = units or [""]
        for unit in finished:
            self._put(unit)
        if len(self._held) > self._width:  # a word without end: what is certain to break is written now
            self._put(self._held)
            self._held, self._torn = "", True

    def finish(self) -> None:
        if self._held:
            self._put(self._held)
        self._held = ""

    def _put(self, unit: str) -> None:
        if unit == "\n":
            if self._breaks < 2 and (self._column or self._breaks):  # one empty line at most
                self._write("\n")
                self._breaks += 1
            self._column, self._space = 0, ""
        elif unit.isspace():
            self._space = " "
        elif word := plain(unit):
            self._word(word)
        self._torn = False

    def _word(self, word: str) -> None:
        if self._column and not self._torn and self._column + len(self._space) + cell_len(word) > self._width:
            self._write("\n")
            self._breaks, self._column = 1, 0
        if self._breaks:
            self._write(" " * self._indent)
        if self._column and self._space:
            self._write(self._space)
            self._column += 1
        self._space, self._breaks = "", 0
        while word:
            room = self._width - self._column
            piece = _fitting(word, room)
            self._write(piece)
            self._column += cell_len(piece)
            word = word[len(piece) :]
            if word:
                self._write("\n" + " " * self._indent)
                self._column = 0


def _fitting(word: str, room: int) -> str:
    """The beginning of a word that fits into so many cells: at least one character."""
    if cell_len(word) <= room:
        return word
    end = 1
    while cell_len(word[: end + 1]) <= room:
        end += 1
    return word[:end]


def chips(parsed: Parsed) -> str:
    """The labels in one line, in the language of the thinking.

    >>> from compeer.reasoning import parse
    >>> chips(parse("<think>"))
    'no reasoning'
    """
    return " · ".join(short_conclusions(parsed)) or "no reasoning"


def steps_view(parsed: Parsed) -> RenderableType:
    """The three steps, read as thinking: title, text, conclusions."""
    named, titles = named_labels(parsed), STEP_TITLES[parsed.language or "en"]
    rows: list[RenderableType] = []
    for number, step in enumerate(STEPS, start=1):
        title = Text(f"{number} {titles[step]}", style="bold")
        title.append("   " + " · ".join(named[label] for label in LABELS[step] if label in named), style="cyan")
        rows.append(title)
        rows.append(_paragraph(parsed.texts.get(step, ""), parsed.language))
        rows.append(Text())
    rows.pop()
    return Group(*rows)


def reasoning_panel(parsed: Parsed, problems: Sequence[Problem] | None = None) -> RenderableType:
    """Everything about one output: the steps, the reply, and what is wrong with it."""
    found = parsed.problems if problems is None else problems
    words = WORDS["panel"][parsed.language or "en"]
    parts: list[RenderableType] = [
        steps_view(parsed),
        Text(),
        Text(words["reply"], style="bold"),
        _paragraph(parsed.response, parsed.language),
        Text(),
    ]
    if found:
        parts.append(Text(words["problems"], style="bold red"))
        parts += [Padding(Text(f"- {plain(problem)}"), (0, 0, 0, 2)) for problem in found]
    elif parsed.reasoning is not None:  # a reply that was asked for without thinking has no steps to speak of
        parts.append(Text(words["complete"], style="green"))
    return Group(*parts)


def _paragraph(text: str, language: Language | None) -> RenderableType:
    return Padding(Text(plain(text) or WORDS["panel"][language or "en"]["nothing"]), (0, 0, 0, 2))
