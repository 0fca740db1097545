"""How far a mean can be trusted: the percentile bootstrap, seeded, so that the same scores give the same interval.

The figures of Table 1 from a table of counts.

A count table has a row for each true class and a column for each class that was said, and one column more: no
answer. So a verdict that did not come is wrong like any other wrong verdict: it takes from the recall of its true
class and adds to the precision of none. scikit-learn gives the same figures when the missing answer is a class of
its own.

Everything works on the last two axes, so a thousand resampled tables (`bootstrap`) are measured in one call. A
figure that does not exist (the recall of a class that never occurs) is NaN, never 0.

What probabilities are worth: ROC curve and its area, calibration.

A step is judged for being wrong: the curve shows which share of the wrong steps is found (up) at the price of which
share of right steps blamed (right). Calibration asks whether "70 %" comes true in 70 of 100 cases: ten bins of equal
width, the expected calibration error (ECE) over them, and the Brier score.

Every measure is made of sums over items, or over pairs of items, so that `bootstrap` can sum within each dialogue once
and reweigh the dialogues a thousand times.

Intervals by resampling dialogues.

Items of one dialogue are alike: the same person, the same trouble, often the same judge's mistake. Resampling items
would take them for independent and give intervals that are too narrow, so whole dialogues are drawn, with
replacement, as many as there are.

A draw is a row of weights, how often each dialogue was taken. All rounds are measured together: counts are summed
within each dialogue once, and a matrix product gives the tables of all rounds. Judges measured with the same
resamples are compared pair by pair, round by round.

Shares with the Wilson interval, which stays honest where a bootstrap does not: 18 of 18 is not certainty.

Agreement between raters: percent, Cohen's kappa, nominal Krippendorff's alpha, Gwet's AC1. The last three correct the
share of equal ratings for chance, each with its own idea of chance: for kappa each rater draws from their own
distribution of answers, so a lopsided question makes kappa low although people agree; for alpha everybody draws from
the distribution of all answers; for AC1 only the hard cases are guessed. Ratings are given by unit: for each item the
answers it got, or a counter of such tuples. A coefficient that does not exist is NaN.

Bradley-Terry strengths from a matrix of wins, for one matrix or for all resamples at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

DRAWS = 2000


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One number of a result with its 95 % interval and how many samples stand behind it.

    `low` and `high` are None where an interval has no meaning (a count, a single sample).
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0


def mean_figure(name: str, values: Sequence[float], seed: int = 0, scale: float = 1.0) -> Figure:
    """The mean of `values` times `scale`; the interval resamples the values, which must be independent samples.

    >>> mean_figure("x", [1.0, 1.0, 1.0])
    Figure(name='x', value=1.0, low=1.0, high=1.0, n=3)
    """
    if not values:
        return Figure(name, float("nan"))
    data = np.asarray(values, dtype=float) * scale
    value = float(data.mean())
    if len(data) < 2:
        return Figure(name, value, n=len(data))
    rng = np.random.default_rng(seed)
    size = max(1, 4_000_000 // len(data))  # rows at once: memory stays bounded for large samples
    means: list[float] = []
    while len(means) < DRAWS:
        draws = rng.integers(0, len(data), (min(size, DRAWS - len(means)), len(data)))
        means.extend(data[draws].mean(axis=1).tolist())
    low, high = np.percentile(means, [2.5, 97.5])
    return Figure(name, value, float(low), float(high), len(data))


Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]  # classes by number; -1: no answer


def confusion(truth: Codes, told: Codes, classes: int) -> npt.NDArray[np.int64]:
    """Counts by true class (rows) and said class (columns, the last one for no answer).

    >>> confusion(np.array([0, 0, 1]), np.array([0, 1, -1]), 2).tolist()
    [[1, 1, 0], [0, 0, 1]]
    """
    width = classes + 1
    cells = truth * width + np.where(told < 0, classes, told)
    return np.bincount(cells, minlength=classes * width).reshape(classes, width).astype(np.int64)


def weighted_f1(counts: npt.NDArray[Any]) -> Floats:
    """F1 of each class, weighted by how often the class is true.

    >>> float(weighted_f1(np.array([[2, 0, 0], [0, 2, 0]])))
    1.0
    """
    support = counts.sum(axis=-1)
    told = counts[..., :-1].sum(axis=-2)
    f1 = quotient(2.0 * _hits(counts), support + told, empty=0.0)
    return quotient((f1 * support).sum(axis=-1), support.sum(axis=-1))


def accuracy(counts: npt.NDArray[Any]) -> Floats:
    """The share of right answers."""
    return quotient(_hits(counts).sum(axis=-1), counts.sum(axis=(-2, -1)))


def recalls(counts: npt.NDArray[Any]) -> Floats:
    """For each class, the share of its items that were recognised."""
    return quotient(_hits(counts), counts.sum(axis=-1))


def balanced_accuracy(counts: npt.NDArray[Any]) -> Floats:
    """The mean recall over the classes that occur; one half is chance for two classes, whatever their sizes."""
    found = recalls(counts)
    known = ~np.isnan(found)
    return quotient(np.where(known, found, 0.0).sum(axis=-1), known.sum(axis=-1))


def _hits(counts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.diagonal(counts[..., :-1], axis1=-2, axis2=-1)


def quotient(above: npt.NDArray[Any], below: npt.NDArray[Any], empty: float = np.nan) -> Floats:
    """A quotient, with `empty` where the divisor is 0."""
    whole = np.asarray(below, dtype=np.float64)
    found: Floats = np.divide(above, whole, out=np.full(np.shape(whole), empty), where=whole > 0)
    return found


Flags = npt.NDArray[np.bool_]
BINS = 10


class Bin(msgspec.Struct, frozen=True):
    """The answers of one range of probability: how many, what they promised on average, what came true."""

    low: float
    high: float
    count: int
    promised: float | None
    came_true: float | None


def roc(positive: Flags, score: Floats) -> list[tuple[float, float]]:
    """Corners of the curve as (false positives, true positives), both as shares; none when a class is missing.

    >>> roc(np.array([True, True, False]), np.array([0.9, 0.4, 0.4]))
    [(0.0, 0.0), (0.0, 0.5), (1.0, 1.0)]
    """
    hits, whole = int(positive.sum()), len(positive)
    if hits == 0 or hits == whole:
        return []
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.nonzero(np.diff(score[order]))[0], whole - 1)  # the last item of each run of equal scores
    true = np.cumsum(positive[order])[ends]
    false = ends + 1 - true
    across, up = np.append(0, false), np.append(0, true)
    # a corner is where the direction changes; what lies on a straight line says nothing
    turns = np.diff(across[1:]) * np.diff(up[:-1]) != np.diff(across[:-1]) * np.diff(up[1:])
    kept = np.concatenate(([True], turns, [True]))
    return [(float(x) / (whole - hits), float(y) / hits) for x, y in zip(across[kept], up[kept], strict=True)]


def auc(positive: Flags, score: Floats) -> float:
    """The chance that a positive item scores above a negative one, ties counting half.

    >>> auc(np.array([True, True, False]), np.array([0.9, 0.4, 0.4]))
    0.75
    """
    up, down = score[positive], np.sort(score[~positive])
    if not len(up) or not len(down):
        return float("nan")
    below, upto = np.searchsorted(down, up, side="left"), np.searchsorted(down, up, side="right")
    return float((below + upto).sum() / (2 * len(up) * len(down)))


def reliability(promised: Floats, came_true: Flags) -> list[Bin]:
    """The ten bins of the diagram. A probability on an edge belongs to the bin below it, as in scikit-learn."""
    counts, told, found = binned(promised, came_true).sum(axis=0)
    edges = np.linspace(0.0, 1.0, BINS + 1)
    return [
        Bin(
            low=round(float(edges[number]), 6),
            high=round(float(edges[number + 1]), 6),
            count=round(float(count)),
            promised=float(told[number] / count) if count else None,
            came_true=float(found[number] / count) if count else None,
        )
        for number, count in enumerate(counts)
    ]


def binned(promised: Floats, came_true: Flags) -> Floats:
    """For each item its share in the sums over bins, (items, 3, bins): one, what it promised, whether it came true."""
    rows, places = np.arange(len(promised)), np.searchsorted(np.linspace(0.0, 1.0, BINS + 1)[1:-1], promised)
    member = np.zeros((len(promised), 3, BINS))
    member[rows, 0, places], member[rows, 1, places], member[rows, 2, places] = 1.0, promised, came_true
    return member


def ece(sums: Floats) -> Floats:
    """The mean distance between what was promised and what came true, over bins and by their sizes; sums of `binned`.

    >>> float(ece(binned(np.array([0.9, 0.9]), np.array([True, False])).sum(axis=0)))
    0.4
    """
    return quotient(np.abs(sums[..., 1, :] - sums[..., 2, :]).sum(axis=-1), sums[..., 0, :].sum(axis=-1))


def squared(promised: Floats, certain: Floats) -> Floats:
    """For each item the squared distance between its probabilities and the truth; their mean is the Brier score.

    Both have a column for each class, or are flat for two classes; then the one column stands for both.
    """
    errors: Floats = (promised - certain) ** 2
    return errors.sum(axis=1) if errors.ndim == 2 else errors


ROUNDS = 1000
LEVEL = 0.95
_AT_ONCE = 4_000_000  # pairs that are held in memory at a time


class Resamples:
    """The same draws for everything that is measured on one set of items."""

    def __init__(self, dialogues: Sequence[str], rounds: int = ROUNDS, seed: int = 0) -> None:
        names, places = np.unique(np.asarray(dialogues, dtype=object).astype(str), return_inverse=True)
        self.places: Codes = places.astype(np.int64)  # of each item, the number of its dialogue
        self.dialogues = len(names)
        rng = np.random.default_rng(seed)
        shares = np.full(self.dialogues, 1 / max(1, self.dialogues))
        drawn = rng.multinomial(self.dialogues, shares, size=rounds) if self.dialogues else np.zeros((rounds, 0))
        self.weights: Floats = drawn.astype(np.float64)  # (rounds, dialogues)

    def tables(self, truth: Codes, told: Codes, classes: int, chosen: npt.NDArray[np.bool_] | None = None) -> Floats:
        """The count table of every round, (rounds, classes, classes + 1), over the chosen items."""
        kept = np.ones(len(truth), dtype=bool) if chosen is None else chosen
        width = classes + 1
        cells = truth[kept] * width + np.where(told[kept] < 0, classes, told[kept])
        places = self.places[kept] * (classes * width) + cells
        sums = np.bincount(places, minlength=self.dialogues * classes * width)
        return (self.weights @ sums.reshape(self.dialogues, -1).astype(np.float64)).reshape(-1, classes, width)

    def mean(self, values: Floats) -> Floats:
        """The mean of one value an item, in every round; NaN values are left out."""
        known = ~np.isnan(values)
        sums = np.bincount(self.places[known], weights=values[known], minlength=self.dialogues)
        counts = np.bincount(self.places[known], minlength=self.dialogues)
        return quotient(self.weights @ sums, self.weights @ counts)

    def sums(self, values: Floats, chosen: npt.NDArray[np.bool_]) -> Floats:
        """Sums of the chosen items' values, an array each, in every round."""
        within = np.zeros((self.dialogues, *values.shape[1:]))
        np.add.at(within, self.places[chosen], values)
        return np.tensordot(self.weights, within, axes=1)

    def auc(self, positive: npt.NDArray[np.bool_], score: Floats, chosen: npt.NDArray[np.bool_]) -> Floats:
        """The area under the ROC curve of the chosen items, in every round.

        The area is a share of pairs (a positive and a negative item) that are in order. How many there are between
        any two dialogues is counted once; a round weighs that table by how often it has drawn each of the two.
        """
        places = self.places[chosen]
        up, down = np.nonzero(positive)[0], np.nonzero(~positive)[0]
        if not len(up) or not len(down):
            return np.full(len(self.weights), np.nan)
        down = down[np.argsort(places[down], kind="stable")]
        others, starts, sizes = np.unique(places[down], return_index=True, return_counts=True)
        won = np.zeros((self.dialogues, len(others)))
        step = max(1, _AT_ONCE // len(down))
        for some in (up[start : start + step] for start in range(0, len(up), step)):
            above, low = score[some, None], score[None, down]
            ordered = (above > low) + 0.5 * (above == low)
            np.add.at(won, places[some], np.add.reduceat(ordered, starts, axis=1))
        theirs = self.weights[:, others]
        drawn = self.weights @ np.bincount(places[up], minlength=self.dialogues)
        return quotient(((self.weights @ won) * theirs).sum(axis=1), drawn * (theirs @ sizes))


def interval(draws: Floats, level: float = LEVEL) -> tuple[float, float] | None:
    """The middle 95 % of the rounds in which the figure exists; none when it does in fewer than half of them.

    >>> interval(np.arange(41.0), level=0.5)
    (10.0, 30.0)
    """
    known = draws[~np.isnan(draws)]
    if len(known) == 0 or len(known) < len(draws) / 2:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


_Z = 1.959963984540054  # 95 %


def rate(name: str, values: Iterable[float]) -> Figure:
    """The share that holds, with its 95 % Wilson interval. Of values between 0 and 1 it is the mean; they vary less
    than yes and no with the same mean, so the interval is then too wide rather than too narrow.

    >>> round(rate("x", [True] * 18).low or 0, 3)
    0.824
    """
    known = list(values)
    n = len(known)
    if not n:
        return Figure(name, float("nan"))
    share = sum(known) / n
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return Figure(name, share, max(0.0, middle - half), min(1.0, middle + half), n)


Ratings = Iterable[Sequence[Hashable]] | Mapping[tuple[Any, ...], int]


def percent_agreement(ratings: Ratings) -> float:
    """The share of equal pairs of ratings, averaged over units, from 0 to 1.

    >>> percent_agreement([(1, 1), (1, 2)]), percent_agreement({(1, 1): 3, (1, 2): 1})
    (0.5, 0.75)
    """
    usable = {unit: count for unit, count in _by_unit(ratings).items() if len(unit) > 1}
    total = sum(usable.values())
    return math.fsum(count * _equal_pairs(unit) for unit, count in usable.items()) / total if total else math.nan


def kappa(pairs: Ratings) -> float:
    """Cohen (1960), for two raters: (observed - chance) / (1 - chance), chance from each rater's own distribution.

    >>> kappa([(1, 1), (1, 1), (2, 2), (1, 2)])
    0.5
    """
    counts = _by_unit(pairs)
    n = counts.total()
    if n == 0:
        return math.nan
    left: Counter[Hashable] = Counter()
    right: Counter[Hashable] = Counter()
    for (one, other), count in counts.items():
        left[one] += count
        right[other] += count
    chance = sum(left[value] * right[value] for value in left) / n**2
    return _above_chance(sum(count for (one, other), count in counts.items() if one == other) / n, chance)


def alpha(ratings: Ratings) -> float:
    """Krippendorff's alpha for nominal data: 1 - observed / expected disagreement, over all pairable ratings.

    >>> round(alpha([(0, 1), (1, 1), (0, 1), (0, 0), (0, 0), (0, 1), (0, 0), (0, 0), (1, 0), (0, 0)]), 3)
    0.095
    """
    usable = {unit: count for unit, count in _by_unit(ratings).items() if len(unit) > 1}
    totals: Counter[Hashable] = Counter()
    for unit, count in usable.items():
        for value in unit:
            totals[value] += count
    n = totals.total()
    if n == 0:
        return math.nan
    # a unit with m ratings gives m (m - 1) ordered pairs, each weighing 1 / (m - 1)
    observed = math.fsum(count * len(unit) * (1 - _equal_pairs(unit)) for unit, count in usable.items())
    expected = (n**2 - sum(count**2 for count in totals.values())) / (n - 1)
    return 1 - observed / expected if expected else math.nan


def ac1(ratings: Ratings, categories: int | None = None) -> float:
    """Gwet (2008): chance is the sum of p (1 - p) over the categories, divided by their number less one.

    `categories` is how many answers could be given (default: how many occur). Units with one rating take part in the
    distribution of answers, as in Gwet's treatment of missing ratings.

    >>> round(ac1({(1, 1): 118, (1, 0): 5, (0, 1): 2}), 4)
    0.9408
    """
    rated = Counter({unit: count for unit, count in _by_unit(ratings).items() if unit})
    shares: dict[Hashable, float] = {}
    for unit, count in rated.items():
        for value in unit:
            shares[value] = shares.get(value, 0.0) + count / len(unit) / rated.total()
    q = max(categories or 0, len(shares))
    if q < 2 or not shares:
        return math.nan
    chance = math.fsum(share * (1 - share) for share in shares.values()) / (q - 1)
    return _above_chance(percent_agreement(rated), chance)


def _by_unit(ratings: Ratings) -> Counter[tuple[Any, ...]]:
    return Counter(ratings) if isinstance(ratings, Mapping) else Counter(tuple(unit) for unit in ratings)


def _equal_pairs(unit: Sequence[Hashable]) -> float:
    m = len(unit)
    return sum(count * (count - 1) for count in Counter(unit).values()) / (m * (m - 1))


def _above_chance(observed: float, chance: float) -> float:
    return (observed - chance) / (1 - chance) if chance < 1 else math.nan


RIDGE = 0.01  # worth far less than one vote; keeps a model that won everything finite
_NEWTON_STEPS = 100


def bradley_terry(won: Floats, ridge: float = RIDGE) -> Floats:
    """Bradley-Terry strengths that fit a matrix of wins best, or a stack of matrices; they sum to zero.

    i is preferred to j with probability 1 / (1 + exp(s_j - s_i)). The log-likelihood carries a ridge of `ridge` / 2
    times the squared strengths. This is logistic regression without an intercept, by Newton's method.

    >>> won = np.array([[0.0, 3.0], [1.0, 0.0]])   # three of four: odds 3, so the difference is near log 3 = 1.0986
    >>> [round(float(one), 3) for one in bradley_terry(won, ridge=1e-9)]
    [0.549, -0.549]
    """
    size = won.shape[-1]
    met = won + np.swapaxes(won, -1, -2)
    now = np.zeros(won.shape[:-1])
    for _ in range(_NEWTON_STEPS):
        chance = 1 / (1 + np.exp(now[..., None, :] - now[..., :, None]))  # that the row beats the column
        slope = (won - met * chance).sum(axis=-1) - ridge * now
        bend = met * chance * (1 - chance)
        steep = -bend
        steep[..., np.arange(size), np.arange(size)] += bend.sum(axis=-1) + ridge
        step = np.linalg.solve(steep, slope[..., None])[..., 0]
        step = np.clip(step, -2.0, 2.0)  # far from the answer the full step may overshoot
        now = now + step
        if np.abs(step).max() < 1e-10:
            break
    found: Floats = now - now.mean(axis=-1, keepdims=True)
    return found
