"""Figures as SVG, with their numbers as CSV and as a LaTeX table: the one way to draw for the report and for Runs.

Most drawings are 460 units wide, about as wide as a phone shows them, so that their text stays readable there. Only
classes stand in a drawing: colours come from figure/static/charts.css and follow the theme of the page. `svg_file` puts
the same style sheet, in its light colours, into the drawing. No meaning is carried by colour alone: series differ in
dashes or places too, and every figure has a sentence that says what it shows.

Thousands of points are thinned to as many as a drawing has room for: a line of means, and behind it a band from the
lowest to the highest, so that a spike does not vanish.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from markupsafe import Markup

from compeer.plotting import INK, LINE, PAPER, QUIET_TEXT
from compeer.statistics import Figure

WIDTH, NARROW = 460, 300
COLOURS = 6  # of series; further ones begin again
FOLDER = Path(__file__).parent / "figure"
Cell = str | float | None
Numbers = Sequence[float] | np.ndarray


class Caption(msgspec.Struct, frozen=True):
    """What a figure is called and says in a sentence; each way to draw takes one."""

    name: str  # of its files, see `slug`
    title: str
    says: str
    note: str = ""

    def chart(self, svg: Markup, head: Iterable[str], rows: Iterable[tuple[Any, ...]], **more: Any) -> Chart:
        told = self.name, self.title, self.says, self.note
        return Chart(*told, svg=svg, head=tuple(head), rows=tuple(rows), **more)


class Chart(Caption, frozen=True, kw_only=True):
    """A figure: its drawing, and its numbers as a table."""

    svg: Markup
    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    key: tuple[tuple[int, str], ...] = ()  # colour and name of each series
    last: str = ""  # the last value, where one number stands for the figure
    narrow: bool = False  # fits beside others in a row

    def csv_file(self) -> str:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.head, *([_cell(one) for one in row] for row in self.rows)])
        return out.getvalue()

    def latex_file(self) -> str:
        """The numbers as a LaTeX table that needs no package."""
        columns = "l" + "r" * (len(self.head) - 1)
        lines = [" & ".join(map(latex, row)) + r" \\" for row in (self.head, *self.rows)]
        body = "\n".join([lines[0], r"\hline", *lines[1:]])
        return (
            f"\\begin{{table}}\n\\centering\n\\caption{{{latex(self.title)}}}\n\\begin{{tabular}}{{{columns}}}\n\\hline\n"
            f"{body}\n\\hline\n\\end{{tabular}}\n\\end{{table}}\n"
        )

    def svg_file(self) -> str:
        """The drawing with its style sheet inside, in light colours."""
        head, _, rest = str(self.svg).partition(">")
        return f'{head} xmlns="http://www.w3.org/2000/svg"><style>{style()}</style>{rest}'

    def file(self, kind: str) -> str:
        """The figure as svg, csv or tex."""
        return {"svg": self.svg_file, "csv": self.csv_file, "tex": self.latex_file}[kind]()


def slug(name: str) -> str:
    """A name that may be part of a file's.

    >>> slug("part/history"), slug('a "b"')
    ('part-history', 'a-b')
    """
    return re.sub(r"[^\w.]+", "-", name).strip("-.")[:80]


def _cell(value: Cell) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.6g}"


def latex(value: Cell) -> str:
    r"""A cell of a LaTeX table.

    >>> latex("a_b & 50 %"), latex(-0.25), latex(None)
    ('a\\_b \\& 50 \\%', '$-0.25$', '')
    """
    if not isinstance(value, str):
        return "" if value is None else f"${value:.4g}$" if value < 0 else f"{value:.4g}"
    named = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(named.get(one, f"\\{one}" if one in "&%$#_{}" else one) for one in " ".join(value.split()))


@cache
def style() -> str:
    """The style sheet of a drawing in a file of its own: the light colours, and nothing that only browsers know."""
    text = (FOLDER / "static" / "charts.css").read_text(encoding="utf-8").partition("/* around drawings */")[0]
    text = re.sub(r"light-dark\((#\w+), #\w+\)", r"\1", text).replace("--own:", "color:")
    known = {"own": "currentColor", "ink": INK, "quiet": QUIET_TEXT, "line": LINE, "surface": PAPER}
    return re.sub(r"var\(--(\w+)\)", lambda found: known[found[1]], text)


def tag(name: str, inside: object = None, /, **values: object) -> Markup:
    """An element; `class_` is the attribute class, `x1` and others are rounded, None leaves one out."""
    given = Markup("").join(
        Markup(' {}="{}"').format(
            key.rstrip("_").replace("_", "-"), f"{value:.1f}" if isinstance(value, float) else value
        )
        for key, value in values.items()
        if value is not None
    )
    if inside is None:
        return Markup("<{}{}/>").format(Markup(name), given)
    return Markup("<{}{}>{}</{}>").format(Markup(name), given, inside, Markup(name))


def text(x: float, y: float, words: object, kind: str = "", anchor: str | None = None) -> Markup:
    return tag("text", words, class_=kind or None, x=float(x), y=float(y), text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return tag("line", class_=kind, x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2))


def drawing(says: str, parts: Iterable[Markup], height: float, width: float = WIDTH, **more: object) -> Markup:
    kind = more.pop("class_", "chart")
    box = f"0 0 {width} {height:.0f}"
    return tag("svg", Markup("").join(parts), class_=kind, viewBox=box, role="img", aria_label=says, **more)


def short(value: float) -> str:
    """A number as people write it down.

    >>> [short(x) for x in (0.0, 3.14159, 1234.5, 0.00002, 12345678.0, -2.0)]
    ['0', '3.14', '1,234', '2e-05', '1.23e+07', '-2']
    """
    size = abs(value)
    return f"{value:,.0f}" if 1000 <= size < 1e7 else f"{value:.3g}"


class Scale(msgspec.Struct, frozen=True):
    """Numbers from `low` to `high` as places from `start` to `end`; in the middle when there is nothing between."""

    low: float
    high: float
    start: float
    end: float

    def places(self, values: Numbers) -> np.ndarray:
        if not self.high > self.low:
            return np.full(len(values), (self.start + self.end) / 2)
        halves = (np.asarray(values, dtype=float) / 2 - self.low / 2) / (self.high / 2 - self.low / 2)  # no overflow
        return self.start + np.clip(np.nan_to_num(halves, nan=0.5), 0, 1) * (self.end - self.start)

    def __call__(self, value: float) -> float:
        return float(self.places([value])[0])

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers between the two ends.

        >>> Scale(-0.13, 0.42, 0, 1).ticks(), Scale(0, 5, 0, 1).ticks(), Scale(3, 3, 0, 1).ticks()
        ([-0.1, 0.0, 0.1, 0.2, 0.3, 0.4], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [3])
        """
        span = self.high - self.low
        if not 0 < span < math.inf:
            return sorted({self.low, self.high})
        power = 10.0 ** math.floor(math.log10(span / most))
        step = next(power * one for one in (1, 2, 5, 10) if power * one * (most + 1) >= span)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(number * step, 12) + 0.0 for number in range(first, last + 1)]


