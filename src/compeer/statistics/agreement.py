"""Agreement between raters: percent, Cohen's kappa, Krippendorff's alpha (nominal), Gwet's AC1.

All four start from the share of equal votes. The last three correct it for chance, each with its own idea of chance:

- kappa: each rater draws from their own distribution of answers. When about 77 % of the answers are True, chance is
  high and kappa is low although people agree, so kappa should never be reported alone.
- alpha: everybody draws from the one distribution of all answers, corrected for few units. It allows any number of
  raters and missing votes.
- AC1: only hard cases are guessed, and there are fewer of them the more lopsided the answers are.

A coefficient that does not exist is NaN: there is nothing to compare, or everybody always gave the same answer, so
that kappa and alpha would divide zero by zero.

Ratings are given per unit: for each item the answers it got. Where many items got the same answers, pass a mapping
from the answers to the number of items.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

Units = Iterable[Sequence[Hashable]] | Mapping[tuple[Any, ...], int]


def percent_agreement(units: Units) -> float:
    """The share of equal pairs of ratings, averaged over units, from 0 to 1.

    >>> percent_agreement([(1, 1), (1, 2)]), percent_agreement({(1, 1): 3, (1, 2): 1})
    (0.5, 0.75)
    """
    usable = {unit: count for unit, count in _counted(units).items() if len(unit) > 1}
    total = sum(usable.values())
    return math.fsum(count * _equal_pairs(unit) for unit, count in usable.items()) / total if total else math.nan


def kappa(pairs: Units) -> float:
    """Cohen (1960), for two raters: (observed - chance) / (1 - chance), chance from each rater's own distribution.

    >>> kappa([(1, 1), (1, 1), (2, 2), (1, 2)])
    0.5
    """
    given = _counted(pairs)
    n = given.total()
    if n == 0:
        return math.nan
    left: Counter[Hashable] = Counter()
    right: Counter[Hashable] = Counter()
    for (one, other), count in given.items():
        left[one] += count
        right[other] += count
    chance = sum(left[value] * right[value] for value in left) / n**2
    return _corrected(sum(count for (one, other), count in given.items() if one == other) / n, chance)


def alpha(units: Units) -> float:
    """Krippendorff's alpha for nominal data: 1 - observed / expected disagreement, over all pairable ratings.

    >>> round(alpha([(0, 1), (1, 1), (0, 1), (0, 0), (0, 0), (0, 1), (0, 0), (0, 0), (1, 0), (0, 0)]), 3)
    0.095
    """
    usable = {unit: count for unit, count in _counted(units).items() if len(unit) > 1}
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


def ac1(units: Units, categories: int | None = None) -> float:
    """Gwet (2008): chance is the sum of p (1 - p) over the categories, divided by their number minus one.

    `categories` is how many answers were possible (default: how many occur). Units with one rating count for the
    distribution of answers, as in Gwet's treatment of missing ratings.

    >>> round(ac1({(1, 1): 118, (1, 0): 5, (0, 1): 2}), 4)
    0.9408
    """
    rated = Counter({unit: count for unit, count in _counted(units).items() if unit})
    shares: dict[Hashable, float] = {}
    for unit, count in rated.items():
        for value in unit:
            shares[value] = shares.get(value, 0.0) + count / len(unit) / rated.total()
    q = max(categories or 0, len(shares))
    if q < 2 or not shares:
        return math.nan
    chance = math.fsum(share * (1 - share) for share in shares.values()) / (q - 1)
    return _corrected(percent_agreement(rated), chance)


def _counted(units: Units) -> Counter[tuple[Any, ...]]:
    return Counter(units) if isinstance(units, Mapping) else Counter(tuple(unit) for unit in units)


def _equal_pairs(unit: Sequence[Hashable]) -> float:
    m = len(unit)
    return sum(count * (count - 1) for count in Counter(unit).values()) / (m * (m - 1))


def _corrected(observed: float, chance: float) -> float:
    return (observed - chance) / (1 - chance) if chance < 1 else math.nan
