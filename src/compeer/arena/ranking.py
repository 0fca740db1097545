"""A ranking of all models by Bradley-Terry, with intervals from the resamples of `outcome`.

Each model has a strength s; that i is preferred to j has probability 1 / (1 + exp(s_j - s_i)). Ties: "both good" and
"neither acceptable" say that the two are level, so each counts as half a win for either side. (Davidson's model gives
ties a parameter of their own; with half wins the strengths keep the plain reading above, and the shares of the two
kinds of ties are shown beside them.) "Neither" also says that both were poor, which no ranking between them can hold:
it stands in the bars.

A model that won or lost everything would have an infinite strength, and in a small resample that happens. So the
log-likelihood carries a ridge of RIDGE/2 times the squared strengths, worth far less than one vote; it also makes
the strengths sum to zero. This is logistic regression without an intercept, fitted here by Newton's method for all
resamples at once. Strengths are also given as points, 400 for a tenfold in odds around 1000, as in chess.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np
import numpy.typing as npt

from compeer.arena.outcome import OUTCOMES, Counts, Tally, interval
from compeer.evals.interval import Figure

RIDGE = 0.01
POINTS = 400 / math.log(10)
_STEPS = 100
_ENOUGH = 1e-10


class Ranked(msgspec.Struct, frozen=True):
    """One model. `rank` is 1 for the strongest; `best` and `worst` its ranks in 95 % of the resamples."""

    model: str
    rank: int
    best: int
    worst: int
    strength: Figure
    points: Figure
    votes: int


def wins(counted: Tally, sums: Counts) -> Counts:
    """Wins of each model over each other, ties as halves: … × models × models from … × pairs × outcomes."""
    size = len(counted.models)
    found = np.zeros((*sums.shape[:-2], size, size))
    ties = sums[..., OUTCOMES.index("both")] + sums[..., OUTCOMES.index("neither")]
    for number, (one, two) in enumerate(counted.pairs):
        found[..., one, two] = sums[..., number, OUTCOMES.index("one")] + ties[..., number] / 2
        found[..., two, one] = sums[..., number, OUTCOMES.index("two")] + ties[..., number] / 2
    return found


def strengths(won: Counts, ridge: float = RIDGE) -> Counts:
    """Strengths that fit a matrix of wins best, or a stack of matrices; they sum to zero.

    >>> import numpy as np
    >>> won = np.array([[0.0, 3.0], [1.0, 0.0]])   # three of four: odds 3, so the difference is near log 3 = 1.0986
    >>> [round(float(one), 3) for one in strengths(won, ridge=1e-9)]
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
    found: Counts = now - now.mean(axis=-1, keepdims=True)
    return found


def ranking(counted: Tally, drawn: Counts) -> list[Ranked]:
    """All models that were compared, the strongest first."""
    sums = counted.array().sum(axis=0)
    won = wins(counted, sums)
    votes = (won + won.T).sum(axis=1)
    here = np.flatnonzero(votes)
    if not len(here):
        return []
    fitted = strengths(won[np.ix_(here, here)])
    each = strengths(wins(counted, drawn)[:, here][:, :, here])
    ranks = _ranks(each)
    order = np.argsort(-fitted, kind="stable")
    found = []
    for rank, place in enumerate(order, start=1):
        strength = interval("strength", fitted[place], each[:, place], int(votes[here[place]]), len(counted.cases))
        best = worst = rank
        if strength.low is not None:
            best, worst = map(int, np.percentile(ranks[:, place], [2.5, 97.5], method="nearest"))
        name = counted.models[here[place]]
        found.append(Ranked(name, rank, best, worst, strength, points(strength), strength.n))
    return found


def points(strength: Figure) -> Figure:
    """A strength on the scale of chess."""
    low, high = strength.low, strength.high
    scaled = [None if value is None else 1000 + POINTS * value for value in (low, high)]
    return Figure("points", 1000 + POINTS * strength.value, scaled[0], scaled[1], strength.n)


def _ranks(each: Counts) -> npt.NDArray[np.int64]:
    """1 for the strongest in each row."""
    order = np.argsort(-each, axis=1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(1, each.shape[1] + 1)[None, :].repeat(len(each), axis=0), axis=1)
    return found
