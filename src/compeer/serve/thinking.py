"""Thinking on its way out: word by word, as long as no word gives cause to wait.

Harmless words are passed on as they come. From a word that harm may be made of (`SIGNS`) on, the text is held until its
sentence is whole and has been read together with all that stands before it in the step; the same is done at the end of
every other sentence. A step that says what must not be shown ends there, and the rest of it is never told.
"""

from __future__ import annotations

import re

from compeer.safety.outgoing import review

#: beginnings of words, and Chinese characters, that instructions and encouragement to do harm are made of
_STEMS = """
alcohol antifreeze balcony belt benzo bleach bleed bottle bridge burden burn bury carbon charcoal coward cut
cyanide dead death die disappear dose drown drug dying end_it end_your exhaust fatal gas gram gone gun hang
harm helium hide hurt inject insulin jump kill knife knot kys lethal medicat meds method mg milligram
monoxide neck nembutal nitr noose opioid overdos painkill painless paracetamol pathetic pill poison razor
roof rope scar scratch self-harm shoot sleeping slic slit sodium starv suffocat suicid tablet take_your
thigh throat train tylenol unalive useless vein waste without_you worthless wrist
"""
STEMS = tuple(stem.replace("_", " ") for stem in _STEMS.split())
_HAN = "死杀残伤割划跳吊绳炭煤药毒刀枪血命腕脉溺窒氰硝氦氮片粒颗克累负废垃拖解脱"
_LONGEST = max(map(len, STEMS))
_BEGINNINGS = frozenset(stem[:size] for stem in STEMS for size in range(3, len(stem) + 1))
SIGNS = re.compile(rf"(?<![a-z])(?:{'|'.join(STEMS)})|[{_HAN}]", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？…]+[”’」』）]*|\n")
_TAIL = 4 * _LONGEST  # characters at the end that are looked at; words that fill them all are no sign
_LAST_WORDS = re.compile(r"[A-Za-z-]+(?: [A-Za-z-]*)?\Z")


class Thinking:
    """The text of one step."""

    def __init__(self) -> None:
        self._read = ""
        self._shown = 0
        self._begun = 0  # where the current sentence begins
        self._safe = 0  # characters that were found to be safe
        self._clear = 0  # no sign begins before this in the current sentence, whatever may follow
        self.hidden = False

    def feed(self, piece: str) -> str:
        """What may be told now."""
        self._read += piece
        if self.hidden:
            return ""
        ends = max((end.end() for end in _SENTENCE.finditer(self._read, self._begun)), default=self._begun)
        if ends > self._begun and self._unsafe(ends):
            return ""
        self._begun = ends
        sign = SIGNS.search(self._read, max(ends, self._clear))
        self._clear = len(self._read) - _LONGEST  # a sign that is not whole yet can begin from here on
        if sign:
            self._clear = min(self._clear, sign.start())
            return self._upto(sign.start())
        return self._upto(len(self._read) - _undecided(self._read[max(ends, len(self._read) - _TAIL) :]))

    def finish(self) -> str:
        """The rest of the step."""
        return "" if self.hidden or self._unsafe(len(self._read)) else self._upto(len(self._read))

    def _unsafe(self, end: int) -> bool:
        if end != self._safe:  # a step with several conclusions ends several times
            self.hidden = review(self._read[:end]) is not None
            self._safe = end
        return self.hidden

    def _upto(self, end: int) -> str:
        piece, self._shown = self._read[self._shown : max(end, self._shown)], max(end, self._shown)
        return piece


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
    return next((len(tail) for tail in (both, last) if tail in _BEGINNINGS), 0)
