"""The candidate's reply, and the preference that follows from how it was made.

Where the candidate is good it says what fits, in one of three ways:

    retrieved  another supporter's real reply to a similar moment, in the same strategy
    made       from the seeker's own words, in patterns
    reworded   the corpus's own reply in other words (helpful conversations only)

Where it is bad it says

    off_topic  what fits another moment, by exchange, so good and bad replies have the same words
    unfit      something on the point in a strategy that does not belong here (the strategy step is wrong too)
    spliced    the beginning of what fits here, the end of what fits elsewhere
    detail     what fits, with a person or thing in it that is not this seeker's
    generic    a phrase for everyone
    failed     what a supporter said in a conversation that failed

against the reference of a helpful conversation: both | reference; of a failed one: candidate | neither. `generic`
and `failed` have words of their own and are kept few: text alone may tell a little (`text_only`).

Similar moments are found by plain word statistics: the seeker's last message alike, what was told lately alike, the
reply about things this seeker speaks of too. Against it: words in the reply that are neither common nor this seeker's.
Far down the list such replies are merely vague, so only those above `CLOSE` count as good. Rewording opens and closes
contractions and exchanges stock phrases; it is applied to right and to misplaced replies alike.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from random import Random

import msgspec
import numpy as np
import numpy.typing as npt

from compeer.cer.item import Preference
from compeer.cer.silver.evidence import PEOPLE, THINGS, Evidence, draw, occasions, quoted, retold, tells
from compeer.cer.silver.moment import Moment, size, stream
from compeer.cer.silver.phrases import Bank, capital, lower_first, phrases, say
from compeer.cer.silver.wrong_steps import Pool, exchange

Flags = npt.NDArray[np.bool_]

CLOSE = 0.22
_LAST_ALIKE = 0.25  # the message that is answered must itself be alike, whatever else is
_FEWEST_WORDS = {"en": 5, "zh": 6}
_MOST_USES = 3  # a reply that fits everywhere must not become everybody's
_CHUNK = 512


class Found(msgspec.Struct, frozen=True):
    moment: Moment
    score: float


class Index:
    """The replies of helpful moments in one language."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        from scipy.sparse import diags
        from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

        self.moments = [m for m in moments if m.helpful and size(m.reply, m.language) >= _FEWEST_WORDS[m.language]]
        self.uses: Counter[str] = Counter()
        if not self.moments:
            return
        analyzer = "word" if self.moments[0].language == "en" else "char"
        self._last = TfidfVectorizer(min_df=2, sublinear_tf=True, ngram_range=(1, 2), analyzer=analyzer)
        self._recent = TfidfVectorizer(min_df=1, max_df=0.3, sublinear_tf=True, analyzer=analyzer)
        self._words = CountVectorizer(binary=True, analyzer=analyzer)
        replies = [m.reply for m in self.moments]
        counts = self._words.fit_transform(replies)
        # only words in fewer than two of a hundred replies can be foreign
        weight = np.clip(np.log(len(replies) / np.asarray(counts.sum(axis=0)).ravel()) - 4, 0, None)
        self._special = (counts @ diags(weight)).tocsr()
        self._special_total = np.asarray(self._special.sum(axis=1)).ravel()
        self._lasts = self._last.fit_transform([m.last for m in self.moments])
        self._recents = self._recent.fit_transform([recent(m) for m in self.moments])
        self._replies = self._recent.transform(replies)
        self._strategy = np.array([m.strategy for m in self.moments])
        self._problem = np.array([m.dialogue.problem or "" for m in self.moments])
        self._thanks = _thanks(self.moments)
        self._dialogue = np.array([m.dialogue.id for m in self.moments])

    def best(self, queries: Sequence[Moment], strategies: Sequence[str]) -> list[Found | None]:
        """For each moment the best reply with the wanted strategy from another dialogue."""
        found: list[Found | None] = [None] * len(queries)
        if not self.moments:
            return found
        for strategy in dict.fromkeys(strategies):
            rows = [at for at, wanted in enumerate(strategies) if wanted == strategy]
            columns = np.flatnonzero(self._strategy == strategy)
            for start in range(0, len(rows) if len(columns) else 0, _CHUNK):
                part = rows[start : start + _CHUNK]
                scores = self._scores([queries[at] for at in part], columns)
                for row, at in enumerate(part):
                    found[at] = self._take(scores[row], columns)
        return found

    def _scores(self, queries: Sequence[Moment], columns: np.ndarray) -> np.ndarray:
        lasts = self._last.transform([m.last for m in queries])
        recents = self._recent.transform([recent(m) for m in queries])
        known = self._words.transform([recent(m) for m in queries])
        alike = (lasts @ self._lasts[columns].T).toarray()
        score = 0.6 * alike + 0.3 * (recents @ self._recents[columns].T).toarray()
        score += 0.4 * (recents @ self._replies[columns].T).toarray()
        score -= 0.06 * (self._special_total[columns][None, :] - (known @ self._special[columns].T).toarray())
        problems = np.array([m.dialogue.problem or "" for m in queries])
        score += 0.05 * (problems[:, None] == self._problem[columns][None, :])
        score -= 0.3 * (alike < _LAST_ALIKE)
        score -= 0.3 * (_thanks(queries)[:, None] != self._thanks[columns][None, :])  # goodbyes go with goodbyes
        own = np.array([m.dialogue.id for m in queries])
        score[own[:, None] == self._dialogue[columns][None, :]] = -np.inf
        return np.asarray(score)

    def _take(self, scores: np.ndarray, columns: np.ndarray) -> Found | None:
        for column in np.argsort(-scores)[:60]:
            reply = self.moments[columns[column]]
            if np.isfinite(scores[column]) and self.uses[reply.key] < _MOST_USES:
                self.uses[reply.key] += 1
                return Found(reply, float(scores[column]))
        return None


