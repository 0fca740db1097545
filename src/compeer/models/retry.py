"""Patience with a server: which failures are worth another try, how long to wait, when to give up."""

from __future__ import annotations

import random

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
        backoff = min(self.longest, self.first * 2 ** (attempt - 1))
        backoff *= random.uniform(0.5, 1.0)  # many clients must not come back in step
        return max(backoff, min(retry_after or 0.0, self.longest))


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