class ThinnedColumn(msgspec.Struct, frozen=True):
    """A thinned column: where, the mean there, and the range that it stands for."""

    steps: list[float]
    means: list[float]
    lows: list[float]
    highs: list[float]


def thin(steps: Numbers, values: Numbers, most: int) -> ThinnedColumn:
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


class Line(msgspec.Struct, frozen=True):
    """One line of a chart of curves. `kind` is a class: thick, or held (dashed, for validation)."""

    name: str
    colour: int
    xs: Numbers
    ys: Numbers
    kind: str = ""
    sizes: tuple[float, ...] = ()  # a dot of this radius at each point


def path_of(x: Scale, y: Scale, xs: Numbers, ys: Numbers) -> str:
    """Places in the drawing, computed all at once: a page has thousands of them."""
    return " ".join(map("{:.1f},{:.1f}".format, x.places(xs).tolist(), y.places(ys).tolist()))


def bounds(values: Iterable[Numbers]) -> tuple[float, float]:
    whole = np.concatenate([np.asarray(one, dtype=float) for one in values])
    return float(whole.min()), float(whole.max())


def spark(xs: Numbers, ys: Numbers, says: str) -> Markup:
    """One line, the size of a word."""
    few = thin(xs, ys, 60)
    x, y = Scale(*bounds([xs]), 3, 117), Scale(*bounds([ys]), 29, 3)
    return drawing(says, [_stroke(x, y, few, "line")], 32, 120, class_="spark s0", preserveAspectRatio="none")


