"""Text on its way to a client: no markup in it, and cut at a stop string.

A reply is plain words. Whatever looks like a tag (`<script>`, `</div>`, `<!--`) is taken out, and a `<` that might
still open one gets a blank behind it, so that no client that shows the text as a page can be made to run something.
`<3` and `a < b` stay. Both filters work on pieces as they come and hold back what is not decided yet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: longer than any tag a reply could hold by mistake; beyond it a "<" is not waited for any more
LONGEST = 300
_OPENS = re.compile(r"<(?=[A-Za-z/!?<]|\Z)")  # "<<" too: taking out "<b>" must not close up "<<b>script>"
_TAG = re.compile(rf"<[A-Za-z/!?][^<>]{{0,{LONGEST - 3}}}>")


class Plain:
    """Takes markup out of a text that comes in pieces."""

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
            elif not final and len(text) - start < LONGEST and "<" not in text[start + 1 :]:
                self._held = text[start:]
                return "".join(out)
            else:  # no tag, or none that ends: shown, but not as one
                out.append("< " if start + 1 < len(text) else "<")
                place = start + 1
        return "".join(out) + text[place:]


class Until:
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
