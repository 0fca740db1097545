"""Equations 2 and 3: the advantage of an output within its group, and the clipped objective it enters.

TRL's trainer computes both on tensors; these are the same formulas in plain arithmetic, for everything outside of it
(other trainers, metrics, tests that hold TRL to the paper).

Equation 3 divides by the standard deviation, which is 0 when all rewards of a group are equal. As in TRL a small
number is added, so that such a group teaches nothing instead of failing. TRL's deviation is the sample's (n - 1).

Equation 2 is printed with one probability for a whole output. The GRPO paper it cites takes the ratio of each token and
averages over the output; that is TRL's default and ours (`level="token"`). `level="output"` is the ratio as printed,
that of the whole output: a product over its tokens, which leaves every clipping range after a few of them as soon as
outputs are used more than once. `level="normalised"` is GSPO's, exp(mean log-ratio), which TRL calls "sequence".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from compeer.errors import UserError

EPSILON = 1e-4  # TRL's
Level = Literal["token", "normalised", "output"]


def advantages(rewards: Sequence[float], group: int, epsilon: float = EPSILON) -> list[float]:
    """Equation 3 for rewards that lie group after group.

    >>> [round(value, 3) for value in advantages([1.0, 3.0, 5.0, 5.0], 2)]
    [-0.707, 0.707, 0.0, 0.0]
    """
    if group < 1 or len(rewards) % group:
        raise UserError(f"{len(rewards)} rewards do not make groups of {group}; every prompt needs {group} outputs.")
    table = np.asarray(rewards, dtype=np.float64).reshape(-1, group)
    deviation = table.std(axis=1, ddof=1, keepdims=True) if group > 1 else np.zeros((len(table), 1))
    found: list[float] = ((table - table.mean(axis=1, keepdims=True)) / (deviation + epsilon)).ravel().tolist()
    return found


def objective(
    new: Sequence[Sequence[float]],
    old: Sequence[Sequence[float]],
    advantage: Sequence[float],
    clip: float = 0.2,
    level: Level = "token",
) -> float:
    """Equation 2 for one group, to be maximised: log-probabilities of every token under the new and the old policy.

    >>> objective([[-1.0, -1.0]], [[-1.0, -1.0]], [2.0])
    2.0
    """
    outputs = []
    for now, before, weight in zip(new, old, advantage, strict=True):
        change: npt.NDArray[np.float64] = np.asarray(now, dtype=np.float64) - np.asarray(before, dtype=np.float64)
        whole = change.mean() if level == "normalised" else change.sum()
        ratios = np.exp(change) if level == "token" else np.array([math.exp(whole)])
        outputs.append(np.minimum(ratios * weight, np.clip(ratios, 1 - clip, 1 + clip) * weight).mean())
    return float(np.mean(outputs))


def zero_variance(rewards: Sequence[float], group: int) -> float:
    """The share of groups whose outputs all earn the same, which teach nothing."""
    table = np.asarray(rewards, dtype=np.float64).reshape(-1, group)
    return float((np.ptp(table, axis=1) < 1e-12).mean()) if len(table) else 0.0
