"""Figures as SVG inside the page: emotion curves, dimensions, strategies.

Colours are classes of page.css, so that both themes apply. Each drawing is 460 units wide, about as wide as it is
shown on a phone, so its text stays readable there; several stand side by side on a wide screen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from compeer.evals.language.measure import shares
from compeer.evals.report.gather import ReportRun
from compeer.evals.report.tables import span, value_text
from compeer.evals.result import Transcript
from compeer.statistics import Figure

WIDTH = 460
SERIES = 6  # colours; further runs begin again


def curves(run: ReportRun) -> str:
    """Every dialogue's emotion thin, their mean thick; a dialogue that has ended keeps its last value in the mean."""
    samples = [sample for sample in run.transcripts if sample.curve]
    if not samples:
        return ""
    longest = max(len(sample.curve) for sample in samples)
    lowest = min(0, *(min(sample.curve) for sample in samples))
    left, right, top, bottom = 40, 12, 14, 34
    height = 270

    def x(turn: float) -> float:
        return left + turn * (WIDTH - left - right) / max(1, longest - 1)

    def y(value: float) -> float:
        return top + (100 - value) * (height - top - bottom) / (100 - lowest)

    parts = [
        f'<line class="grid{" mark" if at in (10, 100) else ""}" x1="{left}" x2="{WIDTH - right}" '
        f'y1="{y(at):.1f}" y2="{y(at):.1f}"/><text class="tick" x="{left - 8}" y="{y(at) + 4:.1f}" '
        f'text-anchor="end">{at}</text>'
        for at in (10, 40, 70, 100)
    ]
    parts += [
        f'<text class="tick" x="{x(turn):.1f}" y="{height - 14}" text-anchor="middle">{turn + 1}</text>'
        for turn in range(0, longest, 1 if longest <= 10 else 2)
    ]
    parts.append(f'<text class="tick" x="{WIDTH - right}" y="{height - 1}" text-anchor="end">turn of the seeker</text>')
    for sample in samples:
        steps = " ".join(f"{x(turn):.1f},{y(value):.1f}" for turn, value in enumerate(sample.curve))
        told = escape(f"{sample.id}: {sample.curve[-1]}{_ended(sample)}")
        line = f'<polyline class="thin" points="{steps}"/>' if len(sample.curve) > 1 else ""
        parts.append(f'<g class="one" data-case="{escape(sample.id)}"><title>{told}</title>{line}</g>')
        parts.append(f'<circle class="end" cx="{x(len(sample.curve) - 1):.1f}" cy="{y(sample.curve[-1]):.1f}" r="2"/>')
    means = [sum(s.curve[min(turn, len(s.curve) - 1)] for s in samples) / len(samples) for turn in range(longest)]
    line = " ".join(f"{x(turn):.1f},{y(value):.1f}" for turn, value in enumerate(means))
    parts.append(f'<polyline class="thick" points="{line}"/>')
    label = f"Emotion of {len(samples)} dialogues with {run.label}; their mean ends at {means[-1]:.1f}"
    return _svg(height, parts, label, f"s{run.colour % SERIES}", f' data-run="{run.number}"')


def dimensions(columns: Sequence[str], runs: Sequence[ReportRun], find: Mapping[int, Mapping[str, Figure]]) -> str:
    """A row for each dimension, a dot with its interval for each run."""
    step = 13
    tall = 14 + step * len(runs)
    left, right, top = 92, 44, 8
    height = top + tall * len(columns) + 22

    def x(value: float) -> float:
        return left + value * (WIDTH - left - right) / 100

    parts = [
        f'<line class="grid" x1="{x(at)}" x2="{x(at)}" y1="{top}" y2="{height - 20}"/>'
        f'<text class="tick" x="{x(at)}" y="{height - 5}" text-anchor="middle">{at}</text>'
        for at in (0, 25, 50, 75, 100)
    ]
    for row, column in enumerate(columns):
        middle = top + tall * row + tall / 2
        parts.append(f'<text class="name" x="{left - 10}" y="{middle + 4}" text-anchor="end">{escape(column)}</text>')
        for place, run in enumerate(runs):
            figure = find[run.number].get(column)
            if figure is None or figure.value is None:
                continue
            at = middle + (place - (len(runs) - 1) / 2) * step
            told = escape(f"{run.label}, {column}: {value_text(figure)} ({span(figure)})")
            whisker = ""
            if figure.low is not None and figure.high is not None:
                whisker = (
                    f'<line class="whisker" x1="{x(figure.low):.1f}" x2="{x(figure.high):.1f}" y1="{at}" y2="{at}"/>'
                )
            end = x(figure.high if figure.high is not None else figure.value)
            parts.append(
                f'<g class="s{run.colour % SERIES}"><title>{told}</title>{whisker}'
                f'<circle class="dot" cx="{x(figure.value):.1f}" cy="{at}" r="4.5"/>'
                f'<text class="tick" x="{end + 7:.1f}" y="{at + 4}">{figure.value:.0f}</text></g>'
            )
    return _svg(height, parts, f"Scores of {', '.join(run.label for run in runs)} by dimension", "")


def strategy_scale(entries: Iterable[Mapping[str, Any]]) -> float:
    """The share at which the bars of all panels end: panels side by side share one scale."""
    sides = [shares(one[side]) for one in entries for side in ("model", "people")]
    return max((share for side in sides for share in side.values()), default=1.0)


def strategies(entry: Mapping[str, Any], run: ReportRun, language: str, most: float) -> str:
    """Shares of the eight strategies: the model's as bars, people's as lines with a dot, each with its own label."""
    ours, theirs = shares(entry["model"]), shares(entry["people"])
    left, right, tall, top = 204, 48, 36, 6
    height = top + tall * len(ours) + 6

    def x(value: float) -> float:
        return left + value / max(most, 0.01) * (WIDTH - left - right)

    parts = []
    for row, name in enumerate(ours):
        at = top + tall * row
        told = escape(f"{name}: {run.label} {ours[name]:.1%}, people {theirs[name]:.1%}")
        parts.append(
            f"<g><title>{told}</title>"
            f'<text class="name" x="{left - 10}" y="{at + 19}" text-anchor="end">{escape(name)}</text>'
            f'<rect class="bar" x="{left}" y="{at + 3}" width="{x(ours[name]) - left:.1f}" height="12" rx="3"/>'
            f'<text class="tick model" x="{x(ours[name]) + 6:.1f}" y="{at + 13}">{ours[name]:.0%}</text>'
            f'<line class="people" x1="{left}" x2="{x(theirs[name]):.1f}" y1="{at + 24}" y2="{at + 24}"/>'
            f'<circle class="people-end" cx="{x(theirs[name]):.1f}" cy="{at + 24}" r="3.5"/>'
            f'<text class="tick people-share" x="{x(theirs[name]) + 8:.1f}" y="{at + 28}">{theirs[name]:.0%}</text></g>'
        )
    label = f"Strategies stated by {run.label} ({language}) against people's"
    return _svg(height, parts, label, f"s{run.colour % SERIES}")


def _svg(height: float, parts: Sequence[str], label: str, colour: str, more: str = "") -> str:
    return (
        f'<svg class="chart {colour}" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}"{more}>'
        + "".join(parts)
        + "</svg>"
    )


def _ended(sample: Transcript) -> str:
    return f", {sample.end}" if sample.end else ""
