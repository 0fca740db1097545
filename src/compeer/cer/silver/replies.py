"""The candidate's reply, and the preference that follows from how it was made.

Where the candidate is good it says what fits, in one of two ways:

    made       a short reply around the seeker's own words, in the strategy that is right there
    reworded   the corpus's own reply in other words (helpful conversations only)

Where it is bad it says

    off_topic  what fits another moment, by exchange, so good and bad replies have the same words
    generic    a phrase for everyone
    failed     what a supporter said in a conversation that failed

against the reference of a helpful conversation: both | reference; of a failed one: candidate | neither. `generic`
and `failed` have words of their own and are kept few: text alone may tell a little (`text_only`).

This is the weakest part of silver: a reworded reply is like its reference, and a judge can learn that likeness instead
of what helps. Candidates that models wrote, labelled by people, have no such shortcut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from random import Random

import msgspec
import numpy as np

from compeer.cer.item import Preference
from compeer.cer.silver.moment import Moment, size, stream
from compeer.cer.silver.steps import Bank, capital, own_words, phrases, quoted, quotes, say
from compeer.cer.silver.wrong_steps import Pool, exchange
from compeer.reasoning.ontology import EMOTIONS

GOOD = 0.55  # of the candidates whose strategy fits
GOOD_DESPITE = 0.16  # of those whose strategy step is wrong: thought badly, answered well
GOOD_TO_FAILED = 0.62
BAD = {"off_topic": 0.86, "generic": 0.06, "failed": 0.08}
_MAKE = 0.5  # of the helpful moments, where the strategy allows it
_TELLING = 8  # words, or characters
_MARKUP = re.compile(r"</?[A-Za-z][^<>]{0,60}>")
_SENTENCE = re.compile(r"[^.!?\n。！？]+[.!?。！？]*\s*")
_THANKS = re.compile(r"\b(?:thank|thanks|thx|appreciate|bye)\b|谢谢|再见", re.IGNORECASE)


class SilverReply(msgspec.Struct, frozen=True):
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


def replies(pool: Pool, strategies: Sequence[str], failed: Sequence[Moment], seed: int) -> list[SilverReply]:
    """One reply for each moment of the pool; `strategies` are those that the candidates' third steps conclude."""
    moments = pool.moments
    own = [fitting(moment, seed) for moment in moments]
    kinds = [_kind(moment, own[at], strategies[at], seed) for at, moment in enumerate(moments)]
    moved = _misplaced(pool, own, strategies, [at for at, kind in enumerate(kinds) if kind == "off_topic"], seed)
    said = []
    for at, (moment, kind) in enumerate(zip(moments, kinds, strict=True)):
        rng = stream(seed, moment.key, "reply")
        reply = own[at] if kind == "fitting" else None
        if at in moved and (elsewhere := own[moved[at]]):
            reply = SilverReply(elsewhere.text, kind, elsewhere.source, moments[moved[at]].key)
        elif kind == "failed":
            reply = _failed(moment, strategies[at], failed, rng)
        if reply is None or flat(reply.text).casefold() == flat(moment.reply).casefold():
            reply = SilverReply(say(phrases(moment.language).generic, rng, {}) or "…", "generic", "generic")
        said.append(reply)
    return said


def fitting(moment: Moment, seed: int) -> SilverReply | None:
    """A fitting reply in the strategy that is right there; None where none could be found."""
    rng = stream(seed, moment.key, "fitting")
    again = reworded(moment.reply, rng) if moment.helpful else None
    if again is None or rng.random() < _MAKE:
        bank = phrases(moment.language).made.get(moment.strategy, ())
        words = [*quotes(moment.last, moment.language), *own_words(moment)]
        slots = {"name": EMOTIONS.get(moment.emotion).name(moment.language)}
        if words and tells(moment) and bank:
            slots["quote"] = quoted(rng.choice(words), moment.language)
            return SilverReply(say(bank, rng, slots) or "…", "fitting", "made")
    return SilverReply(again, "fitting", "reworded") if again else None


def tells(moment: Moment) -> bool:
    """Whether the last message has something that can be said back."""
    return size(moment.last, moment.language) >= _TELLING and not _THANKS.search(moment.last)


