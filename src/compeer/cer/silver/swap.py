"""Wrong by exchange: the members of a group trade conclusions, so nothing wrong is said that is not also said rightly.

Drawing wrong labels from any distribution of our own would give them away: too many rare emotions, too few common
ones. A permutation cannot: what stands in the wrong places is exactly what was taken out of them. Who takes whose
is a linear assignment: no forbidden pair where one can be avoided, and among the allowed the least likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_FORBIDDEN = 1e6


def exchange(members: Sequence[int], cost: Matrix, allowed: Mask, seed: int) -> tuple[dict[int, int], list[int]]:
    """Who gets whose, and those for whom nothing allowed was left.

    `cost[a, b]` and `allowed[a, b]` are for the a-th member receiving from the b-th.

    >>> exchange([7, 8, 9], np.zeros((3, 3)), ~np.eye(3, dtype=bool), 0)[1]
    []
    """
    if len(members) < 2:
        return {}, list(members)
    from scipy.optimize import linear_sum_assignment

    jitter = np.random.default_rng(seed).random(cost.shape) * 1e-3  # ties are broken by chance, not by order
    rows, columns = linear_sum_assignment(cost + jitter + np.where(allowed, 0.0, _FORBIDDEN))
    taken = {members[a]: members[b] for a, b in zip(rows, columns, strict=True) if allowed[a, b]}
    return taken, [m for m in members if m not in taken]


def portions(members: Sequence[int], shares: dict[str, float], rng: Random) -> dict[str, list[int]]:
    """The members by chance into named portions; every share exact to one.

    >>> {name: len(part) for name, part in portions(range(10), {"a": 0.5, "b": 0.5}, Random(0)).items()}
    {'a': 5, 'b': 5}
    """
    order = list(members)
    rng.shuffle(order)
    cut: dict[str, list[int]] = {}
    start, reached = 0, 0.0
    for name, share in shares.items():
        reached += share / sum(shares.values())
        end = round(reached * len(order))
        cut[name] = sorted(order[start:end])
        start = end
    return cut