def _thanks(moments: Sequence[Moment]) -> Flags:
    return np.array(["thanks" in occasions(m) for m in moments], dtype=bool)


def recent(moment: Moment) -> str:
    """What the seeker told lately."""
    return "\n".join(moment.seeker[-3:])


_MARKUP = re.compile(r"</?[A-Za-z][^<>]{0,60}>")
_SENTENCE = re.compile(r"[^.!?\n。！？]+[.!?。！？]*\s*")
_OPENING = re.compile(r"^(?:oh|ok|okay|well|yes|yeah|ah|hmm|so|right)\b[\s,.!]+", re.IGNORECASE)


@cache
def _rewordings() -> tuple[list[tuple[re.Pattern[str], Bank]], list[tuple[re.Pattern[str], str]]]:
    """Stock phrases with what can be said instead, and contractions both ways, compiled."""
    stock = [(rf"\b(?:{pattern})\b", others) for pattern, others in phrases("en").rewordings]
    stock += phrases("zh").rewordings
    opened = [(re.compile(pattern, re.IGNORECASE), other) for pattern, other in phrases("en").contractions.items()]
    return [(re.compile(pattern, re.IGNORECASE), others) for pattern, others in stock], opened


def reworded(text: str, rng: Random) -> str | None:
    """The reply in other words, or None where nothing could be changed.

    >>> reworded("I'm sorry to hear that. What happened?", Random(3)) != "I'm sorry to hear that. What happened?"
    True
    """
    clean = flat(text)
    said = sentences(clean)
    if len(said) >= 3 and rng.random() < 0.6:
        del said[rng.randrange(len(said))]
    chinese = bool(re.search(r"[\u4e00-\u9fff]", clean))
    told = ("" if chinese else " ").join(said)
    if rng.random() < 0.7 and len(without := _OPENING.sub("", told)) > 12:
        told = capital(without)
    stock, contractions = _rewordings()
    changes = 0
    for pattern, others in stock:
        if rng.random() < 0.8:
            told, changed = pattern.subn(lambda found, others=others: _as(found.group(), rng.choice(others)), told, 1)  # type: ignore[misc]
            changes += changed
    toggled = [pair for pair in contractions if pair[0].search(told)]
    for pattern, other in rng.sample(toggled, min(2, len(toggled))):
        told = pattern.sub(lambda found, other=other: _as(found.group(), other), told, count=1)  # type: ignore[misc]
    if changes + len(toggled) < 2 and not _OPENING.match(told):  # a word before it, as people do
        told = rng.choice(phrases("zh" if chinese else "en").interjections) + lower_first(told)
    return told if told.lower() != clean.lower() and len(told) > 2 else None


def flat(text: str) -> str:
    """A merged turn on one line; what was sent twice is said once, and subtitles' markup is not said at all.

    >>> flat("Why?\\nWhy?\\n<i>Tell</i> me.")
    'Why? Tell me.'
    """
    return " ".join(_MARKUP.sub("", " ".join(dict.fromkeys(text.split("\n")))).split())


def sentences(text: str) -> list[str]:
    """The sentences of a reply, each with its own mark."""
    return [s.strip() for s in _SENTENCE.findall(text) if s.strip()] or [text]


def _as(old: str, new: str) -> str:
    return capital(new) if old[:1].isupper() and not old.startswith("I") else new


_RETRIEVE = 0.6  # of the moments look for another's reply; most find none close enough
_MAKE, _BLEND = 0.6, 0.55  # of the rest, where the strategy allows it, make one; of the rest of that, blend
_MIRROR = ("restatement or paraphrasing", "reflection of feelings")  # goes before anything


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


