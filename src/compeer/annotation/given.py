"""What people hand in besides their answers, made fit to be kept: a note, and the seconds it took."""

from __future__ import annotations

import math

from compeer.annotation.refusal import BadAnswers

LONGEST_NOTE = 10_000
_MOST_SECONDS = 86400.0


def note_of(given: str) -> str:
    """A note without what no database keeps; one that is too long is refused, not cut."""
    note = given.replace("\x00", "").strip()
    if len(note) > LONGEST_NOTE:
        raise BadAnswers(f"A note has at most {LONGEST_NOTE:,} characters; this one has {len(note):,}.")
    return note


def seconds_of(given: float | None) -> float | None:
    """Seconds as a number that can be averaged.

    >>> seconds_of(12.5), seconds_of(-3), seconds_of(float("nan")), seconds_of(None)
    (12.5, 0.0, None, None)
    """
    if given is None or not math.isfinite(given):
        return None
    return min(max(float(given), 0.0), _MOST_SECONDS)
