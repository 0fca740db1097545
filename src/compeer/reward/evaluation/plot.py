"""Figures of the evaluation: one per section of the report, and bars with intervals as in Figure 5 of the paper.

The upper row of a section's figure is Table 1 as dots: weighted F1 beside the recall of False, or the accuracy of the
reply, for every judge. Below are the ROC curves (wrong steps found against right steps blamed; for the reply, good
replies found against others taken for good) and what the probabilities promised against what came true.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compeer.cer.item import QUESTIONS, Question
from compeer.plotting import ACCENT, INK, PAPER, QUIET, SERIES, WARM, drawing, frame
from compeer.reward.evaluation.measure import JudgeResult
from compeer.reward.evaluation.report import QUESTION_TITLES, ReportSection
from compeer.statistics import Figure

_BAR_COLOURS = (WARM, ACCENT, *SERIES[2:])
_FEWEST = 5  # answers in a bin that is drawn


def draw_section(section: ReportSection, path: Path) -> None:
    """Write the figure of a section as PNG or SVG."""
    results = section.results
    colours = _coloured(results)
    tall = max(2.2, 0.34 * len(results) + 1.1)
    drawn = any(asked.scored for result in results for asked in result.questions.values())
    heights = [tall, 3.0, 3.0] if drawn else [tall]
    with drawing(path, 14, sum(heights) + 1.1) as figure:
        rows = figure.subplots(len(heights), 4, height_ratios=heights, squeeze=False)
        figure.suptitle(
            f"{section.set}: {section.items:,} items of {section.dialogues:,} dialogues, {section.heading}",
            fontsize=13,
            x=0.01,
            ha="left",
        )
        for column, question in enumerate(QUESTIONS):
            _dots(rows[0][column], results, question, colours, named=column == 0)
            if drawn:
                for row, what in ((1, "ROC"), (2, "calibration")):
                    _curves(rows[row][column], results, question, colours, what, first=column == 0)


def _coloured(results: Sequence[JudgeResult]) -> dict[str, str]:
    """A colour for each judge and probe; baselines are grey."""
    named = [result.name for result in results if result.role != "baseline"]
    return {name: SERIES[number % len(SERIES)] for number, name in enumerate(named)}


def _dots(axes: Any, results: Sequence[JudgeResult], question: Question, colours: dict[str, str], named: bool) -> None:
    other = ("accuracy", "accuracy") if question == "preference" else ("recall_false", "recall of False")
    frame(axes, QUESTION_TITLES[question], "")
    for row, result in enumerate(results):
        asked = result.questions.get(question)
        if asked is None:
            continue
        colour = colours.get(result.name, QUIET)
        draw_dot(axes, asked.figures["weighted_f1"], row - 0.14, colour, "o", colour)
        draw_dot(axes, asked.figures[other[0]], row + 0.14, colour, "D", PAPER)
    axes.set_ylim(len(results) - 0.5, -0.5)
    axes.set_yticks(range(len(results)), [_short(result.name) if named else "" for result in results])
    for label, result in zip(axes.get_yticklabels(), results, strict=True):
        label.set_color(colours.get(result.name, QUIET))  # the key to the colours of the whole figure
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(axis="x", color=QUIET, alpha=0.2, linewidth=0.8)
    axes.set_axisbelow(True)
    marks = [axes.plot([], [], "o", color=INK, markersize=5)[0]]
    marks += [axes.plot([], [], "D", color=INK, markerfacecolor=PAPER, markersize=5)[0]]
    axes.legend(marks, ["weighted F1", other[1]], frameon=False, fontsize=8, ncols=2, loc="upper center",
                bbox_to_anchor=(0.5, -0.12), handletextpad=0.1, columnspacing=1.0)  # fmt: skip


def draw_dot(axes: Any, figure: Figure, at: float, colour: str, mark: str, filled: str) -> None:
    """A figure with its interval, at this height."""
    if figure.value is None:
        return
    if figure.low is not None:
        axes.plot([figure.low, figure.high], [at, at], color=colour, linewidth=1.4, alpha=0.75, solid_capstyle="butt")
    axes.plot([figure.value], [at], mark, color=colour, markerfacecolor=filled, markersize=6)


def _curves(
    axes: Any, results: Sequence[JudgeResult], question: Question, colours: dict[str, str], what: str, first: bool
) -> None:
    """ROC, or calibration: what was promised against what came true, a large dot for a bin with many answers."""
    reply = question == "preference"
    if what == "ROC":
        steps, replies = ("right steps blamed", "wrong steps found"), ("others taken for good", "good replies found")
        frame(axes, "ROC" if first else "", *(replies if reply else steps))
    else:
        promised = "probability of the verdict" if reply else "probability of True"
        frame(axes, "Calibration" if first else "", promised, "came true")
    numbers: list[tuple[str, float | None]] = []
    for result in results:
        asked = result.questions.get(question)
        if asked is None or result.name not in colours or not (asked.roc if what == "ROC" else asked.reliability):
            continue
        colour = colours[result.name]
        if what == "ROC":
            axes.plot(*zip(*asked.roc, strict=True), color=colour, linewidth=1.6)
        else:
            bins = [entry for entry in asked.reliability if entry.count >= _FEWEST]
            most = max((entry.count for entry in bins), default=1)
            xs, ys = [entry.promised for entry in bins], [entry.came_true for entry in bins]
            axes.plot(xs, ys, color=colour, linewidth=1.2, alpha=0.8)
            sizes = [12 + 60 * entry.count / most for entry in bins]
            axes.scatter(xs, ys, s=sizes, color=colour, edgecolors=PAPER, linewidths=0.6, zorder=3)
        numbers.append((colour, asked.figures["auc" if what == "ROC" else "ece"].value))
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=0.8, linestyle=":", zorder=0)
    ticks, names = (0, 0.25, 0.5, 0.75, 1), ["0", "", "½", "", "1"]
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axes.set_xticks(ticks, names)
    axes.set_yticks(ticks, names)
    _numbers(axes, "AUC" if what == "ROC" else "ECE", numbers)


def _numbers(axes: Any, title: str, values: Sequence[tuple[str, float | None]]) -> None:
    """A column of numbers in the colours of their judges, in the corner that good curves leave free."""
    known = [(colour, value) for colour, value in values if value is not None]
    if not known:
        axes.text(0.5, 0.5, "no probabilities", ha="center", va="center", color=QUIET, transform=axes.transAxes)
        return
    lines = [(INK, title), *((colour, f"{value:.2f}") for colour, value in known)]
    for number, (colour, text) in enumerate(reversed(lines)):
        at = 0.03 + 0.075 * number
        box = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.8, "alpha": 0.8}
        axes.text(0.98, at, text, color=colour, fontsize=9, ha="right", transform=axes.transAxes, bbox=box, zorder=4)


def _short(name: str) -> str:
    return name if len(name) <= 30 else name[:29] + "…"


def bars(
    path: Path,
    title: str,
    below: str,
    beside: str,
    values: Sequence[tuple[str, Figure, str]],
    form: Callable[[float], str],
) -> None:
    """One bar per named figure, each with a note above it; `form` writes the numbers of the axis."""
    with drawing(path, max(4.6, 1.7 * len(values) + 1.6), 4.2) as figure:
        axes = figure.subplots()
        frame(axes, title, below, beside)
        highest = 0.0
        for place, (_, value, note) in enumerate(values):
            at = value.value or 0.0
            top = max(at, value.high or 0.0)
            highest = max(highest, top)
            axes.bar(place, at, width=0.55, color=_BAR_COLOURS[place % len(_BAR_COLOURS)])
            if value.low is not None and value.high is not None:
                axes.plot([place, place], [value.low, value.high], color=INK, linewidth=1.2)
            axes.annotate(note, (place, top), (0, 5), textcoords="offset points", ha="center", fontsize=10)
        axes.set_xticks(range(len(values)), [name for name, _, _ in values])
        axes.set_xlim(-0.6, len(values) - 0.4)
        axes.set_ylim(0, 1.16 * highest or 1.0)
        axes.yaxis.set_major_formatter(lambda value, _: form(value))
        axes.grid(axis="y", color=QUIET, alpha=0.2, linewidth=0.8)
        axes.set_axisbelow(True)
