"""How far a mean can be trusted: the percentile bootstrap, seeded, so that the same scores give the same interval."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

DRAWS = 2000


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One number of a result with its 95 % interval and how many samples stand behind it.

    `low` and `high` are None where an interval has no meaning (a count, a single sample).
    """

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0


def mean_figure(name: str, values: Sequence[float], seed: int = 0, scale: float = 1.0) -> Figure:
    """The mean of `values` times `scale`; the interval resamples the values, which must be independent samples.

    >>> mean_figure("x", [1.0, 1.0, 1.0])
    Figure(name='x', value=1.0, low=1.0, high=1.0, n=3)
    """
    if not values:
        return Figure(name, float("nan"))
    data = np.asarray(values, dtype=float) * scale
    value = float(data.mean())
    if len(data) < 2:
        return Figure(name, value, n=len(data))
    rng = np.random.default_rng(seed)
    size = max(1, 4_000_000 // len(data))  # rows at once: memory stays bounded for large samples
    means: list[float] = []
    while len(means) < DRAWS:
        draws = rng.integers(0, len(data), (min(size, DRAWS - len(means)), len(data)))
        means.extend(data[draws].mean(axis=1).tolist())
    low, high = np.percentile(means, [2.5, 97.5])
    return Figure(name, value, float(low), float(high), len(data))
