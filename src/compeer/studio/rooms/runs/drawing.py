"""Runs as the pages show them: small curves for the list, panels for a run, intervals of an evaluation, times in words.

Drawings are SVG made on the server; only numbers go into them. Thousands of points are thinned to as many as a drawing
has room for: a line of means, and behind it a band from the lowest to the highest, so that a spike does not vanish.
Colours come from the style sheet, so a drawing follows the theme.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import msgspec
import numpy as np
from markupsafe import Markup

from compeer.studio.rooms.runs.reading import (
    EvaluationResult,
    MetricColumn,
    MetricLog,
    ResultFigure,
    RunFolder,
    RunLibrary,
    RunState,
    changed_at,
)
from compeer.studio.words import Say

WIDTH, HEIGHT = 300, 100  # of a panel; it is stretched to its place
SPARK = (120, 32)
_PAD = 3.0


class ThinnedColumn(msgspec.Struct, frozen=True):
    """A thinned column: where, the mean there, and the range that it stands for."""

    steps: list[float]
    means: list[float]
    lows: list[float]
    highs: list[float]


def thin(steps: Sequence[float] | np.ndarray, values: Sequence[float] | np.ndarray, most: int) -> ThinnedColumn:
    """At most `most` points.

    >>> thin([1, 2, 3, 4], [0.0, 2.0, 9.0, 1.0], 2)
    ThinnedColumn(steps=[1.5, 3.5], means=[1.0, 5.0], lows=[0.0, 1.0], highs=[2.0, 9.0])
    """
    x, y = np.asarray(steps, dtype=float), np.asarray(values, dtype=float)
    if len(x) <= most:
        return ThinnedColumn(x.tolist(), y.tolist(), y.tolist(), y.tolist())
    starts = np.unique(np.linspace(0, len(x), most, endpoint=False).astype(int))
    counts = np.diff(np.append(starts, len(x)))
    return ThinnedColumn(
        (np.add.reduceat(x, starts) / counts).tolist(),
        (np.add.reduceat(y, starts) / counts).tolist(),
        np.minimum.reduceat(y, starts).tolist(),
        np.maximum.reduceat(y, starts).tolist(),
    )


class PlotFrame(msgspec.Struct, frozen=True):
    """From numbers to places in the drawing."""

    first: float
    last: float
    low: float
    high: float
    width: float
    height: float

    def y(self, value: float) -> float:
        return _PAD + (self.height - 2 * _PAD) * (1 - float(_share(np.array([value]), self.low, self.high)[0]))

    def points(self, steps: Sequence[float], values: Sequence[float]) -> str:
        """Places in the drawing, computed all at once: a page has thousands of them."""
        xs = _PAD + (self.width - 2 * _PAD) * _share(np.asarray(steps), self.first, self.last)
        ys = _PAD + (self.height - 2 * _PAD) * (1 - _share(np.asarray(values), self.low, self.high))
        return " ".join(map("{:.1f},{:.1f}".format, xs.tolist(), ys.tolist()))


def _share(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Where values lie between two bounds, from 0 to 1; in the middle when there is nothing between."""
    if not high > low:
        return np.full(len(values), 0.5)
    return np.clip(np.nan_to_num((values / 2 - low / 2) / (high / 2 - low / 2), nan=0.5), 0, 1)  # halves: no overflow


def frame(lines: Sequence[tuple[np.ndarray, np.ndarray]], width: float, height: float) -> PlotFrame:
    steps, values = (np.concatenate([line[place] for line in lines]) for place in (0, 1))
    first, last, low, high = (float(one) for one in (steps.min(), steps.max(), values.min(), values.max()))
    return PlotFrame(first, last, low, high, width, height)


def spark(column: MetricColumn, label: str) -> Markup:
    """One line, the size of a word; `label` is its text for screen readers."""
    width, height = SPARK
    line = column.arrays()
    place = frame([line], width, height)
    return _svg("spark", width, height, label, _line(place, thin(*line, 60), "train"))


def panel(train: MetricColumn | None, held_out: MetricColumn | None, label: str) -> Markup:
    """Training as a line with its band, validation as a line with dots."""
    training, validation = (column.arrays() if column else None for column in (train, held_out))
    place = frame([line for line in (training, validation) if line], WIDTH, HEIGHT)
    drawn = Markup("")
    if place.low < 0 < place.high:
        zero = f"{place.y(0):.1f}"
        drawn += Markup('<line class="zero" x1="0" x2="{w}" y1="{y}" y2="{y}"/>').format(w=WIDTH, y=zero)
    if training:
        few = thin(*training, 150)
        drawn += _band(place, few, len(training[0])) + _line(place, few, "train")
    if validation:
        drawn += _line(place, thin(*validation, 60), "eval")
    about = Markup(' data-first="{}" data-last="{}" data-low="{}" data-high="{}"').format(
        place.first, place.last, place.low, place.high
    )
    return _svg("panel", WIDTH, HEIGHT, label, drawn, about)


