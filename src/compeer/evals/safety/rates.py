"""Shares with the Wilson interval, which stays honest where a bootstrap does not: 18 of 18 is not certainty."""

from __future__ import annotations

import math
from collections.abc import Iterable

from compeer.evals.interval import Figure

_Z = 1.959963984540054  # 95 %


def rate(name: str, values: Iterable[float]) -> Figure:
    """The share that holds, with its 95 % Wilson interval. Of values between 0 and 1 it is the mean; they vary less
    than yes and no with the same mean, so the interval is then too wide rather than too narrow.

    >>> round(rate("x", [True] * 18).low or 0, 3)
    0.824
    """
    known = list(values)
    n = len(known)
    if not n:
        return Figure(name, float("nan"))
    share = sum(known) / n
    middle = (share + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
    half = _Z / (1 + _Z**2 / n) * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return Figure(name, share, max(0.0, middle - half), min(1.0, middle + half), n)
