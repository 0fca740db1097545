"""What probabilities are worth: ROC curve and its area, calibration.

A step is judged for being wrong: the curve shows which share of the wrong steps is found (up) at the price of which
share of right steps blamed (right). Calibration asks whether "70 %" comes true in 70 of 100 cases: ten bins of equal
width, the expected calibration error (ECE) over them, and the Brier score.

Every measure is made of sums over items, or over pairs of items, so that `bootstrap` can sum within each dialogue once
and reweigh the dialogues a thousand times.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from compeer.reward.evaluation.metrics import Floats, quotient

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