def _line(place: PlotFrame, few: ThinnedColumn, part: str) -> Markup:
    points = place.points(few.steps, few.means)
    if len(few.steps) == 1:  # a line through one point would not be seen
        x, y = points.split(",")
        points = f"{float(x) - 2:.1f},{y} {float(x) + 2:.1f},{y}"
    return Markup('<polyline class="{}" points="{}"/>').format(part, points)


def _band(place: PlotFrame, few: ThinnedColumn, whole: int) -> Markup:
    if whole <= len(few.steps):
        return Markup("")
    there = place.points(few.steps, few.highs)
    back = place.points(few.steps[::-1], few.lows[::-1])
    return Markup('<polygon class="band" points="{} {}"/>').format(there, back)


def _svg(name: str, width: int, height: int, label: str, drawn: Markup, about: Markup = Markup("")) -> Markup:
    head = Markup('<svg class="{}" viewBox="0 0 {} {}" preserveAspectRatio="none" role="img" aria-label="{}"{}>')
    return head.format(name, width, height, label, about) + drawn + Markup("</svg>")


#: where an axis of intervals may end; figures that share an end share the axis
AXIS_ENDS = (1.0, 5.0, 100.0)
#: scales that are known, whatever the values: a rating of 4 % is no score of 4, and a reward of 0.4 is no share
SCALE_OF_BENCHMARK, SCALE_OF_FIGURE = {"esc-eval": 100.0}, {"reward": 5.0, "Sentient": 100.0}
_AXIS = 150  # width


def intervals(result: EvaluationResult) -> dict[str, Markup]:
    """For each figure its interval on the axis of its kind, as a drawing; empty where there is no interval.

    Shares, scores up to 5 and percentages each have an axis of their own, so that a percentage does not shrink the
    interval of a share. An axis begins at zero, or at the negative end when one of its figures goes below zero.
    """
    drawable = [one for one in result.figures if None not in (one.value, one.low, one.high)]
    ends = {one.name: axis_end(one, result.benchmark) for one in drawable}
    negative = {ends[one.name] for one in drawable if min(one.low or 0, one.value or 0) < 0}
    drawn = {one.name: Markup("") for one in result.figures}
    for one in drawable:
        end = ends[one.name]
        drawn[one.name] = _interval(one, -end if end in negative else 0.0, end)
    return drawn


def axis_end(figure: ResultFigure, benchmark: str = "") -> float:
    """Where the axis of a figure ends: at the end of its scale where that is known, else at one that holds its values.

    >>> [axis_end(ResultFigure("x", 0, low, high)) for low, high in ((0.2, 0.9), (-4.5, 2), (55, 71), (0, 250))]
    [1.0, 5.0, 100.0, 1000.0]
    >>> axis_end(ResultFigure("en/reward", 0.4, 0.2, 0.6)), axis_end(ResultFigure("Fluency", 4, 3, 5), "esc-eval")
    (5.0, 100.0)
    """
    least = SCALE_OF_FIGURE.get(figure.name.rpartition("/")[2], SCALE_OF_BENCHMARK.get(benchmark, 0.0))
    most = max(least, *(abs(one or 0.0) for one in (figure.low, figure.value, figure.high)))
    known = next((end for end in AXIS_ENDS if most <= end), None)
    return known or float(10 ** math.ceil(math.log10(most)))


def _interval(figure: ResultFigure, first: float, last: float) -> Markup:
    places = [_AXIS * (one - first) / (last - first) for one in (figure.low or 0, figure.value or 0, figure.high or 0)]
    zero = Markup('<line class="zero" x1="{x:.1f}" x2="{x:.1f}" y1="3" y2="13"/>').format(
        x=-_AXIS * first / (last - first)
    )
    low, value, high = (f"{place:.1f}" for place in places)
    return Markup(
        '<svg class="whisker" viewBox="-40 0 230 16"><text x="-6" y="12" text-anchor="end">{}</text>'
        '<text x="156" y="12">{}</text><line class="axis" x1="0" x2="150" y1="8" y2="8"/>{}'
        '<line class="span" x1="{}" x2="{}" y1="8" y2="8"/><circle cx="{}" cy="8" r="4"/></svg>'
    ).format(short(first), short(last), zero if first < 0 else Markup(""), low, high, value)


