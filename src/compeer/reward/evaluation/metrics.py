"""The figures of Table 1 from a table of counts.

A count table has a row for each true class and a column for each class that was said, and one column more: no
answer. So a verdict that did not come is wrong like any other wrong verdict: it takes from the recall of its true
class and adds to the precision of none. scikit-learn gives the same figures when the missing answer is a class of
its own.

Everything works on the last two axes, so a thousand resampled tables (`bootstrap`) are measured in one call. A
figure that does not exist (the recall of a class that never occurs) is NaN, never 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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
