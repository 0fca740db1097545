"""A fitting reply for each moment, other than the one the corpus has.

retrieved  another supporter's real reply to a similar moment, same strategy
made       from the seeker's own words, in patterns
reworded   the corpus's own reply in other words (helpful conversations only)
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from compeer.cer.item import Preference
from compeer.cer.silver import chinese, english_reply
from compeer.cer.silver.evidence import Evidence, draw, quoted, tells
from compeer.cer.silver.feelings import FEELINGS
from compeer.cer.silver.moment import stream
from compeer.cer.silver.own_words import retold
from compeer.cer.silver.phrases import say
from compeer.cer.silver.retrieve import CLOSE, Index
from compeer.cer.silver.reworded import flat, reworded, sentences

_RETRIEVE = 0.6  # of the moments look for another's reply; most find none close enough
_MAKE, _BLEND = 0.6, 0.55  # of the rest, where the strategy allows it, make one; of the rest of that, blend
BANKS = {"en": english_reply, "zh": chinese}
_MIRROR = ("restatement or paraphrasing", "reflection of feelings")  # goes before anything
MAKEABLE = frozenset(english_reply.MADE)


class Reply(msgspec.Struct, frozen=True):
    """A reply, how it came about, and from where."""

    text: str
    kind: str
    source: str
    donor: str | None = None

    def preference(self, helpful: bool) -> Preference:
        good = self.kind == "fitting"
        if helpful:
            return "both" if good else "reference"
        return "candidate" if good else "neither"


def fitting(evidence: Sequence[Evidence], index: Index, seed: int) -> list[Reply | None]:
    """A fitting reply for each moment, in the strategy that is right there; None where none could be found."""
    moments = [one.moment for one in evidence]
    look = [at for at, m in enumerate(moments) if stream(seed, m.key, "look").random() < _RETRIEVE]
    best = index.best([moments[at] for at in look], [moments[at].strategy for at in look])
    close = {
        at: found
        for at, found in zip(look, best, strict=True)
        if found and found.score >= CLOSE and flat(found.moment.reply) != flat(moments[at].reply)
    }
    replies: list[Reply | None] = []
    for at, moment in enumerate(moments):
        if at in close:
            other = close[at].moment
            replies.append(Reply(flat(other.reply), "fitting", "retrieved", other.key))
            continue
        rng = stream(seed, moment.key, "fitting")
        again = reworded(moment.reply, rng) if moment.helpful else None
        telling = tells(moment)
        made = None
        if telling and (again is None or rng.random() < _MAKE):
            made = make(evidence[at], moment.strategy, seed)
        if made or not again:
            replies.append(Reply(made, "fitting", "made") if made else None)
            continue
        mirrored = make(evidence[at], rng.choice(_MIRROR), seed) if telling and rng.random() < _BLEND else None
        blended = f"{sentences(mirrored)[0]} {max(sentences(again), key=len)}" if mirrored else None
        replies.append(Reply(blended or again, "fitting", "blended" if blended else "reworded"))
    return replies


def make(found: Evidence, strategy: str, seed: int) -> str | None:
    """A reply from the seeker's own words, or None where they or the strategy do not allow it."""
    if strategy not in MAKEABLE:
        return None
    moment, language = found.moment, found.moment.language
    rng = stream(seed, moment.key, "make", strategy)
    feelings = FEELINGS if language == "en" else chinese.FEELINGS
    slots = {"feeling": feelings[moment.emotion].states[0]}
    told = [t for text in moment.seeker[-2:] for t in retold(text, language, "you")]
    if told:
        slots["you"] = draw(told, rng)
    if quotes := [*found.quotes, *found.last]:
        slots["quote"] = quoted(draw(quotes, rng), language)
    if found.topics:
        slots["topic"] = rng.choice(found.topics).replace("their ", "your ", 1)
    return say(BANKS[language].MADE[strategy], rng, slots)
