"""Filters for text that arrives in pieces: markup and stop strings.

Each filter is fed pieces and returns what is certain, holding back what is not decided yet.

`MarkupFilter`: a reply is plain words. Whatever looks like a tag (`<script>`, `</div>`, `<!--`) is removed, and a `<`
that might still open one gets a blank behind it, so that no client that shows the text as a page can be made to run
something. `<3` and `a < b` stay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: longer than any tag that a reply could hold by mistake; beyond it a "<" is not waited for any more
LONGEST_TAG = 300
_OPENS = re.compile(r"<(?=[A-Za-z/!?<]|\Z)")  # "<<" too: taking out "<b>" must not close up "<<b>script>"
_TAG = re.compile(rf"<[A-Za-z/!?][^<>]{{0,{LONGEST_TAG - 3}}}>")
_CONTRACT_TAG = re.compile(r"(</?(?:think|history|emotion|strategy)>)")


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
