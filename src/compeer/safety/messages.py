"""Fixed words in both languages (`data/messages.json`): opening notice, banner, what the model is told, breaks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from compeer.safety.helplines import Help, help_for
from compeer.safety.levels import DATA, Risk, at_least


def message(*keys: str, time: int = 0) -> str:
    """The text at a place of `data/messages.json`; of several the one whose turn it is.

    >>> message("why", "empty", "en")
    'it was empty'
    """
    found: Any = _texts()
    for key in keys:
        found = found[key]
    return str(found[time % len(found)] if isinstance(found, list) else found)


def banner(risk: Risk, where: str | None, language: str) -> tuple[str, Help] | None:
    """What stays in sight while there is risk: words, and the numbers below them; None without any risk."""
    if risk.level == "none":
        return None
    spoken = _spoken(language)
    help = help_for(where, spoken, risk.danger, poison="ingestion" in risk.kinds and risk.level == "emergency")
    if risk.level == "watch":
        return message("banner", "watch", spoken), help
    kind = "other" if risk.about_other and risk.danger == "suicide" else risk.danger
    words = message("banner", kind, spoken)
    if risk.level == "emergency":
        words = f"{message('emergency', spoken).format(emergency=help.emergency)}\n{words}"
    return words, help


def guidance(risk: Risk, where: str | None, language: str) -> str | None:
    """What the model is told beside its instructions; None when there is no risk."""
    spoken = _spoken(language)
    if at_least(risk.level, "high"):
        return message("guidance", spoken).format(
            lines="; ".join(help_for(where, spoken, risk.danger).words(spoken)[:2])
        )
    return message("watch", spoken) if risk.level == "watch" else None


def instead(why: str, language: str) -> str:
    """The sentence that says that a reply is ours, and why: no model was asked, or what it wrote was held back."""
    words = "ours" if why in ("ours", "care") else "instead"
    return message(words, _spoken(language)).format(why=message("why", why, _spoken(language)))


def opening(where: str | None = None, language: str = "en") -> str:
    """The notice that opens a conversation: what this is, and where people are."""
    return "\n".join(
        [message("opening", _spoken(language)), *help_for(where, _spoken(language)).words(_spoken(language))]
    )


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
            told = message("break", _spoken(language)).format(minutes=int((now - self._begun) // 60))
        elif self._turns and self._count - self._counted >= self._turns:
            told = message("break_turns", _spoken(language)).format(turns=self._count)
        if told:
            self._last, self._counted = now, self._count
        return told


def _spoken(language: str) -> str:
    return "zh" if language == "zh" else "en"


@cache
def _texts() -> Any:
    return json.loads((DATA / "messages.json").read_bytes())