def _stroke(x: Scale, y: Scale, few: ThinnedColumn, kind: str) -> Markup:
    points = path_of(x, y, few.steps, few.means)
    if len(few.steps) == 1:  # a line through one point would not be seen
        across, up = points.split(",")
        points = f"{float(across) - 2:.1f},{up} {float(across) + 2:.1f},{up}"
    return tag("polyline", class_=kind, points=points)


def curves(
    caption: Caption,
    lines: Sequence[Line],
    *,
    axes: tuple[str, str] = ("step", ""),
    square: bool = False,
    most: int = 150,
    last: str = "",
) -> Chart:
    """Lines over one another. `square` is for shares against shares: both axes from 0 to 1, with the diagonal."""
    width, height, left, bottom, top = (NARROW, 280, 40, 40, 24) if square else (WIDTH, 210, 52, 34, 10)
    x = Scale(*((0.0, 1.0) if square else bounds(one.xs for one in lines)), left, width - 10)
    y = Scale(*((0.0, 1.0) if square else bounds(one.ys for one in lines)), height - bottom, top)
    parts = []
    for at in y.ticks(4):
        parts += [line(left, y(at), width - 10, y(at), "grid"), text(left - 6, y(at) + 4, short(at), "", "end")]
    parts += [text(x(at), height - bottom + 16, short(at), "", "middle") for at in x.ticks(5)]
    parts += [text(width - 10, height - 4, axes[0], "", "end"), text(left, 12, axes[1]) if axes[1] else Markup("")]
    if square:
        parts.append(line(x(0), y(0), x(1), y(1), "mark"))
    rows: list[tuple[Cell, ...]] = []
    for one in lines:
        few = thin(one.xs, one.ys, most)
        inside = [_stroke(x, y, few, f"line {one.kind}".strip())]
        if len(one.xs) > len(few.steps):
            there, back = path_of(x, y, few.steps, few.highs), path_of(x, y, few.steps[::-1], few.lows[::-1])
            inside.insert(0, tag("polygon", class_="band", points=f"{there} {back}"))
        for size, across, up in zip(one.sizes, one.xs, one.ys, strict=False):
            inside.append(tag("circle", class_="dot", cx=x(across), cy=y(up), r=size))
        parts.append(tag("g", tag("title", one.name) + Markup("").join(inside), class_=f"s{one.colour % COLOURS}"))
        rows += zip([one.name] * len(few.steps), few.steps, few.means, few.lows, few.highs, strict=True)
    whole = all(low == mean == high for _, _, mean, low, high in rows)
    about = {"data_x": f"{x.low} {x.high} {x.start} {x.end}", "data_y": f"{y.low} {y.high} {y.start} {y.end}"}
    head = ("series", axes[0], axes[1] or "value", "lowest", "highest")[: 3 if whole else 5]
    key = tuple((one.colour, one.name) for one in lines) if len(lines) > 1 else ()
    svg = drawing(caption.says, parts, height, width, **about)
    return caption.chart(svg, head, (row[: len(head)] for row in rows), key=key, last=last, narrow=square)


class Dot(msgspec.Struct, frozen=True):
    """A figure with its interval in one row of a forest plot; a hollow dot is one that may be chance."""

    row: str
    figure: Figure
    series: str = ""
    colour: int = 0
    hollow: bool = False


