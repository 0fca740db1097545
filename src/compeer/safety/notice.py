"""What is said at the beginning, and the reminder to take a break.

The notice says what this is (a program, research, no therapist), what happens to what is written, and where people
are. It is short, because nobody reads a long one, and it is shown before the first word.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from compeer.safety.helplines import lines
from compeer.safety.said import said


def opening(country: str | None = None, language: str = "en") -> str:
    """The notice that opens a conversation."""
    return "\n".join([said("opening", "zh" if language == "zh" else "en"), *lines(country, language)])


class Breaks:
    """Reminds of a break after so many minutes or messages, and again after as many more. Zero: never."""

    def __init__(self, minutes: float = 45, turns: int = 40, clock: Callable[[], float] = time.monotonic) -> None:
        self._minutes, self._turns, self._clock = minutes, turns, clock
        self._begun = self._last = clock()
        self._count = self._counted = 0

    def after_message(self, language: str = "en") -> str | None:
        """The reminder, when it is time for one. Call it once for each message."""
        self._count += 1
        now = self._clock()
        told = None
        if self._minutes and now - self._last >= self._minutes * 60:
            told = said("break", "zh" if language == "zh" else "en").format(minutes=int((now - self._begun) // 60))
        elif self._turns and self._count - self._counted >= self._turns:
            told = said("break_turns", "zh" if language == "zh" else "en").format(turns=self._count)
        if told:
            self._last, self._counted = now, self._count
        return told