def short(value: float) -> str:
    """A number as people write it down.

    >>> [short(x) for x in (0.0, 3.14159, 1234.5, 0.00002, 12345678.0, -2.0)]
    ['0', '3.14', '1,234', '2e-05', '1.23e+07', '-2']
    """
    size = abs(value)
    if size and (size < 0.001 or size >= 1e7):
        return f"{value:.3g}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


#: curves of the list, for a run with rewards and for one without
LISTED_REWARDED = ("reward", "diversity/distinct_2", "entropy")
LISTED_SUPERVISED = ("loss", "mean_token_accuracy", "entropy")
MAIN = ("reward", "judge/training", "judge/second", "loss", "mean_token_accuracy", "part/history", "part/emotion",
        "part/strategy", "part/preference", "part/format", "diversity/distinct_2", "diversity/self_similarity",
        "diversity/strategies", "entropy", "length/reply_words", "format/incomplete", "kl", "grad_norm",
        "learning_rate")  # fmt: skip
_SUPERVISED_ONLY = ("loss", "grad_norm", "learning_rate")


class DrawnCurve(msgspec.Struct, frozen=True):
    """A drawing with the words around it."""

    name: str
    last: str
    low: str
    high: str
    first_step: str
    last_step: str
    both: bool  # training and validation
    drawn: Markup


class ListedRun(msgspec.Struct, frozen=True):
    """One run in the list."""

    found: RunFolder
    changed: float
    ago: str
    state: RunState | None = None
    what: str = ""
    step: int = 0
    curves: tuple[DrawnCurve, ...] = ()
    alerts: int = 0
    result: EvaluationResult | None = None


def listed_run(library: RunLibrary, found: RunFolder, say: Say) -> ListedRun:
    """A run for the list."""
    if found.kind == "training":
        run = library.training_run(found)
        names = LISTED_REWARDED if run.metrics.column("reward") else LISTED_SUPERVISED
        curves = tuple(curve for name in names if (curve := small(run.metrics, name, say)))
        return ListedRun(
            found, run.changed, ago(run.changed, say), run.state, run.what, run.metrics.step, curves,
            len(run.alerts),
        )  # fmt: skip
    changed = changed_at(found)
    result = library.result(found) if found.kind == "evaluation" else None
    return ListedRun(found, changed, ago(changed, say), result=result)


def small(metrics: MetricLog, name: str, say: Say) -> DrawnCurve | None:
    column = metrics.column(name) or metrics.column(name, "eval")
    if not column:
        return None
    label = _label(name, column, say)
    return _curve(name, [column], spark(column, label), say)


def panels(metrics: MetricLog, say: Say, *, everything: bool) -> list[DrawnCurve]:
    """The panels of a run, the main ones first; the rest on demand."""
    rewarded = bool(metrics.column("reward"))
    main = [name for name in MAIN if name in metrics.columns and not (rewarded and name in _SUPERVISED_ONLY)]
    names = main + (sorted(set(metrics.columns) - set(main)) if everything else [])
    found = []
    for name in names:
        train, held_out = metrics.column(name), metrics.column(name, "eval")
        columns = [column for column in (train, held_out) if column]
        if columns:
            found.append(_curve(name, columns, panel(train, held_out, _label(name, columns[0], say)), say))
    return found


def named(name: str, say: Say) -> str:
    """A metric in words where we have them, else as it was logged."""
    key = f"runs.metric.{name}"
    return say(key) if say.knows(key) else name


def ago(changed: float, say: Say) -> str:
    """How long ago, in words."""
    seconds = max(0.0, time.time() - changed)
    if seconds < 60:
        return say("runs.ago.now")
    for unit, size, most in (("minutes", 60, 60), ("hours", 3600, 48), ("days", 86400, 60)):
        if seconds < size * most:
            return say(f"runs.ago.{unit}", n=int(seconds // size))
    return time.strftime("%Y-%m-%d", time.gmtime(changed))


def _label(name: str, column: MetricColumn, say: Say) -> str:
    values = {"first": short(column.values[0]), "last": short(column.last), "steps": short(column.steps[-1])}
    return say("runs.curve.label", name=named(name, say), **values)


def _curve(name: str, columns: list[MetricColumn], drawn: Markup, say: Say) -> DrawnCurve:
    return DrawnCurve(
        name=named(name, say),
        last=short(columns[0].last),
        low=short(min(min(column.values) for column in columns)),
        high=short(max(max(column.values) for column in columns)),
        first_step=short(min(column.steps[0] for column in columns)),
        last_step=short(max(column.steps[-1] for column in columns)),
        both=len(columns) > 1,
        drawn=drawn,
    )
