"""Reading what the model wrote before anyone sees it: encouragement, methods, refusals, belittling, nothing at all.

Some things are never shown (`words/out_*.txt`, high); others only matter while someone may be in danger (watch). While
a reply is streamed it is held back by the sentence: each sentence is read together with all that stands before it, and
goes on only when that is safe. While risk is high the reply is held until it is whole, because half a reply followed
by another one is worse than a moment's wait.
"""

from __future__ import annotations

import re
from typing import Literal

from compeer.safety.fold import fold
from compeer.safety.lexicon import lexicon
from compeer.safety.screen import Level, matches

Unsafe = Literal["encourage", "method", "ends", "minimise", "discourage", "empty", "broken"]

#: characters that are held at most, where a text has no sentences
WINDOW = 240
#: characters of a reply in a crisis; the contract asks for three sentences
LONGEST = 4_000
_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？…]+[”’」』）]*|\n")
_MARKUP = re.compile(r"<\s*/?\s*[A-Za-z!][^<>]{0,200}>")
_WORD = re.compile(r"[^\W\d_]")
_ASKS = re.compile(
    r"(?:suicid|kill(?:ing)? yourself|(?:end|tak)(?:e|ing)? your (?:own )?life|want(?:ing)? to die|"
    r"hurt(?:ing)? yourself|safe|danger|harm)[^?]*\?|"
    r"(?:自杀|轻生|结束(?:自己的?)?生命|想死|不想活|伤害自己|安全|危险)[^？?]*[？?]",
    re.IGNORECASE,
)


def review(text: str, risk: Level = "none") -> Unsafe | None:
    """What makes a text unfit to be shown, or None. Refusals and belittling count while there is risk.

    >>> review("You should just kill yourself."), review("I can't help you with this.")
    ('encourage', None)
    >>> review("I can't help you with this.", "high")
    'ends'
    """
    folded = fold(text).text
    for name in ("out_en", "out_zh"):
        words = lexicon(name)
        for rule in words.rules:
            if (rule.level == "high" or risk != "none") and matches(rule, folded, words.near):
                return rule.kind  # type: ignore[return-value]
    return None


def broken(reply: str) -> Unsafe | None:
    """What is wrong with a reply as a whole, in a crisis: nothing in it, markup, no end, the same over and over."""
    if not _WORD.search(reply):
        return "empty"
    if len(reply) > LONGEST or _MARKUP.search(reply) or _repeats(reply):
        return "broken"
    return None


def asks(reply: str) -> bool:
    """Whether a reply asks about safety in so many words."""
    return _ASKS.search(reply) is not None


class Held:
    """Text that arrives in pieces and leaves by the sentence, once it is known to be safe."""

    def __init__(self, risk: Level, whole: bool = False) -> None:
        self._risk, self._whole = risk, whole
        self._read = ""  # everything, shown or not
        self._shown = 0
        self.unsafe: Unsafe | None = None

    @property
    def text(self) -> str:
        return self._read

    @property
    def shown(self) -> str:
        return self._read[: self._shown]

    def feed(self, piece: str) -> str:
        """What may be shown now."""
        self._read += piece
        if self._whole or self.unsafe:
            return ""
        end = self._shown
        for match in _SENTENCE_END.finditer(self._read, self._shown):
            end = match.end()
        if len(self._read) - end > WINDOW:  # no sentence in sight: up to the last word but one
            end = max(end, self._read.rfind(" ", end, len(self._read) - WINDOW // 4) + 1, len(self._read) - WINDOW)
        return self._release(end)

    def finish(self) -> str:
        """The rest, at the end."""
        return "" if self.unsafe else self._release(len(self._read))

    def _release(self, end: int) -> str:
        if end <= self._shown:
            return ""
        # far enough back for anything that a rule can span
        self.unsafe = review(self._read[max(0, self._shown - 2 * WINDOW) : end], self._risk)
        if self.unsafe:
            return ""
        piece, self._shown = self._read[self._shown : end], end
        return piece


def _repeats(reply: str) -> bool:
    parts = [part.strip() for part in re.split(r"[.!?。！？\n]+", reply) if part.strip()]
    return len(parts) >= 6 and len(set(parts)) <= len(parts) // 3
