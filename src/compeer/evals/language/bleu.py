"""BLEU (Papineni et al. 2002) against references, and self-BLEU (Zhu et al. 2018) of a set against itself.

A reply's statistics are one row of counts: n-grams that match, n-grams in all, its length, its reference's length.
Rows add up, so the BLEU of a corpus is that of their sum, and resampling dialogues means summing rows again.

Words are ours (Latin words in lower case, Chinese characters; no punctuation), so figures are not those of a tool
with another tokenizer. A single sentence is smoothed as in NIST's mteval: the k-th order without a match counts as
1 / 2^k matches. A corpus is not smoothed.

Self-BLEU takes all other replies as the references of each. Written plainly that is quadratic; here the two largest
counts of each n-gram and their owner are kept, which is all that "the largest count in any *other* reply" needs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from compeer.policy.diversity import ngrams
from compeer.reasoning.language import words

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
