"""BLEU (Papineni et al. 2002) against references, and self-BLEU (Zhu et al. 2018) of a set against itself.

A reply's statistics are one row of counts: n-grams that match, n-grams in all, its length, its reference's length.
Rows add up, so the BLEU of a corpus is that of their sum, and resampling dialogues means summing rows again.

Words are ours (Latin words in lower case, Chinese characters; no punctuation), so figures are not those of a tool
with another tokenizer. A single sentence is smoothed as in NIST's mteval: the k-th order without a match counts as
1 / 2^k matches. A corpus is not smoothed.

Self-BLEU takes all other replies as the references of each. Written plainly that is quadratic; here the two largest
counts of each n-gram and their owner are kept, which is all that "the largest count in any *other* reply" needs.

ROUGE-L (Lin 2004): the longest common subsequence of a reply and its reference, as F1.

Recall and precision weigh the same, as in the tools that are used today (the first version weighed recall more). The
subsequence is counted on the bits of one integer (Hyyrö 2004): a step a word instead of a step a pair of words.

What a reply says again: its own earlier words, or the seeker's.

Two shares of a reply's n-grams: those that the supporter has already used in this dialogue, and those that the seeker
has. The first is going round in circles; the second is partly a virtue, since restating is a strategy, so the two are
kept apart. Likeness in meaning is equation 6's s_hi (`compeer.policy.redundancy`).

How varied a set of replies is: distinct-n, and likeness of replies of different dialogues, with intervals.

Both are figures of the whole set, and drawing dialogues with replacement would spoil them: a dialogue drawn twice
repeats itself word for word, and every draw would look less varied than the set it comes from. So the interval is
the jackknife's: the figure again without each dialogue in turn. Both can be had without computing anything anew,
since leaving out a dialogue loses exactly the n-grams that occur nowhere else, and the pairs it takes part in.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from compeer.policy.diversity import distinct, ngrams
from compeer.reasoning.ontology import words
from compeer.statistics import Figure

ORDER = 4
Counts = npt.NDArray[np.float64]  # (..., 2 * ORDER + 2): matches of each order, totals, length, reference length


def counts(text: str, references: Sequence[str]) -> Counts:
    """The statistics of one text; the reference length is that of the nearest reference, the shorter of two.

    >>> counts("the cat sat", ["the cat sat down"]).tolist()
    [3.0, 2.0, 1.0, 0.0, 3.0, 2.0, 1.0, 0.0, 3.0, 4.0]
    """
    length = len(words(text))
    matched, total = [], []
    for n in range(1, ORDER + 1):
        most: Counter[tuple[str, ...]] = Counter()
        for reference in references:
            most |= Counter(ngrams(reference, n))
        own = Counter(ngrams(text, n))
        matched.append((own & most).total())
        total.append(own.total())
    nearest = min((len(words(one)) for one in references), key=lambda other: (abs(other - length), other), default=0)
    return np.array([*matched, *total, length, nearest], dtype=np.float64)


def bleu(table: Counts, order: int = ORDER, smooth: bool = False) -> npt.NDArray[np.float64]:
    """BLEU from rows of statistics, between 0 and 1; the last axis is the row.

    >>> round(float(bleu(counts("the cat sat", ["the cat sat down"]), order=2)), 4)  # exp(1 - 4/3)
    0.7165
    >>> float(bleu(counts("a b c d e", ["a b c d e"])))
    1.0
    """
    table = np.asarray(table, dtype=np.float64)
    matched, total = table[..., :order].copy(), table[..., ORDER : ORDER + order]
    length, wanted = table[..., 2 * ORDER], table[..., 2 * ORDER + 1]
    if smooth:
        missed = (matched == 0) & (total > 0)
        matched = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), matched)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(total > 0, matched / total, 0.0)
        # a text shorter than the order has no n-grams of that order: smoothed, it is measured by those it has
        there = total > 0 if smooth else np.ones_like(total, dtype=bool)
        logs = np.where(there, np.log(precision), 0.0).sum(axis=-1) / np.maximum(1, there.sum(axis=-1))
        brevity = np.where(length >= wanted, 0.0, 1.0 - wanted / length)
        value = np.where(length > 0, np.exp(logs + brevity), 0.0)
    return np.nan_to_num(value)


def self_bleu(texts: Sequence[str], order: int = ORDER) -> list[float]:
    """For each text its smoothed BLEU with all the others as references; 1 means that it was said before.

    >>> self_bleu(["how are you today", "how are you today"]), self_bleu(["alone"])
    ([1.0, 1.0], [0.0])
    """
    if len(texts) < 2:
        return [0.0] * len(texts)
    own = [[Counter(ngrams(text, n)) for n in range(1, ORDER + 1)] for text in texts]
    tops: list[dict[tuple[str, ...], tuple[int, int, int]]] = [{} for _ in range(ORDER)]
    for number, grams in enumerate(own):
        for top, counted in zip(tops, grams, strict=True):
            for gram, times in counted.items():
                best, owner, second = top.get(gram, (0, -1, 0))
                top[gram] = (times, number, best) if times > best else (best, owner, max(second, times))
    lengths = [len(words(text)) for text in texts]
    ordered = sorted(lengths)
    rows = np.zeros((len(texts), 2 * ORDER + 2))
    for number, grams in enumerate(own):
        for n, (top, counted) in enumerate(zip(tops, grams, strict=True)):
            for gram, times in counted.items():
                best, owner, second = top[gram]
                rows[number, n] += min(times, second if owner == number else best)
            rows[number, ORDER + n] = counted.total()
        rows[number, 2 * ORDER :] = lengths[number], _nearest_other(ordered, lengths[number])
    values: list[float] = bleu(rows, order, smooth=True).tolist()
    return values


def _nearest_other(ordered: Sequence[int], length: int) -> int:
    """The nearest length in the sorted list besides one entry of this length itself.

    >>> _nearest_other([3, 5, 9], 5), _nearest_other([5, 5], 5)
    (3, 5)
    """
    at = bisect_left(ordered, length)
    around = [ordered[place] for place in (at - 1, at + 1) if 0 <= place < len(ordered)]
    return min(around, key=lambda other: (abs(other - length), other))


def rouge_l(text: str, reference: str) -> float:
    """F1 of the longest common subsequence of words.

    >>> rouge_l("police kill the gunman", "police killed the gunman"), rouge_l("", "hello")
    (0.75, 0.0)
    """
    said, wanted = words(text.lower()), words(reference.lower())
    common = common_length(said, wanted)
    return 2 * common / (len(said) + len(wanted)) if common else 0.0


def common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence.

    >>> common_length("ABCBDAB", "BDCABA")
    4
    """
    places: dict[str, int] = {}
    for at, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << at
    whole = (1 << len(first)) - 1
    open_bits = whole  # a zero for each row in which the length of the subsequence grows
    for word in second:
        hits = open_bits & places.get(word, 0)
        open_bits = ((open_bits + hits) | (open_bits - hits)) & whole
    return len(first) - open_bits.bit_count()


