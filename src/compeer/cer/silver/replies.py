"""The candidate's reply and the preference that follows from how it was made.

Every moment has a fitting reply X of its own: another supporter's to a similar moment (`retrieve`), one made from
the seeker's words (`english_reply`), or the corpus's in other words (`reworded`). Where the candidate is good it
says X. Where it is bad it says

    off_topic  the X of another moment, by exchange, so good and bad replies have the same words
    unfit      a reply on the point in a strategy that does not belong here (the strategy step is wrong too)
    spliced    one's own beginning, another's end
    detail     X with a person or thing in it that is not this seeker's
    generic    a phrase for everyone
    failed     what a supporter said in a conversation that failed

against the reference of a helpful conversation: both | reference; of a failed one: candidate | neither.
The last two kinds have words of their own and are kept few: text alone may tell a little, see `leakage`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
import numpy as np

from compeer.cer.item import Preference
from compeer.cer.silver import chinese, english_reply
from compeer.cer.silver.evidence import draw, gather, quoted
from compeer.cer.silver.feelings import FEELINGS
from compeer.cer.silver.moment import Moment, size, stream
from compeer.cer.silver.own_words import PEOPLE, THINGS, retold
from compeer.cer.silver.phrases import say
from compeer.cer.silver.retrieve import CLOSE, Index
from compeer.cer.silver.reworded import reworded, sentences
from compeer.cer.silver.swap import exchange
from compeer.cer.silver.wrong_steps import Pool

GOOD = 0.52  # of the candidates whose strategy fits
GOOD_DESPITE = 0.16  # of those whose strategy step is wrong: thought badly, answered well
BAD = {"off_topic": 0.62, "spliced": 0.12, "detail": 0.12, "generic": 0.06, "failed": 0.08}
BAD_STRATEGY = {"unfit": 0.6, "off_topic": 0.28, "generic": 0.05, "failed": 0.07}
_RETRIEVE, _MAKE = 0.5, 0.45
_BANKS = {"en": english_reply, "zh": chinese}


class Reply(msgspec.Struct, frozen=True):
    """A reply, how it came about, and from where."""

    text: str
    kind: str
    source: str
    donor: str | None = None
    good: bool = False

    def preference(self, helpful: bool) -> Preference:
        if helpful:
            return "both" if self.good else "reference"
        return "candidate" if self.good else "neither"


def replies(
    pool: Pool, strategies: Sequence[str], index: Index, failed: Sequence[Moment], seed: int
) -> list[Reply]:
    """One reply for each moment of the pool; `strategies` are those the candidates' third steps conclude."""
    moments = pool.moments
    own = fitting(moments, index, seed)
    unfit = [at for at, m in enumerate(moments) if strategies[at] not in m.strategies]
    kinds = [_kind(m, at in set(unfit), bool(failed), seed) for at, m in enumerate(moments)]
    wrong = dict(zip(unfit, index.best([moments[at] for at in unfit], [strategies[at] for at in unfit]), strict=True))
    moved = _misplaced(pool, own, strategies, [at for at, kind in enumerate(kinds) if kind in ("off_topic", "spliced")], seed)
    found = []
    for at, moment in enumerate(moments):
        rng = stream(seed, moment.key, "reply")
        kind, reply = kinds[at], own[at]
        if kind in ("off_topic", "spliced") and at not in moved:
            kind = "generic"  # nobody to trade with
        if kind == "off_topic":
            taken = own[moved[at]]
            reply = Reply(taken.text, kind, taken.source, taken.donor or moments[moved[at]].key)
        elif kind == "spliced":
            begin, end = sentences(reply.text)[0], sentences(own[moved[at]].text)[-1]
            reply = Reply(f"{begin} {end}", kind, reply.source, moments[moved[at]].key)
        elif kind == "unfit":
            other = wrong.get(at)
            text = make(moment, strategies[at], seed) if rng.random() < _MAKE or other is None else None
            if text or other:
                reply = Reply(text or _flat(other.moment.reply), kind, "made" if text else "retrieved",
                              None if text or other is None else other.moment.key)
        elif kind == "detail":
            reply = Reply(_wrong_detail(reply.text, moment, moments, seed), kind, reply.source, reply.donor)
        elif kind == "failed":
            same = [m for m in failed if m.strategy == strategies[at]] or list(failed)
            donor = rng.choice(same)
            reply = Reply(_flat(donor.reply), kind, "failed", donor.key)
        elif kind == "generic":
            reply = Reply(say(_BANKS[moment.language].GENERIC, rng, {}) or "", kind, "generic")
        found.append(reply)
    return found
