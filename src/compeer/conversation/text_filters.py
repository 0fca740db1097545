"""Filters for text that arrives in pieces: markup, stop strings, thinking that must not be shown.

Each filter is fed pieces and returns what is certain, holding back what is not decided yet.

`MarkupFilter`: a reply is plain words. Whatever looks like a tag (`<script>`, `</div>`, `<!--`) is removed, and a `<`
that might still open one gets a blank behind it, so that no client that shows the text as a page can be made to run
something. `<3` and `a < b` stay.

`ThinkingFilter`: harmless words pass as they come, so that the first words of the thinking reach a person with the
first token. From a word that harm may be made of (`thinking_signs.json`) on, the text is held until its sentence is
whole and has been read together with everything before it in the step; the same is done at the end of every other
sentence. A step that says what must not be shown ends there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

import msgspec

from compeer.safety.outgoing import review

#: longer than any tag that a reply could hold by mistake; beyond it a "<" is not waited for any more
LONGEST_TAG = 300
_OPENS = re.compile(r"<(?=[A-Za-z/!?<]|\Z)")  # "<<" too: taking out "<b>" must not close up "<<b>script>"
_TAG = re.compile(rf"<[A-Za-z/!?][^<>]{{0,{LONGEST_TAG - 3}}}>")
_CONTRACT_TAG = re.compile(r"(</?(?:think|history|emotion|strategy)>)")
_SENTENCE = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？…]+[”’」』）]*|\n")
_LAST_WORDS = re.compile(r"[A-Za-z-]+(?: [A-Za-z-]*)?\Z")


class MarkupFilter:
    """Removes markup."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str, *, final: bool = False) -> str:
        """What is certain now. With `final` nothing is held back any more."""
        text, self._held = self._held + piece, ""
        if "<" not in text:
            return text
        out: list[str] = []
        place = 0
        while (opened := _OPENS.search(text, place)) is not None:
            start = opened.start()
            out.append(text[place:start])
            tag = _TAG.match(text, start)
            if tag is not None:
                place = tag.end()
            elif not final and len(text) - start < LONGEST_TAG and "<" not in text[start + 1 :]:
                self._held = text[start:]
                return "".join(out)
            else:  # no tag, or none that ends: shown, but not as one
                out.append("< " if start + 1 < len(text) else "<")
                place = start + 1
        return "".join(out) + text[place:]


def without_markup(text: str) -> str:
    """A whole text without markup."""
    return MarkupFilter().feed(text, final=True)


def without_foreign_markup(text: str) -> str:
    """A text about an output: the contract's own tags stay, because the text names them.

    >>> without_foreign_markup("there is no <history> step<script>")
    'there is no <history> step'
    """
    parts = _CONTRACT_TAG.split(text)
    return "".join(part if place % 2 else without_markup(part) for place, part in enumerate(parts))


class StopStrings:
    """Passes text on up to the first of some stop strings."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = tuple(stop for stop in stops if stop)
        self.reached = False
        self._held = ""

    def feed(self, piece: str, *, final: bool = False) -> str:
        if self.reached or not self.stops:
            return "" if self.reached else piece
        text = self._held + piece
        cut = min((place for stop in self.stops if (place := text.find(stop)) >= 0), default=-1)
        if cut >= 0:
            self.reached, self._held = True, ""
            return text[:cut]
        keep = 0 if final else self._undecided(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def _undecided(self, text: str) -> int:
        """How many characters at the end may still become a stop string."""
        sizes = (size for stop in self.stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
        return max(sizes, default=0)


class ThinkingFilter:
    """The text of one step. `hidden`: it said what must not be shown, and the rest of it is withheld."""

    def __init__(self) -> None:
        self._signs = _signs()
        self._read = ""
        self._shown = 0
        self._begun = 0  # where the current sentence begins
        self._safe = 0  # characters that were found to be safe
        self._clear = 0  # no sign begins before this in the current sentence, whatever may follow
        self.hidden = False

    def feed(self, piece: str) -> str:
        """What may be shown now."""
        self._read += piece
        if self.hidden:
            return ""
        ends = max((end.end() for end in _SENTENCE.finditer(self._read, self._begun)), default=self._begun)
        if ends > self._begun and self._unsafe(ends):
            return ""
        self._begun = ends
        sign = self._signs.pattern.search(self._read, max(ends, self._clear))
        self._clear = len(self._read) - self._signs.longest  # a sign that is not whole yet can begin from here on
        if sign:
            self._clear = min(self._clear, sign.start())
            return self._up_to(sign.start())
        tail = self._read[max(ends, len(self._read) - 4 * self._signs.longest) :]
        return self._up_to(len(self._read) - _undecided(tail))

    def finish(self) -> str:
        """The rest of the step. May be called again after more text."""
        return "" if self.hidden or self._unsafe(len(self._read)) else self._up_to(len(self._read))

    def _unsafe(self, end: int) -> bool:
        if end != self._safe:
            self.hidden = review(self._read[:end]) is not None
            self._safe = end
        return self.hidden

    def _up_to(self, end: int) -> str:
        piece, self._shown = self._read[self._shown : max(end, self._shown)], max(end, self._shown)
        return piece


class _Signs(msgspec.Struct, frozen=True):
    pattern: re.Pattern[str]
    beginnings: frozenset[str]  # of three letters or more
    longest: int


@cache
def _signs() -> _Signs:
    table = json.loads((resources.files("compeer.conversation") / "thinking_signs.json").read_text(encoding="utf-8"))
    stems: list[str] = table["stems"]
    return _Signs(
        re.compile(rf"(?<![a-z])(?:{'|'.join(stems)})|[{table['characters']}]", re.IGNORECASE),
        frozenset(stem[:size] for stem in stems for size in range(3, len(stem) + 1)),
        max(map(len, stems)),
    )


def _undecided(text: str) -> int:
    """How many characters at the end may still become a sign; one or two letters of it give nothing away.

    >>> _undecided("They feel ove"), _undecided("They feel"), _undecided("They are with")
    (3, 0, 4)
    """
    found = _LAST_WORDS.search(text)
    if found is None:
        return 0
    both = found.group().lower()
    last = both.rpartition(" ")[2]
    return next((len(tail) for tail in (both, last) if tail in _signs().beginnings), 0)
