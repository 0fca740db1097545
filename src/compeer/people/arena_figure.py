"""The stacked bars of Figure 6: for each pair what share of the votes went which way, with intervals.

As SVG without any package, in colours that follow the reader's light or dark theme; as PNG by matplotlib. A bar reads
from left to right: the first model better, both good, neither acceptable, the other better. The thin marks are
the 95 % intervals of the two ends: where the first model's wins may end, and where the other's may begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import msgspec

from compeer.people.arena_results import OUTCOMES, ArenaResults, Outcome, PairOutcome
from compeer.plotting import INK, drawing

COLOURS: dict[Outcome, tuple[str, str]] = {
    "one": ("#2F6F6A", "#7FB8B1"),
    "both": ("#A9C7C3", "#4B6A66"),
    "neither": ("#D8D0C4", "#5A544B"),
    "two": ("#B8683F", "#D9936B"),
}
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


def percent(share: float) -> str:
    """A share as a whole percentage.

    >>> percent(0.4251)
    '43'
    """
    return f"{100 * share:.0f}"


def svg(results: ArenaResults) -> str:
    """The figure as a picture that stands alone."""
    shown = bars(results)
    longest = max((len(name) for bar in shown for name in (bar.one, bar.two)), default=0)
    side, wide, step = min(260, 24 + 8 * longest), 460, 50
    width, height = 2 * side + wide, 76 + step * len(shown)
    light, dark = (
        "".join(f".{kind}{{fill:{COLOURS[kind][n]}}}.{kind}-m{{stroke:{COLOURS[kind][n]}}}" for kind in OUTCOMES)
        for n in (0, 1)
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" font-family="system-ui, sans-serif" font-size="14">',
        f"<title>{escape(results.arena)}: {results.votes} votes on {results.cases} cases</title>",
        f"<style>text{{fill:#25221E}}.n{{font-size:12px}}.in{{fill:#fff}}.both-t,.neither-t{{fill:#25221E}}"
        f".mark{{stroke-width:1.5;fill:none}}.paper{{fill:#FAF8F5}}{light}"
        f"@media (prefers-color-scheme: dark){{text{{fill:#ECE7DF}}.in{{fill:#171614}}"
        f".both-t,.neither-t{{fill:#ECE7DF}}.paper{{fill:#171614}}{dark}}}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        *_legend(side, wide),
    ]
    for row, bar in enumerate(shown):
        lines += _row(bar, 56 + step * row, side, wide)
    lines.append(f'<text class="n" x="{side}" y="{height - 12}">{_caption(results)}</text></svg>')
    return "\n".join(lines)


def png(results: ArenaResults, path: Path) -> None:
    """The same with matplotlib, for papers and slides."""
    shown = bars(results)
    with drawing(path, 8, 1.4 + 0.5 * len(shown)) as figure:
        axes = figure.subplots()
        for row, bar in enumerate(shown):
            for part in bar.parts:
                label = LEGEND[part.kind] if row == 0 else None
                axes.barh(row, part.width, left=part.start, color=COLOURS[part.kind][0], height=0.62, label=label)
                if part.width >= _LEAST:
                    ink = "white" if part.kind in ("one", "two") else INK
                    middle = part.start + part.width / 2
                    axes.text(middle, row, percent(part.width), ha="center", va="center", color=ink, fontsize=9)
            for (low, high), kind, under in zip(bar.marks, (OUTCOMES[0], OUTCOMES[-1]), (0.36, 0.44), strict=False):
                middle, half, ink = (low + high) / 2, (high - low) / 2, COLOURS[kind][0]
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
        axes.set_xlabel(_caption(results), fontsize=9)


def _caption(results: ArenaResults) -> str:
    return f"{results.votes} votes, {results.cases} cases; marks: 95 % intervals"


def _legend(side: int, wide: int) -> list[str]:
    lines, x = [], float(side)
    for kind in OUTCOMES:
        lines.append(f'<rect class="{kind}" x="{x:.0f}" y="16" width="11" height="11" rx="2"/>')
        lines.append(f'<text class="n" x="{x + 16:.0f}" y="26">{LEGEND[kind]}</text>')
        x += 40 + 6.4 * len(LEGEND[kind])
    return lines


def _row(bar: Bar, y: int, side: int, wide: int) -> list[str]:
    lines = [
        f'<text x="{side - 12}" y="{y + 16}" text-anchor="end">{escape(_short(bar.one))}</text>',
        f'<text x="{side + wide + 12}" y="{y + 16}">{escape(_short(bar.two))}</text>',
    ]
    for part in bar.parts:
        if part.width <= 0:
            continue
        x, width = side + wide * part.start, wide * part.width
        lines.append(f'<rect class="{part.kind}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="22"/>')
        if part.width >= _LEAST:
            ink = f"n in {part.kind}-t"
            middle = f'x="{x + width / 2:.1f}" y="{y + 15}" text-anchor="middle"'
            lines.append(f'<text class="{ink}" {middle}>{percent(part.width)}</text>')
    lines += _marks(bar.marks, y + 27, side, wide)
    return lines


def _marks(marks: Sequence[tuple[float, float]], y: float, side: int, wide: int) -> list[str]:
    found = []
    for (low, high), kind in zip(marks, ("one", "two"), strict=False):
        left, right = side + wide * low, side + wide * high
        path = f"M{left:.1f} {y - 3}v6M{left:.1f} {y}H{right:.1f}M{right:.1f} {y - 3}v6"
        found.append(f'<path class="mark {kind}-m" d="{path}"/>')
        y += 7
    return found


def _short(name: str, most: int = 28) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