def forest(
    caption: Caption,
    panels: Sequence[tuple[str, Sequence[Dot]]],
    *,
    zero: bool = False,
    ends: tuple[float, float] | None = None,
) -> Chart:
    """Dots with intervals, a panel with an axis of its own for each scale; `zero` marks 0 as "no difference".

    An axis begins at zero or at its lowest figure, whichever is lower; `ends` gives it both ends.
    """
    widest = max((_text_width(dot.row) for _, dots in panels for dot in dots), default=0.0)
    step, left, right = 14, 20 + min(220.0, widest), 70
    parts: list[Markup] = []
    rows: list[tuple[Cell, ...]] = []
    top = 6.0
    for called, dots in panels:
        named = dict.fromkeys(dot.row for dot in dots)
        tall = sum(10 + step * sum(dot.row == one for dot in dots) for one in named)
        low, high = bounds(
            [[v for v in (d.figure.low, d.figure.value, d.figure.high, 0.0) if v is not None] for d in dots]
        )
        if ends is None and not zero and high in (0.0, low):
            high = low + 1.0
        x = Scale(*(ends or (low, high)), left, WIDTH - right)
        for at in x.ticks(5):
            kind = "mark" if zero and at == 0 else "grid"
            parts += [line(x(at), top, x(at), top + tall, kind), text(x(at), top + tall + 14, short(at), "", "middle")]
        parts.append(text(left - 10, top + tall + 14, called, "", "end"))
        at_row = top
        for one in named:
            own = [dot for dot in dots if dot.row == one]
            middle = at_row + 5 + step * len(own) / 2
            parts.append(text(left - 10, middle + 4, one if _text_width(one) <= 220 else f"{one[:32]}…", "name", "end"))
            for place, dot in enumerate(own):
                parts.append(_dot(dot, x, at_row + 5 + step * (place + 0.5), zero))
                rows.append(
                    (dot.row, dot.series, dot.figure.value, dot.figure.low, dot.figure.high, float(dot.figure.n))
                )
            at_row += 10 + step * len(own)
        top += tall + 30
    key = dict.fromkeys((dot.colour, dot.series) for _, dots in panels for dot in dots if dot.series)
    head = ("figure", "series", "value", "low", "high", "n")
    return caption.chart(drawing(caption.says, parts, top - 8), head, rows, key=tuple(key) if len(key) > 1 else ())


def _text_width(words: str) -> float:
    """The approximate width of a text in a drawing, in units."""
    return sum(12.0 if one > "\u2e7f" else 6.4 for one in words)


def _dot(dot: Dot, x: Scale, at: float, signed: bool) -> Markup:
    figure = dot.figure
    value = figure.value or 0.0
    written = f"{value:+.3g}" if signed else short(value)
    spread = "" if figure.low is None or figure.high is None else f" ({short(figure.low)} to {short(figure.high)})"
    parts = [tag("title", f"{dot.series + ', ' if dot.series else ''}{dot.row}: {written}{spread}")]
    if figure.low is not None and figure.high is not None:
        parts.append(line(x(figure.low), at, x(figure.high), at, "whisker"))
    parts.append(tag("circle", class_="ring" if dot.hollow else "dot", cx=x(value), cy=at, r=4.5))
    parts.append(text(WIDTH - 4, at + 4, written, "", "end"))
    return tag("g", Markup("").join(parts), class_=f"s{dot.colour % COLOURS}")


def slopes(caption: Caption, sides: tuple[str, str], cases: Sequence[tuple[str, float, float]]) -> Chart:
    """Each case from its value on the left to that on the right; equal lines are drawn once, wider for more cases."""
    height, left, right = 280, 120, WIDTH - 120
    y = Scale(*bounds([[one for _, before, after in cases for one in (before, after)]]), height - 34, 14)
    parts = [line(side, y.start, side, y.end, "grid") for side in (left, right)]
    for at in y.ticks(5):
        parts += [text(left - 10, y(at) + 4, short(at), "", "end"), text(right + 10, y(at) + 4, short(at))]
    parts += [
        text(side, height - 8, name[:28], "name", "middle") for side, name in zip((left, right), sides, strict=True)
    ]
    for (before, after), count in sorted(Counter((b, a) for _, b, a in cases).items()):
        kind = "same" if after == before else "rose" if after > before else "fell"
        drawn = tag("polyline", class_=f"slope {kind}", points=f"{left},{y(before):.1f} {right},{y(after):.1f}",
                    stroke_width=min(9.0, 0.8 + 0.7 * count))  # fmt: skip
        parts.append(tag("g", tag("title", f"{short(before)} to {short(after)}: {count}") + drawn))
    means = [sum(side) / len(cases) for side in list(zip(*cases, strict=True))[1:]]
    parts.append(tag("polyline", class_="line thick", points=f"{left},{y(means[0]):.1f} {right},{y(means[1]):.1f}"))
    rows = ((case, before, after, after - before) for case, before, after in cases)
    svg = drawing(caption.says, parts, height, class_="chart s2")
    return caption.chart(svg, ("case", *sides, "difference"), rows)


