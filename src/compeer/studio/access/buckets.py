"""Rate limits: a bucket of tokens for each person or address, filled again at a steady rate, in memory.

A bucket that is full again is forgotten, so memory is bounded by who asked lately.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from compeer.studio.access.refused import Refused
from compeer.studio.settings import Rate

_MOST = 10_000


class Buckets:
    """One limit for many names.

    >>> now = [0.0]
    >>> buckets = Buckets(Rate(2, 1.0), clock=lambda: now[0])
    >>> [buckets.take("wei") for _ in range(3)], buckets.take("ana")
    ([0.0, 0.0, 1.0], 0.0)
    >>> now[0] = 1.0
    >>> buckets.take("wei")
    0.0
    """

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self._clock = rate, clock
        self._left: dict[str, tuple[float, float]] = {}  # what is left, and when that was so

    def take(self, name: str) -> float:
        """Take one: 0 when it was there, else the seconds until one is."""
        now = self._clock()
        if len(self._left) >= _MOST:
            self._forget(now)
        left, since = self._left.get(name, (float(self.rate.burst), now))
        left = min(float(self.rate.burst), left + (now - since) * self.rate.per_second)
        if left < 1.0:
            self._left[name] = (left, now)
            return (1.0 - left) / self.rate.per_second
        self._left[name] = (left - 1.0, now)
        return 0.0

    def spend(self, name: str, reason: str) -> None:
        """Take one, or refuse the request and say how long to wait."""
        if seconds := self.take(name):
            raise Refused(429, "busy", reason, wait=seconds)

    def wait(self, name: str) -> float:
        """The seconds until one is there, 0 when one is; nothing is taken.

        >>> buckets = Buckets(Rate(1, 0.5), clock=lambda: 0.0)
        >>> buckets.wait("wei"), buckets.take("wei"), buckets.wait("wei")
        (0.0, 0.0, 2.0)
        """
        left, since = self._left.get(name, (float(self.rate.burst), self._clock()))
        left += (self._clock() - since) * self.rate.per_second
        return max(0.0, (1.0 - left) / self.rate.per_second)

    def _forget(self, now: float) -> None:
        full = self.rate.burst / self.rate.per_second
        self._left = {name: kept for name, kept in self._left.items() if now - kept[1] < full}
        for name in list(self._left)[: max(0, len(self._left) - _MOST + 1)]:  # all of them lately: the oldest go
            del self._left[name]
