"""Two judges on the same samples: the difference of two shares with its interval, and McNemar's test.

The interval resamples dialogues. McNemar's exact test looks at the samples on which the two differ: were they equally
good, each such sample would fall to either side by the toss of a coin. It takes samples for independent; where many
come from one dialogue, the interval is the safer of the two.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from compeer.reward.evaluation.bootstrap import Resamples
from compeer.reward.evaluation.measure import Figure, figure_of


class Paired(msgspec.Struct, frozen=True):
    """The first judge against the second, over the samples that both have answered."""

    first: Figure
    second: Figure
    difference: Figure
    samples: int
    only_first: int  # samples for which it holds with the first judge alone
    only_second: int
    p: float  # McNemar, exact and two-sided


def paired(first: Sequence[bool], second: Sequence[bool], resamples: Resamples) -> Paired:
    """Compare two columns of yes and no."""
    one, two = np.array(first, dtype=np.float64), np.array(second, dtype=np.float64)
    only_first, only_second = int(((one == 1) & (two == 0)).sum()), int(((one == 0) & (two == 1)).sum())
    if not len(one):
        return Paired(Figure(), Figure(), Figure(), 0, 0, 0, 1.0)
    return Paired(
        first=figure_of(float(one.mean()), resamples.mean(one)),
        second=figure_of(float(two.mean()), resamples.mean(two)),
        difference=figure_of(float((one - two).mean()), resamples.mean(one - two)),
        samples=len(one),
        only_first=only_first,
        only_second=only_second,
        p=mcnemar(only_first, only_second),
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact two-sided probability of a split at least as uneven, if both sides were equally likely.

    >>> mcnemar(5, 0), mcnemar(3, 3)
    (0.0625, 1.0)
    """
    whole, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(math.exp(_log_choose(whole, count) - whole * math.log(2)) for count in range(fewer + 1))
    return min(1.0, round(2 * tail, 12))


def _log_choose(whole: int, part: int) -> float:
    return math.lgamma(whole + 1) - math.lgamma(part + 1) - math.lgamma(whole - part + 1)