def distribution(caption: Caption, sets: Sequence[tuple[str, int, Sequence[float]]], *, below: str = "") -> Chart:
    """How often each value, or each range of values, occurs in each set: bars side by side, as shares."""
    values = [value for _, _, own in sets for value in own]
    low, high = min(values), max(values)
    whole = all(value == int(value) for value in values) and high - low <= 12
    edges = np.arange(low - 0.5, high + 1) if whole else _round_edges(low, high)
    names = [short(low + at) for at in range(len(edges) - 1)] if whole else [
        f"{short(float(one))} to {short(float(two))}" for one, two in pairwise(edges)
    ]  # fmt: skip
    counts = [np.histogram(own, edges)[0] for _, _, own in sets]
    shares = [count / max(1, count.sum()) for count in counts]
    height, left, bottom = 220, 44, 40
    y = Scale(0.0, max(float(share.max()) for share in shares), height - bottom, 12)
    wide = (WIDTH - left - 8) / len(names)
    parts = []
    for at in y.ticks(4):
        parts += [line(left, y(at), WIDTH - 8, y(at), "grid"), text(left - 6, y(at) + 4, f"{at:.0%}", "", "end")]
    for place, called in enumerate(names):
        shown = called if whole else short(float(edges[place]))
        parts.append(text(left + wide * (place + (0.5 if whole else 0)), height - bottom + 16, shown, "", "middle"))
        bar = 0.8 * wide / len(sets)
        for number, (label, colour, _) in enumerate(sets):
            share, x = float(shares[number][place]), left + wide * (place + 0.1) + bar * number
            told = tag("title", f"{label}, {called}: {counts[number][place]} ({share:.0%})")
            drawn = tag("rect", class_="bar", x=x, y=y(share), width=max(1.0, bar - 1), height=y.start - y(share), rx=2)
            parts.append(tag("g", told + drawn, class_=f"s{colour % COLOURS}"))
    parts.append(text(WIDTH - 8, height - 4, below, "", "end"))
    rows = ((called, *(float(count[place]) for count in counts)) for place, called in enumerate(names))
    key = tuple((colour, label) for label, colour, _ in sets) if len(sets) > 1 else ()
    head = (below or "value", *(one[0] for one in sets))
    return caption.chart(drawing(caption.says, parts, height), head, rows, key=key)


def _round_edges(low: float, high: float) -> np.ndarray:
    """Edges of about ten ranges, at round numbers, around all values.

    >>> _round_edges(-24.0, 91.0).tolist()
    [-40.0, -20.0, 0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    """
    ticks = Scale(low, high, 0, 1).ticks(9)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else 1.0
    first = ticks[0] - step if low < ticks[0] else ticks[0]
    return np.arange(first, high + step * 1.0001, step) if first + step <= high else np.array([first, first + step])


def heat(
    caption: Caption,
    rows: Sequence[str],
    columns: Sequence[str],
    counts: Sequence[Sequence[int]],
    *,
    axes: tuple[str, str] = ("", ""),
    by_row: bool = False,
    colour: int = 0,
) -> Chart:
    """Counts as a table of tinted cells; a tint is the share of its column, or of its row."""
    table = np.asarray(counts, dtype=float)
    shares = table / np.maximum(1, table.sum(axis=1 if by_row else 0, keepdims=True))
    left, top, tall = min(200.0, 20 + max(map(_text_width, rows))), 42, 28
    width = max(NARROW, min(WIDTH, round(left + 96 * len(columns))))
    wide = (width - left - 4) / len(columns)
    parts = [text(left - 8, 16, f"{axes[0]} ↓", "", "end"), text(left, 16, f"{axes[1]} →")]
    parts += [
        text(left + wide * (at + 0.5), top - 8, called[: max(4, int(wide / 6.4))], "name", "middle")
        for at, called in enumerate(columns)
    ]
    for place, called in enumerate(rows):
        y = top + tall * place
        parts.append(text(left - 8, y + 18, called, "name", "end"))
        for at, other in enumerate(columns):
            share, count = float(shares[place, at]), int(table[place, at])
            x = left + wide * at
            told = tag("title", f"{called}, {other}: {count} ({share:.0%})")
            cell = tag("rect", class_="cell", x=x, y=y, width=wide - 2, height=tall - 2, rx=3,
                       fill_opacity=f"{0.04 + 0.41 * share:.2f}")  # fmt: skip
            words = text(x + wide / 2 - 1, y + 18, f"{count} · {share:.0%}" if count else "0", "name", "middle")
            parts.append(tag("g", told + cell + words))
    svg = drawing(caption.says, parts, top + tall * len(rows) + 4, width, class_=f"chart s{colour % COLOURS}")
    made = ((called, *row) for called, row in zip(rows, counts, strict=True))
    return caption.chart(svg, (axes[0], *columns), made, narrow=width == NARROW)


