"""Bradley-Terry strengths from a matrix of wins, for all bootstrap rounds at once.

Each model has a strength s; model i is preferred to model j with probability 1 / (1 + exp(s_j - s_i)). A tie counts as
half a win for either side. (Davidson's model gives ties a parameter of their own; with half wins the strengths keep
the plain reading above.)

A model that won or lost every comparison would have an infinite strength, which happens in small resamples. So the
log-likelihood carries a ridge of RIDGE/2 times the squared strengths, worth far less than one vote; it also makes the
strengths sum to zero. This is logistic regression without an intercept, fitted by Newton's method.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from compeer.statistics import LEVEL, Figure, Floats

RIDGE = 0.01
POINTS = 400 / math.log(10)  # 400 points for tenfold odds, as in chess
_STEPS = 100
_ENOUGH = 1e-10


def bradley_terry(won: Floats, ridge: float = RIDGE) -> Floats:
    """Strengths that fit a matrix of wins best (row over column), or a stack of matrices; they sum to zero.

    >>> won = np.array([[0.0, 3.0], [1.0, 0.0]])   # three of four: odds 3, so the difference is near log 3 = 1.0986
    >>> [round(float(one), 3) for one in bradley_terry(won, ridge=1e-9)]
    [0.549, -0.549]
    """
    size = won.shape[-1]
    met = won + np.swapaxes(won, -1, -2)
    now = np.zeros(won.shape[:-1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(now[..., None, :] - now[..., :, None]))  # that the row beats the column
        slope = (won - met * chance).sum(axis=-1) - ridge * now
        bend = met * chance * (1 - chance)
        steep = -bend
        steep[..., np.arange(size), np.arange(size)] += bend.sum(axis=-1) + ridge
        step = np.linalg.solve(steep, slope[..., None])[..., 0]
        step = np.clip(step, -2.0, 2.0)  # far from the answer the full step may overshoot
        now = now + step
        if np.abs(step).max() < _ENOUGH:
            break
    found: Floats = now - now.mean(axis=-1, keepdims=True)
    return found


def chess_points(strength: Figure) -> Figure:
    """A strength on the scale of chess: 1000 for the mean, 400 points for tenfold odds."""
    return strength.scaled(POINTS, 1000.0, "points")


def rank_range(draws: Floats) -> npt.NDArray[np.int64]:
    """The best and the worst rank of each model in 95 % of the rounds; `draws` are strengths, (rounds, models).

    >>> rank_range(np.array([[2.0, 1.0, 0.0]] * 50 + [[1.0, 2.0, 0.0]] * 50)).tolist()
    [[1, 2], [1, 2], [3, 3]]
    """
    order = np.argsort(-draws, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1, kind="stable") + 1
    bounds = np.percentile(ranks, [100 * (1 - LEVEL) / 2, 100 * (1 + LEVEL) / 2], axis=0, method="nearest")
    return bounds.T.astype(np.int64)
