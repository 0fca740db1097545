"""The elements of a JSON list, one at a time: a list of a million dialogues needs no more memory than ten.

`json.JSONDecoder.raw_decode` finds where each element ends; the caller decodes that piece. JSON has no line to
start again from when an element is broken, so after a broken one we go on at the next place that opens like the
elements before it: a brace and their first key. A nested object that opens the same way is then met as an
element of its own, and turned away for the keys it lacks; that is noise, but nothing behind the break is lost.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO

import msgspec

CHUNK = 1 << 20
#: a broken element is told from an unfinished one by its size: no dialogue is larger than this (characters)
LARGEST = 1 << 24
_FILLER = re.compile(r"[\s,]*")
_OPENING = re.compile(r'\{\s*("(?:[^"\\]|\\.)*")\s*:')


class Element(msgspec.Struct, frozen=True):
    """The text of one element, or, where `problem` is set, of something that is none."""

    text: str
    line: int
    problem: str | None = None


class _Window:
    """The part of the text in memory: what has been taken is dropped, more is read when asked."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        # surrogateescape: bytes that are no UTF-8 spoil one element (it cannot be encoded again), not the file
        self.decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="surrogateescape")
        self.text, self.at, self.line, self.ended = "", 0, 1, False

    def more(self, size: int = 0) -> bool:
        """Read on, a chunk or more; False at the end of the file."""
        if self.ended:
            return False
        data = self.file.read(max(size, CHUNK))
        self.ended = not data
        self.text = self.text[self.at :] + self.decoder.decode(data, final=self.ended)
        self.at = 0
        return True

    def go(self, position: int) -> None:
        self.line += self.text.count("\n", self.at, position)
        self.at = position

    def next_character(self) -> str:
        """Pass white space and commas; the character after them, or "" at the end."""
        while True:
            found = _FILLER.match(self.text, self.at)
            self.go(found.end() if found else self.at)
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""


def elements(file: IO[bytes]) -> Iterator[Element]:
    """Every element of the list that `file` holds."""
    window = _Window(file)
    if window.next_character() != "[":
        yield Element("", window.line, "this is not a JSON list")
        return
    window.go(window.at + 1)
    scan = json.JSONDecoder().raw_decode
    opening: re.Pattern[str] | None = None  # how elements of this list begin
    while (character := window.next_character()) != "]":
        if not character:
            yield Element("", window.line, "the list is not closed: the file ends too early")
            return
        if opening is None and (first := _OPENING.match(window.text, window.at)):
            opening = re.compile(r"\{\s*" + re.escape(first.group(1)) + r"\s*:")
        line = window.line
        try:
            _, end = scan(window.text, window.at)
            if end == len(window.text) and window.more():
                continue  # a number could go on in the next chunk
            yield Element(window.text[window.at : end], line)
            window.go(end)
        except (json.JSONDecodeError, RecursionError) as problem:
            held = len(window.text) - window.at
            if held < LARGEST and window.more(held):
                continue
            reason = problem.msg if isinstance(problem, json.JSONDecodeError) else "nested too deeply"
            if isinstance(problem, json.JSONDecodeError):
                reason += f" (line {line + window.text.count(chr(10), window.at, problem.pos)})"
            found = _resume(window, opening)
            yield Element("", line, f"broken JSON: {reason}" + ("" if found else "; nothing after it can be read"))
            if not found:
                return


def _resume(window: _Window, opening: re.Pattern[str] | None) -> bool:
    """Go to the next place that opens like an element; False when there is none."""
    pattern = opening or re.compile(r"\{")
    window.go(window.at + 1)
    while not (found := pattern.search(window.text, window.at)):
        # keep a tail, so that an opening across two chunks is still seen
        window.go(max(window.at, len(window.text) - 1000))
        if not window.more():
            return False
    window.go(found.start())
    return True