def pairs_of_bars(
    caption: Caption,
    ours: Mapping[str, float],
    theirs: Mapping[str, float],
    label: str,
    *,
    most: float,
    colour: int = 0,
) -> Chart:
    """Shares of a model as bars, people's as lines with a dot; panels side by side end at the same share `most`."""
    left, right, tall = 204, 48, 36
    x = Scale(0.0, max(most, 0.01), left, WIDTH - right)
    parts = []
    for place, (called, share) in enumerate(ours.items()):
        y, people = 6 + tall * place, theirs[called]
        inside = [
            tag("title", f"{called}: {label} {share:.1%}, people {people:.1%}"),
            text(left - 10, y + 19, called, "name", "end"),
            tag("rect", class_="bar", x=left, y=y + 3, width=x(share) - left, height=12, rx=3),
            text(x(share) + 6, y + 13, f"{share:.0%}", "model"),
            line(left, y + 24, x(people), y + 24, "people"),
            tag("circle", class_="people-end", cx=x(people), cy=y + 24, r=3.5),
            text(x(people) + 8, y + 28, f"{people:.0%}", "people-share"),
        ]
        parts.append(tag("g", Markup("").join(inside)))
    svg = drawing(caption.says, parts, 12 + tall * len(ours), class_=f"chart s{colour % COLOURS}")
    rows = ((called, share, theirs[called]) for called, share in ours.items())
    return caption.chart(svg, ("strategy", label, "people"), rows)


def moods(
    caption: Caption, cases: Sequence[tuple[str, Sequence[float], str]], *, run: int, colour: int = 0, below: str = ""
) -> Chart:
    """Every dialogue's emotion thin, their mean thick; a dialogue that has ended keeps its last value in the mean."""
    height, left, right = 270, 40, 12
    turns = max(len(curve) for _, curve, _ in cases)
    means = [sum(curve[min(turn, len(curve) - 1)] for _, curve, _ in cases) / len(cases) for turn in range(turns)]
    x = Scale(0, max(1, turns - 1), left, WIDTH - right)
    y = Scale(min(0, *(min(curve) for _, curve, _ in cases)), 100, height - 34, 14)
    parts = []
    for at in (10, 40, 70, 100):
        kind = "mark" if at in (10, 100) else "grid"
        parts += [line(left, y(at), WIDTH - right, y(at), kind), text(left - 8, y(at) + 4, at, "", "end")]
    parts += [text(x(at), height - 16, at + 1, "", "middle") for at in range(0, turns, 1 if turns <= 10 else 2)]
    parts.append(text(WIDTH - right, height - 2, below, "", "end"))
    for case, curve, end in cases:
        told = tag("title", f"{case}: {curve[-1]}{', ' + end if end else ''}")
        drawn = tag("polyline", class_="thin", points=path_of(x, y, range(len(curve)), curve)) if len(curve) > 1 else ""
        parts.append(tag("g", told + drawn, class_="one", data_case=case))
        parts.append(tag("circle", class_="end", cx=x(len(curve) - 1), cy=y(curve[-1]), r=2))
    parts.append(tag("polyline", class_="line thick", points=path_of(x, y, range(turns), means)))
    svg = drawing(caption.says, parts, height, class_=f"chart s{colour % COLOURS}", data_run=run)
    rows = [(case, float(turn + 1), float(mood)) for case, curve, _ in cases for turn, mood in enumerate(curve)]
    rows += [("mean", float(turn + 1), mean) for turn, mean in enumerate(means)]
    return caption.chart(svg, ("case", below, "emotion"), rows)
