"""Results as rows to draw: places in percent of a bar, since no style may stand in a page."""

from __future__ import annotations

import msgspec

from compeer.arena.figure import Bar, bars
from compeer.arena.results import Results
from compeer.evals.interval import Figure


class Rung(msgspec.Struct, frozen=True):
    """A model of the ranking, with its interval as places on a line from 0 to 100."""

    rank: int
    model: str
    points: Figure
    best: int
    worst: int
    votes: int
    at: float
    low: float
    high: float


class Chart(msgspec.Struct, frozen=True):
    results: Results
    bars: list[Bar]
    rungs: list[Rung]


def chart(results: Results) -> Chart:
    """Everything that the page of results draws."""
    ends = [
        end for one in results.ranking for end in (one.points.value, one.points.low, one.points.high) if end is not None
    ]
    least, most = (min(ends), max(ends)) if ends else (0.0, 1.0)
    rungs = []
    for one in results.ranking:
        low = one.points.value if one.points.low is None else one.points.low
        high = one.points.value if one.points.high is None else one.points.high
        at, start, end = (place(value, least, most) for value in (one.points.value, low, high))
        rungs.append(Rung(one.rank, one.model, one.points, one.best, one.worst, one.votes, at, start, end))
    return Chart(results, bars(results), rungs)


def place(value: float, least: float, most: float) -> float:
    """A value on a line from 4 to 96, so that marks at the ends are whole.

    >>> place(5, 0, 10), place(3, 3, 3)
    (50.0, 50.0)
    """
    return 50.0 if most <= least else round(4 + 92 * (value - least) / (most - least), 2)
