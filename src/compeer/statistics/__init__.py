"""Statistics: one figure type, one bootstrap, and every measure that more than one part of COMPEER reports.

    classification  count tables, F1, recall, ROC and its area, calibration, McNemar's test
    agreement       percent agreement, Cohen's kappa, Krippendorff's alpha, Gwet's AC1
    ranking         Bradley-Terry strengths

Here are numbers with 95 % intervals: percentile bootstrap over groups, Wilson's interval for shares, paired
differences. NumPy only, so that it can be used without the optional dependencies. Tests compare every measure with
scikit-learn, SciPy or a published worked example.

Items of one dialogue are alike: the same person, the same trouble, often the same mistake of the judge. To resample
items would treat them as independent and give intervals that are too narrow. So whole groups (dialogues, cases) are
drawn with replacement, as many as there are.

A draw is a row of weights: how often each group was taken. Sums within each group are computed once, and a matrix
product gives the sums of all rounds. Models measured with the same `Resamples` are compared round by round.

A bootstrap of a constant finds nothing but the constant and would report certainty ("1.000 to 1.000" from 6 of 6).
Shares therefore take Wilson's interval; for any other constant there is no interval.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

ROUNDS = 1000
LEVEL = 0.95
_Z = 1.959963984540054  # of the normal distribution, for LEVEL
_PAIRS_AT_ONCE = 4_000_000  # pairs of items held in memory at a time
_SAME = 1e-12  # sums of equal numbers differ by rounding

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]  # classes by number; -1: no answer


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One number of a result, its 95 % interval, and how many samples it is based on.

    `value` is None where the number does not exist (the mean of nothing, the recall of a class that never occurs);
    `low` and `high` are None where an interval has no meaning (a count, a single group).
    """

    name: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0

    def scaled(self, factor: float, offset: float = 0.0, name: str | None = None) -> Figure:
        """The figure times `factor` plus `offset`. A negative factor swaps the bounds.

        >>> Figure("gain", 0.2, 0.1, 0.4, 9).scaled(-1)
        Figure(name='gain', value=-0.2, low=-0.4, high=-0.1, n=9)
        """
        value, low, high = (None if one is None else offset + factor * one for one in (self.value, self.low, self.high))
        low, high = (low, high) if factor >= 0 else (high, low)
        return Figure(self.name if name is None else name, value, low, high, self.n)

    def differs_from(self, reference: float = 0.0) -> bool:
        """Whether the interval excludes `reference`; False where there is no interval."""
        return self.low is not None and self.high is not None and not self.low <= reference <= self.high

    def text(self, digits: int = 3, *, scale: float = 1.0, sign: bool = False) -> str:
        """The value with its interval in brackets.

        >>> Figure("x", 0.753, 0.7, 0.8).text(1, scale=100), Figure("x", 0.02).text(2, sign=True), Figure("x").text()
        ('75.3 [70.0, 80.0]', '+0.02', '-')
        >>> Figure("x", 0.08, -0.001, 0.13).text(2)
        '0.08 [0.00, 0.13]'
        """
        if self.value is None:
            return "-"
        form = f"{'+' if sign else ''}z.{digits}f"  # z: no minus before a zero
        if self.low is None or self.high is None:
            return format(scale * self.value, form)
        return "{} [{}, {}]".format(*(format(scale * one, form) for one in (self.value, self.low, self.high)))