def reworded(text: str, rng: Random) -> str | None:
    """The reply in other words, or None where nothing could be changed.

    >>> reworded("I'm sorry to hear that. What happened?", Random(3)) != "I'm sorry to hear that. What happened?"
    True
    """
    clean = flat(text)
    said = [sentence.strip() for sentence in _SENTENCE.findall(clean)] or [clean]
    if len(said) >= 3 and rng.random() < 0.6:
        del said[rng.randrange(len(said))]
    told = ("" if re.search(r"[\u4e00-\u9fff]", clean) else " ").join(said)
    for pattern, others in _rewordings():
        if rng.random() < 0.8:
            other = rng.choice(others)
            told = pattern.sub(lambda found, other=other: _as(found.group(), other), told, count=1)  # type: ignore[misc]
    return told if told.lower() != clean.lower() and len(told) > 2 else None


@cache
def _rewordings() -> list[tuple[re.Pattern[str], Bank]]:
    """Stock phrases with what can be said instead, compiled."""
    stock = [(rf"\b(?:{pattern})\b", others) for pattern, others in phrases("en").rewordings]
    stock += phrases("zh").rewordings
    return [(re.compile(pattern, re.IGNORECASE), others) for pattern, others in stock]


def _as(old: str, new: str) -> str:
    return capital(new) if old[:1].isupper() and not old.startswith("I") else new


def flat(text: str) -> str:
    """A merged turn on one line; what was sent twice is said once, and subtitles' markup is not said at all.

    >>> flat("Why?\\nWhy?\\n<i>Tell</i> me.")
    'Why? Tell me.'
    """
    return " ".join(_MARKUP.sub("", " ".join(dict.fromkeys(text.split("\n")))).split())


def _kind(moment: Moment, own: SilverReply | None, strategy: str, seed: int) -> str:
    """Draw the kind of reply, as far as the moment allows it."""
    rng = stream(seed, moment.key, "reply kind")
    fits = strategy in moment.strategies
    good = (GOOD if moment.helpful else GOOD_TO_FAILED) if fits else GOOD_DESPITE
    if own is not None and rng.random() < good:
        return "fitting"
    return rng.choices(list(BAD), list(BAD.values()))[0]


def _misplaced(
    pool: Pool, own: Sequence[SilverReply | None], strategies: Sequence[str], wanting: Sequence[int], seed: int
) -> dict[int, int]:
    """For each moment, whose fitting reply it gets: off topic, from another dialogue, in the concluded strategy.

    Those who have a fitting reply exchange it; the others get anybody's.
    """
    rng = stream(seed, "misplaced", pool.moments[0].key)
    names = [moment.dialogue.id for moment in pool.moments]
    offering = [at for at, reply in enumerate(own) if reply]
    drawn = {at: rng.choice(offering) for at in wanting if offering and not own[at]}
    found = {to: giver for to, giver in drawn.items() if names[to] != names[giver]}
    members = [at for at in wanting if own[at]]
    moments = [pool.moments[at] for at in members]
    if len(moments) < 2:
        return found
    dialogue = np.array([names[at] for at in members])
    problem = np.array([m.dialogue.problem or m.dialogue.id for m in moments])
    wanted = np.array([strategies[at] for at in members])
    offered = np.array([m.strategy for m in moments])
    parting = np.array([m.strategy == "others" and bool(_THANKS.search(m.last)) for m in moments])
    cost = (
        2 * pool.alike[np.ix_(members, members)]
        + 1.0 * (wanted[:, None] != offered[None, :])
        + 0.5 * (problem[:, None] == problem[None, :])
        + 0.7 * (parting[:, None] & parting[None, :])  # one goodbye fits another
    )
    return found | exchange(members, cost, dialogue[:, None] != dialogue[None, :], seed)[0]


def _failed(moment: Moment, strategy: str, failed: Sequence[Moment], rng: Random) -> SilverReply | None:
    others = [m for m in failed if m.dialogue.id != moment.dialogue.id]
    donors = [m for m in others if m.strategy == strategy] or others
    if not donors:
        return None
    donor = rng.choice(donors)
    return SilverReply(flat(donor.reply), "failed", "failed", donor.key)
