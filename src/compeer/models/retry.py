"""Patience with a server: which failures are worth another try, how long to wait, when to give up."""

from __future__ import annotations

import random
import time

import msgspec


class Patience(msgspec.Struct, frozen=True):
    """Try again up to `attempts` times, waiting `first * 2**n` seconds (at most `longest`), with jitter.

    `patience` bounds the whole time spent on one request, so that a server that says 429 for ever ends in an
    error instead of a hang. A request is also abandoned when one attempt takes longer than `timeout`.
    """

    attempts: int = 8
    first: float = 0.5
    longest: float = 30.0
    patience: float = 300.0
    timeout: float = 120.0

    def wait(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait before attempt number `attempt` (the first retry is 1)."""
        backoff: float = min(self.longest, self.first * 2.0 ** (attempt - 1))
        backoff *= random.uniform(0.5, 1.0)  # many clients must not come back in step
        return max(backoff, min(retry_after or 0.0, self.longest))


class Tries:
    """The attempts at one request. Waiting for a free place before the first one costs no patience."""

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self.made = 0
        self._started: float | None = None

    def begin(self) -> float:
        """Begin an attempt; the seconds it may take."""
        now = time.monotonic()
        self._started = now if self._started is None else self._started
        self.made += 1
        return max(0.01, min(self.patience.timeout, self._started + self.patience.patience - now))

    def pause(self, retry_after: float | None = None) -> float | None:
        """Seconds to wait before the next attempt, or None when it is time to give up."""
        pause = self.patience.wait(max(1, self.made), retry_after)
        spent = time.monotonic() - self._started if self._started is not None else 0.0
        return None if self.made >= self.patience.attempts or spent + pause > self.patience.patience else pause


#: answers of a server that may be different next time
RETRIED_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def retry_after(header: str | None) -> float | None:
    """The seconds in a Retry-After header; dates are left to the backoff.

    >>> retry_after("2"), retry_after(None), retry_after("soon")
    (2.0, None, None)
    """
    try:
        return float(header) if header else None
    except ValueError:
        return None