class Resamples:
    """Bootstrap draws, the same ones for everything that is measured on one set of items.

    `groups` gives the group of each item, by name. Results have one row per round.
    """

    def __init__(self, groups: Sequence[str], rounds: int = ROUNDS, seed: int = 0) -> None:
        names, places = np.unique(np.asarray(groups, dtype=object).astype(str), return_inverse=True)
        self.places: Codes = places.astype(np.int64)  # for each item, the number of its group
        self.groups = len(names)
        rng = np.random.default_rng(seed)
        shares = np.full(self.groups, 1 / max(1, self.groups))
        drawn = rng.multinomial(self.groups, shares, size=rounds) if self.groups else np.zeros((rounds, 0))
        self.weights: Floats = drawn.astype(np.float64)  # (rounds, groups)

    def with_observed(self) -> Resamples:
        """The same draws after a first row with each group once, which is what was observed.

        A measure of all rows then gives the figure and its draws in one call.
        """
        found = copy.copy(self)
        found.weights = np.vstack([np.ones((1, self.groups)), self.weights])
        return found

    def tables(self, truth: Codes, told: Codes, classes: int, chosen: Flags | None = None) -> Floats:
        """Counts of the chosen items by true and predicted class, the last one for no answer: (rounds, true, said).

        >>> observed = Resamples(["a", "b", "b"]).with_observed()
        >>> observed.tables(np.array([0, 0, 1]), np.array([0, 1, -1]), 2)[0].tolist()
        [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        """
        kept = np.ones(len(truth), dtype=bool) if chosen is None else chosen
        width = classes + 1
        cells = truth[kept] * width + np.where(told[kept] < 0, classes, told[kept])
        places = self.places[kept] * (classes * width) + cells
        sums = np.bincount(places, minlength=self.groups * classes * width).astype(np.float64)
        return (self.weights @ sums.reshape(self.groups, classes * width)).reshape(-1, classes, width)

    def mean(self, values: Floats) -> Floats:
        """The mean of one value per item. NaN values are left out."""
        known = ~np.isnan(values)
        sums = np.bincount(self.places[known], weights=values[known], minlength=self.groups)
        counts = np.bincount(self.places[known], minlength=self.groups)
        return quotient(self.weights @ sums, self.weights @ counts)

    def figure(self, name: str, values: Sequence[float] | Floats, *, share: bool = False) -> Figure:
        """The mean of one value per item with its interval. NaN values are left out; a `share` is of yes and no."""
        data = np.asarray(values, dtype=np.float64)
        known = data[~np.isnan(data)]
        if not len(known):
            return Figure(name)
        share_of = self.groups if share else None
        return estimate(name, float(known.mean()), self.mean(data), len(known), share_of=share_of)

    def sums(self, values: Floats, chosen: Flags) -> Floats:
        """Sums of the chosen items' values, which may be arrays."""
        within = np.zeros((self.groups, *values.shape[1:]))
        np.add.at(within, self.places[chosen], values)
        return np.tensordot(self.weights, within, axes=1)

    def auc(self, positive: Flags, score: Floats, chosen: Flags) -> Floats:
        """The area under the ROC curve of the chosen items.

        The area is the share of pairs (a positive and a negative item) that are in order. How many there are between
        any two groups is counted once; a round weighs that table by how often it has drawn each of the two.
        """
        places = self.places[chosen]
        up, down = np.nonzero(positive)[0], np.nonzero(~positive)[0]
        if not len(up) or not len(down):
            return np.full(len(self.weights), np.nan)
        down = down[np.argsort(places[down], kind="stable")]
        others, starts, sizes = np.unique(places[down], return_index=True, return_counts=True)
        won = np.zeros((self.groups, len(others)))
        step = max(1, _PAIRS_AT_ONCE // len(down))
        for some in (up[start : start + step] for start in range(0, len(up), step)):
            above, low = score[some, None], score[None, down]
            ordered = (above > low) + 0.5 * (above == low)
            np.add.at(won, places[some], np.add.reduceat(ordered, starts, axis=1))
        theirs = self.weights[:, others]
        drawn = self.weights @ np.bincount(places[up], minlength=self.groups)
        return quotient(((self.weights @ won) * theirs).sum(axis=1), drawn * (theirs @ sizes))


def interval(draws: Floats, level: float = LEVEL) -> tuple[float, float] | None:
    """The middle 95 % of the rounds in which the number exists; None when it exists in fewer than half of them.

    >>> interval(np.arange(41.0), level=0.5)
    (10.0, 30.0)
    """
    known = draws[~np.isnan(draws)]
    if len(known) == 0 or len(known) < len(draws) / 2:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def estimate(name: str, value: float, draws: Floats, n: int = 0, *, share_of: int | None = None) -> Figure:
    """A number with the percentile interval of its bootstrap draws.

    Where all draws are equal there is no interval, except for a share: pass how many independent samples (groups)
    it is a `share_of`, and the interval is Wilson's.

    >>> estimate("accuracy", 1.0, np.ones(50), 6, share_of=6).text()
    '1.000 [0.610, 1.000]'
    """
    if math.isnan(value):
        return Figure(name, n=n)
    known = draws[~np.isnan(draws)]
    bounds = interval(draws)
    if len(known) and float(np.ptp(known)) <= _SAME * max(1.0, abs(float(known[0]))):
        bounds = wilson(value, share_of) if share_of else None
    low, high = bounds or (None, None)
    return Figure(name, float(value), low, high, n)


def mean_figure(
    name: str, values: Sequence[float], groups: Sequence[str] | None = None, *, seed: int = 0, scale: float = 1.0
) -> Figure:
    """The mean of `values` times `scale`. The interval resamples the groups; without groups, the single values.

    >>> mean_figure("x", [1.0, 1.0, 1.0])
    Figure(name='x', value=1.0, low=None, high=None, n=3)
    """
    data = np.asarray(values, dtype=float) * scale
    if not len(data):
        return Figure(name)
    if groups is not None:
        return Resamples(groups, seed=seed).figure(name, data)
    draws = _means(data, seed) if len(data) > 1 else np.zeros(0)
    return estimate(name, float(data.mean()), draws, len(data))


def _means(data: Floats, seed: int) -> Floats:
    """Means of resampled single values, some rounds at a time, so that memory is bounded for large samples."""
    rng, size = np.random.default_rng(seed), max(1, _PAIRS_AT_ONCE // len(data))
    parts = [min(size, ROUNDS - start) for start in range(0, ROUNDS, size)]
    return np.concatenate([data[rng.integers(0, len(data), (part, len(data)))].mean(axis=1) for part in parts])


def difference_figure(
    name: str, first: Sequence[float], second: Sequence[float], groups: Sequence[str] | None = None
) -> Figure:
    """The mean paired difference, first minus second, of the same cases in the same order.

    >>> difference_figure("gain", [3, 4, 5], [1, 2, 2]).text(2)
    '2.33 [2.00, 3.00]'
    """
    gaps = [one - two for one, two in zip(first, second, strict=True)]
    return mean_figure(name, gaps, groups)


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of `n` independent samples; of nothing, anything is possible.

    >>> [round(bound, 3) for bound in wilson(1.0, 18)], wilson(0.0, 0)
    ([0.824, 1.0], (0.0, 1.0))
    """
    if not n:
        return 0.0, 1.0
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if share == 0 else low), (1.0 if share == 1 else high)


def share_figure(name: str, values: Iterable[float | None], groups: Sequence[str] | None = None) -> Figure:
    """The share that holds, with Wilson's interval; None values are left out.

    Values between 0 and 1 are allowed. They vary less than yes and no with the same mean, so the interval is then too
    wide rather than too narrow. With groups, the sample size in Wilson's formula is the effective one: the size of an
    independent sample with the same variance as the groups show, at most the number of values. Where all hold, or
    none does, there is no variance to see and the number of groups counts. One group has no interval.

    >>> share_figure("x", [True] * 18).text(), share_figure("x", [True] * 18, "aaabbbcccdddeeefff").text()
    ('1.000 [0.824, 1.000]', '1.000 [0.610, 1.000]')
    """
    given = list(values)
    kept = [place for place, value in enumerate(given) if value is not None]
    data = np.array([given[place] for place in kept], dtype=np.float64)
    n = len(data)
    if not n:
        return Figure(name)
    share = min(1.0, max(0.0, float(data.mean())))
    if groups is None:
        return Figure(name, share, *wilson(share, n), n)
    _, places = np.unique([groups[place] for place in kept], return_inverse=True)
    sizes = np.bincount(places)
    count = len(sizes)
    if count == n:
        return share_figure(name, data.tolist())
    if count < 2:
        return Figure(name, share, n=n)
    gaps = np.bincount(places, weights=data) - share * sizes
    variance = count / (count - 1) * float((gaps**2).sum()) / n**2  # of a ratio of sums over groups
    spread = share * (1 - share)
    if spread <= _SAME:
        return Figure(name, share, *wilson(share, count), n)
    return Figure(name, share, *wilson(share, min(n, spread / variance) if variance > _SAME else n), n)


def quotient(above: npt.NDArray[Any], below: npt.NDArray[Any], empty: float = np.nan) -> Floats:
    """A quotient, with `empty` where the divisor is 0."""
    whole = np.asarray(below, dtype=np.float64)
    found: Floats = np.divide(above, whole, out=np.full(np.shape(whole), empty), where=whole > 0)
    return found