def fitting(evidence: Sequence[Evidence], index: Index, seed: int) -> list[SilverReply | None]:
    """A fitting reply for each moment, in the strategy that is right there; None where none could be found."""
    moments = [one.moment for one in evidence]
    look = [at for at, m in enumerate(moments) if stream(seed, m.key, "look").random() < _RETRIEVE]
    best = index.best([moments[at] for at in look], [moments[at].strategy for at in look])
    close = {
        at: found
        for at, found in zip(look, best, strict=True)
        if found and found.score >= CLOSE and flat(found.moment.reply) != flat(moments[at].reply)
    }
    replies: list[SilverReply | None] = []
    for at, moment in enumerate(moments):
        if at in close:
            other = close[at].moment
            replies.append(SilverReply(flat(other.reply), "fitting", "retrieved", other.key))
            continue
        rng = stream(seed, moment.key, "fitting")
        again = reworded(moment.reply, rng) if moment.helpful else None
        telling = tells(moment)
        made = None
        if telling and (again is None or rng.random() < _MAKE):
            made = make(evidence[at], moment.strategy, seed)
        if made or not again:
            replies.append(SilverReply(made, "fitting", "made") if made else None)
            continue
        mirrored = make(evidence[at], rng.choice(_MIRROR), seed) if telling and rng.random() < _BLEND else None
        blended = f"{sentences(mirrored)[0]} {max(sentences(again), key=len)}" if mirrored else None
        replies.append(SilverReply(blended or again, "fitting", "blended" if blended else "reworded"))
    return replies


def make(found: Evidence, strategy: str, seed: int) -> str | None:
    """A reply from the seeker's own words, or None where they or the strategy do not allow it."""
    if strategy not in phrases("en").made:
        return None
    moment, language = found.moment, found.moment.language
    rng = stream(seed, moment.key, "make", strategy)
    slots = {"feeling": phrases(language).feelings[moment.emotion].states[0]}
    told = [t for text in moment.seeker[-2:] for t in retold(text, language, "you")]
    if told:
        slots["you"] = draw(told, rng)
    if quotes := [*found.quotes, *found.last]:
        slots["quote"] = quoted(draw(quotes, rng), language)
    if found.topics:
        slots["topic"] = rng.choice(found.topics).replace("their ", "your ", 1)
    return say(phrases(language).made[strategy], rng, slots)


GOOD = 0.52  # of the candidates whose strategy fits
GOOD_DESPITE = 0.16  # of those whose strategy step is wrong: thought badly, answered well
GOOD_TO_FAILED = 0.62
BAD = {"off_topic": 0.46, "spliced": 0.2, "detail": 0.2, "generic": 0.06, "failed": 0.08}
BAD_STRATEGY = {"unfit": 0.6, "off_topic": 0.28, "generic": 0.05, "failed": 0.07}
_MAKE_UNFIT = 0.4
_NOUNS = tuple(re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for words in (PEOPLE, THINGS))


def replies(
    pool: Pool, strategies: Sequence[str], index: Index, failed: Sequence[Moment], seed: int
) -> list[SilverReply]:
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
            reply = SilverReply(elsewhere.text, kind, elsewhere.source, moments[moved[at]].key)
        elif kind == "spliced" and elsewhere and reply:
            both = f"{sentences(reply.text)[0]} {sentences(elsewhere.text)[-1]}"
            reply = SilverReply(both, kind, reply.source, moments[moved[at]].key)
        elif kind == "unfit":
            reply = _unfit(pool.evidence[at], strategies[at], other[at], rng, seed)
        elif kind == "detail" and reply:
            changed = _wrong_detail(reply.text, moment, nouns, rng)
            reply = SilverReply(changed, kind, reply.source, reply.donor) if changed else None
        elif kind == "failed":
            reply = _failed(moment, strategies[at], failed, rng)
        elif kind != "fitting":
            reply = None
        if reply is None or _same(reply.text, moment.reply):
            reply = SilverReply(say(phrases(moment.language).generic, rng, {}) or "…", "generic", "generic")
        said.append(reply)
    return said


def _kind(moment: Moment, own: SilverReply | None, strategy: str, any_failed: bool, seed: int) -> str:
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
    pool: Pool, own: Sequence[SilverReply | None], strategies: Sequence[str], members: Sequence[int], seed: int
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


def _unfit(found: Evidence, strategy: str, other: Found | None, rng: Random, seed: int) -> SilverReply | None:
    if (other is None or rng.random() < _MAKE_UNFIT) and (text := make(found, strategy, seed)):
        return SilverReply(text, "unfit", "made")
    return SilverReply(flat(other.moment.reply), "unfit", "retrieved", other.moment.key) if other else None


def _failed(moment: Moment, strategy: str, failed: Sequence[Moment], rng: Random) -> SilverReply | None:
    others = [m for m in failed if m.dialogue.id != moment.dialogue.id]
    donors = [m for m in others if m.strategy == strategy] or others
    if not donors:
        return None
    donor = rng.choice(donors)
    return SilverReply(flat(donor.reply), "failed", "failed", donor.key)


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
