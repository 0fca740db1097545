"""Measures of classification: count tables and F1, ROC and its area, calibration, McNemar's test.

A count table (`Resamples.tables`) has a row for each true class, a column for each predicted class, and one more
column: no answer. A verdict that is missing is wrong like any other wrong verdict: it lowers the recall of its true
class and adds to the precision of none. scikit-learn gives the same figures when the missing
answer is a class of its own.

Everything works on the last axes, so that a thousand resampled tables (`Resamples`) are measured in one call. A figure
that does not exist (the recall of a class that never occurs) is NaN, never 0.

A step is judged for being wrong: the ROC curve shows the share of wrong steps that are found (up) against the share
of right steps that are blamed (across). Calibration asks whether "70 %" comes true in 70 of 100 cases: ten bins of
equal width, the expected calibration error (ECE) over them, and the Brier score.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from compeer.statistics import Flags, Floats, quotient

BINS = 10


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


class Bin(msgspec.Struct, frozen=True):
    """One bin of probabilities: the count, their mean, and the share that came true."""

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


def mcnemar(only_first: int, only_second: int) -> float:
    """McNemar's exact two-sided test, from the samples that only one of two models got right.

    The probability of a split at least as uneven if both models were equally good. It takes samples for independent;
    where many come from one dialogue, the interval of the paired difference is the safer of the two.

    >>> mcnemar(5, 0), mcnemar(3, 3)
    (0.0625, 1.0)
    """
    whole, fewer = only_first + only_second, min(only_first, only_second)
    return min(1.0, 2 * sum(math.comb(whole, count) for count in range(fewer + 1)) / (1 << whole))