N = 3


def said_before(reply: str, earlier: Iterable[str], n: int = N) -> float | None:
    """The share of the reply's n-grams that occur in the earlier texts; None for a reply shorter than n words.

    >>> said_before("I hear you, that is hard", ["I hear you."]), said_before("Oh no", ["Oh no"])
    (0.25, None)
    """
    own = ngrams(reply, n)
    known = {gram for text in earlier for gram in ngrams(text, n)}
    return sum(gram in known for gram in own) / len(own) if own else None


def said_elsewhere(replies: Sequence[str]) -> list[bool]:
    """For each reply whether another one has exactly its words.

    >>> said_elsewhere(["I hear you.", "i hear you", "Go on."])
    [True, True, False]
    """
    keys = [tuple(words(reply.lower())) for reply in replies]
    times = Counter(keys)
    return [bool(key) and times[key] > 1 for key in keys]


Floats = npt.NDArray[np.float64]
_FEWEST = 5  # dialogues, below which leaving one out tells nothing


def distinct_figure(name: str, texts: Sequence[str], dialogues: Sequence[str], n: int) -> Figure:
    """Distinct-n of all texts together (`policy.diversity.distinct`), with its interval over dialogues."""
    value = distinct(texts, n)
    within: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for text, dialogue in zip(texts, dialogues, strict=True):
        within[dialogue].update(ngrams(text, n))
    homes = Counter(gram for counted in within.values() for gram in counted)
    whole = sum(counted.total() for counted in within.values())
    without = []
    for counted in within.values():
        rest = whole - counted.total()
        alone = sum(homes[gram] == 1 for gram in counted)
        without.append((len(homes) - alone) / rest if rest else math.nan)
    return jackknife_figure(name, value, np.array(without), len(texts), top=1.0)


def across_figure(name: str, vectors: Any, dialogues: Sequence[str]) -> Figure:
    """The mean cosine of every two replies of *different* dialogues; `vectors` are rows of any length."""
    rows: Floats = np.asarray(vectors, dtype=np.float64)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    names, places = np.unique(np.asarray(dialogues, dtype=object).astype(str), return_inverse=True)
    if len(names) < 2:
        return Figure(name)
    sums = np.zeros((len(names), rows.shape[1]))
    np.add.at(sums, places, rows)
    sizes = np.bincount(places).astype(np.float64)
    own = np.square(sums).sum(axis=1)
    total = sums.sum(axis=0)
    between = float(np.square(total).sum() - own.sum())  # ordered pairs of different dialogues
    pairs = float(sizes.sum() ** 2 - np.square(sizes).sum())
    # without dialogue d its pairs with all the others are gone, twice over
    lost = 2 * (sums @ total - own)
    fewer = 2 * sizes * (sizes.sum() - sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        without = (between - lost) / (pairs - fewer)
    return jackknife_figure(name, between / pairs, without, len(rows), bottom=-1.0, top=1.0)


def jackknife_figure(
    name: str, value: float, without: Floats, n: int, bottom: float = 0.0, top: float = math.inf
) -> Figure:
    """A figure whose interval comes from its values without each dialogue in turn.

    >>> jackknife_figure("x", 0.5, np.full(5, 0.5), 7)
    Figure(name='x', value=0.5, low=0.5, high=0.5, n=7)
    """
    known = without[np.isfinite(without)]
    if len(known) < _FEWEST:
        return Figure(name, value, n=n)
    error = math.sqrt((len(known) - 1) / len(known) * float(np.square(known - known.mean()).sum()))
    return Figure(name, value, max(bottom, value - 1.96 * error), min(top, value + 1.96 * error), n)
