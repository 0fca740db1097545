"""Results of evaluations, read leniently: a figure without a value, or without an interval, is shown as such."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from markupsafe import Markup

from compeer.evals.result import RESULT
from compeer.typed import from_json


class Shown(msgspec.Struct, frozen=True):
    """One figure. `compeer.evals.interval.Figure`, where the value of an empty sample is missing."""

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0


class Outcome(msgspec.Struct, frozen=True):
    """What result.json says; `problem` when it cannot be read."""

    benchmark: str = ""
    model: str = ""
    comparable: dict[str, Any] = {}
    figures: list[Shown] = []
    setup: dict[str, Any] = {}
    notes: list[str] = []
    problem: str | None = None

    def whiskers(self) -> dict[str, Markup]:
        """For each figure its interval on one common axis from zero, as a drawing; empty where there is none."""
        axis = whisker_axis(figure.high for figure in self.figures if figure.high is not None)
        return {figure.name: _whisker(figure, axis) for figure in self.figures}


def whisker_axis(highs: Iterable[float]) -> float:
    """Where the axis ends: 1 and 100 for shares and percents, else the highest."""
    high = max((abs(one) for one in highs), default=0.0)
    return next((end for end in (1.0, 100.0) if high <= end), high)


def _whisker(figure: Shown, axis: float) -> Markup:
    if figure.value is None or figure.low is None or figure.high is None or not axis or figure.low < 0:
        return Markup("")
    low, value, high = (f"{200 * one / axis:.1f}" for one in (figure.low, figure.value, figure.high))
    return Markup(
        '<svg class="whisker" viewBox="-5 0 210 16"><line class="axis" x1="0" x2="200" y1="8" y2="8"/>'
        '<line x1="{}" x2="{}" y1="8" y2="8"/><circle cx="{}" cy="8" r="4"/></svg>'
    ).format(low, high, value)


def outcome(folder: Path) -> Outcome:
    try:
        return from_json((folder / RESULT).read_bytes(), Outcome)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        return Outcome(problem=str(error))
