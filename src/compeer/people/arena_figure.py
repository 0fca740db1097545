"""The stacked bars of Figure 6: for each pair what share of the votes went which way, with intervals.

Drawn by matplotlib, as SVG or PNG; the studio's page draws the same bars (`bars`) by itself. A bar reads from left to
right: the first model better, both good, neither acceptable, the other better. The thin marks are the 95 % intervals of
the two ends: where the first model's wins may end, and where the other's may begin.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from compeer.people.arena_results import OUTCOMES, ArenaResults, Outcome, PairOutcome
from compeer.plotting import ACCENT, INK, WARM, drawing

COLOURS: dict[Outcome, str] = {"one": ACCENT, "both": "#A9C7C3", "neither": "#D8D0C4", "two": WARM}
LEGEND: dict[Outcome, str] = {
    "one": "left model better", "both": "both good", "neither": "neither", "two": "right model better",
}  # fmt: skip
_LEAST = 0.05  # of a bar: narrower parts carry no number


class Part(msgspec.Struct, frozen=True):
    """One stretch of a bar, in shares of its length."""

    kind: Outcome
    start: float
    width: float
    count: int


class Bar(msgspec.Struct, frozen=True):
    """A pair as a bar. Marks are (low, high) of where the wins end and where the losses begin, if they are known."""

    one: str
    two: str
    votes: int
    parts: list[Part]
    marks: list[tuple[float, float]]


def bar_of(pair: PairOutcome) -> Bar:
    """Where the parts of a pair's bar lie."""
    parts, start = [], 0.0
    for kind in OUTCOMES:
        width = pair.shares[kind].value or 0.0
        parts.append(Part(kind, start, width, pair.counts[kind]))
        start += width
    marks = []
    won, lost = pair.shares["one"], pair.shares["two"]
    if won.low is not None and won.high is not None:
        marks.append((won.low, won.high))
    if lost.low is not None and lost.high is not None:
        marks.append((1 - lost.high, 1 - lost.low))
    return Bar(pair.one, pair.two, pair.votes, parts, marks)


def bars(results: ArenaResults) -> list[Bar]:
    return [bar_of(pair) for pair in results.pairs]


def draw(results: ArenaResults, path: Path) -> None:
    """The figure as a file, .svg or .png."""
    shown = bars(results)
    with drawing(path, 8, 1.4 + 0.5 * len(shown)) as figure:
        axes = figure.subplots()
        for row, bar in enumerate(shown):
            for part in bar.parts:
                label = LEGEND[part.kind] if row == 0 else None
                axes.barh(row, part.width, left=part.start, color=COLOURS[part.kind], height=0.62, label=label)
                if part.width >= _LEAST:
                    ink = "white" if part.kind in ("one", "two") else INK
                    middle = part.start + part.width / 2
                    axes.text(middle, row, f"{100 * part.width:.0f}", ha="center", va="center", color=ink, fontsize=9)
            for (low, high), kind, under in zip(bar.marks, (OUTCOMES[0], OUTCOMES[-1]), (0.36, 0.44), strict=False):
                middle, half, ink = (low + high) / 2, (high - low) / 2, COLOURS[kind]
                axes.errorbar(middle, row + under, xerr=half, color=ink, capsize=2, linewidth=1.2)
            axes.text(1.01, row, bar.two, va="center")
        axes.set_yticks(range(len(shown)), [bar.one for bar in shown])
        axes.set_xlim(0, 1)
        axes.set_xticks([])
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        if shown:
            figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
        axes.set_xlabel(f"{results.votes} votes on {results.cases} cases; marks: 95 % intervals", fontsize=9)
