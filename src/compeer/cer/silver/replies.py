"""The candidate's reply and the preference that follows from how it was made.

Where the candidate is good it says what fits (`fitting`). Where it is bad it says

    off_topic  what fits another moment, by exchange, so good and bad replies have the same words
    unfit      something on the point in a strategy that does not belong here (the strategy step is wrong too)
    spliced    the beginning of what fits here, the end of what fits elsewhere
    detail     what fits, with a person or thing in it that is not this seeker's
    generic    a phrase for everyone
    failed     what a supporter said in a conversation that failed

against the reference of a helpful conversation: both | reference; of a failed one: candidate | neither. `generic`
and `failed` have words of their own and are kept few: text alone may tell a little, see `leakage`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random

import numpy as np

from compeer.cer.silver.evidence import Evidence
from compeer.cer.silver.fitting import BANKS, Reply, fitting, make
from compeer.cer.silver.moment import Moment, stream
from compeer.cer.silver.own_words import PEOPLE, THINGS
from compeer.cer.silver.phrases import say
from compeer.cer.silver.retrieve import Found, Index
from compeer.cer.silver.reworded import flat, sentences
from compeer.cer.silver.swap import exchange
from compeer.cer.silver.wrong_steps import Pool

GOOD = 0.52  # of the candidates whose strategy fits
GOOD_DESPITE = 0.16  # of those whose strategy step is wrong: thought badly, answered well
GOOD_TO_FAILED = 0.62
BAD = {"off_topic": 0.46, "spliced": 0.2, "detail": 0.2, "generic": 0.06, "failed": 0.08}
BAD_STRATEGY = {"unfit": 0.6, "off_topic": 0.28, "generic": 0.05, "failed": 0.07}
_MAKE_UNFIT = 0.4
_NOUNS = tuple(re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for words in (PEOPLE, THINGS))


def replies(pool: Pool, strategies: Sequence[str], index: Index, failed: Sequence[Moment], seed: int) -> list[Reply]:
    """One reply for each moment of the pool; `strategies` are those that the candidates' third steps conclude."""
    moments = pool.moments
    own = fitting(pool.evidence, index, seed)
    kinds = [_kind(m, own[at], strategies[at], bool(failed), seed) for at, m in enumerate(moments)]
    off = [at for at, kind in enumerate(kinds) if kind in ("off_topic", "spliced")]
    moved = _misplaced(pool, own, strategies, off, seed)
    unfit = [at for at, kind in enumerate(kinds) if kind == "unfit"]
    other = dict(zip(unfit, index.best([moments[at] for at in unfit], [strategies[at] for at in unfit]), strict=True))
    nouns = [[n for reply in own if reply for n in noun.findall(reply.text)] for noun in _NOUNS]
    said = []
    for at, (moment, kind) in enumerate(zip(moments, kinds, strict=True)):
        rng = stream(seed, moment.key, "reply")
        reply, elsewhere = own[at], own[moved[at]] if at in moved else None
        if kind == "off_topic" and elsewhere:
            reply = Reply(elsewhere.text, kind, elsewhere.source, moments[moved[at]].key)
        elif kind == "spliced" and elsewhere and reply:
            both = f"{sentences(reply.text)[0]} {sentences(elsewhere.text)[-1]}"
            reply = Reply(both, kind, reply.source, moments[moved[at]].key)
        elif kind == "unfit":
            reply = _unfit(pool.evidence[at], strategies[at], other[at], rng, seed)
        elif kind == "detail" and reply:
            changed = _wrong_detail(reply.text, moment, nouns, rng)
            reply = Reply(changed, kind, reply.source, reply.donor) if changed else None
        elif kind == "failed":
            reply = _failed(moment, strategies[at], failed, rng)
        elif kind != "fitting":
            reply = None
        if reply is None or _same(reply.text, moment.reply):
            reply = Reply(say(BANKS[moment.language].GENERIC, rng, {}) or "…", "generic", "generic")
        said.append(reply)
    return said


def _kind(moment: Moment, own: Reply | None, strategy: str, any_failed: bool, seed: int) -> str:
    """Good, or bad in which way: by chance, as far as the moment allows it."""
    rng = stream(seed, moment.key, "reply kind")
    fits = strategy in moment.strategies
    good = (GOOD if moment.helpful else GOOD_TO_FAILED) if fits else GOOD_DESPITE
    if own is None:
        return "unfit" if not fits else "generic"
    if rng.random() < good:
        return "fitting"
    shares = BAD if fits else BAD_STRATEGY
    kind = rng.choices(list(shares), list(shares.values()))[0]
    if (
        (kind == "failed" and not any_failed)
        or (kind == "spliced" and len(sentences(own.text)) < 2)
        or (kind == "detail" and not any(noun.search(own.text) for noun in _NOUNS))
    ):
        return "off_topic"
    return kind


def _misplaced(
    pool: Pool, own: Sequence[Reply | None], strategies: Sequence[str], members: Sequence[int], seed: int
) -> dict[int, int]:
    """Who gets whose fitting reply: from another dialogue, far from the point, in the strategy concluded."""
    members = [at for at in members if own[at]]
    if len(members) < 2:
        return {}
    moments = [pool.moments[at] for at in members]
    dialogue = np.array([m.dialogue.id for m in moments])
    problem = np.array([m.dialogue.problem or m.dialogue.id for m in moments])
    wanted = np.array([strategies[at] for at in members])
    offered = np.array([m.strategy for m in moments])
    parting = np.array([m.strategy == "others" and "thank" in m.last.lower() for m in moments])
    cost = (
        2 * pool.alike[np.ix_(members, members)]
        + 1.0 * (wanted[:, None] != offered[None, :])
        + 0.5 * (problem[:, None] == problem[None, :])
        + 0.7 * (parting[:, None] & parting[None, :])  # one goodbye fits another
    )
    moved, _ = exchange(members, cost, dialogue[:, None] != dialogue[None, :], seed)
    return moved


def _unfit(found: Evidence, strategy: str, other: Found | None, rng: Random, seed: int) -> Reply | None:
    if (other is None or rng.random() < _MAKE_UNFIT) and (text := make(found, strategy, seed)):
        return Reply(text, "unfit", "made")
    return Reply(flat(other.moment.reply), "unfit", "retrieved", other.moment.key) if other else None


def _failed(moment: Moment, strategy: str, failed: Sequence[Moment], rng: Random) -> Reply | None:
    others = [m for m in failed if m.dialogue.id != moment.dialogue.id]
    donors = [m for m in others if m.strategy == strategy] or others
    if not donors:
        return None
    donor = rng.choice(donors)
    return Reply(flat(donor.reply), "failed", "failed", donor.key)


def _same(one: str, other: str) -> bool:
    return flat(one).casefold() == flat(other).casefold()


def _wrong_detail(text: str, moment: Moment, nouns: Sequence[Sequence[str]], rng: Random) -> str | None:
    """The reply with one kind of person or thing exchanged for what others speak of, and this seeker does not."""
    for noun, known in zip(_NOUNS, nouns, strict=True):
        if found := noun.search(text):
            here = f"{moment.told} {text}".lower()
            foreign = [word for word in known if word.lower() not in here]
            if foreign:
                return re.sub(rf"\b{re.escape(found.group())}\b", rng.choice(foreign).lower(), text)
    return None
