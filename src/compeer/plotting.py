"""Figures: one palette, one look, one way to save.

    with drawing(path, 9, 4) as figure:
        axes = figure.subplots()
        frame(axes, "Reward", "step", "mean total")
        axes.plot(steps, values, color=ACCENT)

Drawn with matplotlib's objects, not with pyplot: no window system, no global state. matplotlib is imported here only,
when a figure is drawn. The same content gives the same file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compeer.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from compeer import statistics

INK, ACCENT, WARM, PAPER, QUIET = "#25221E", "#2F6F6A", "#B8683F", "#FAF8F5", "#8A847B"
LINE, QUIET_TEXT = "#E6E0D8", "#6B645B"
#: for several series, the most distinct first
SERIES = (ACCENT, WARM, "#5B6C9E", "#9A7B1F", "#7A4E7E", INK)


@contextmanager
def drawing(path: Path, width: float, height: float, font_size: float = 10) -> Iterator[Figure]:
    """An empty figure of so many inches, saved to `path` (.png or .svg) when the block ends."""
    kind = path.suffix.lower()
    if kind not in (".png", ".svg"):
        raise UserError(f"A figure is written as .png or .svg, not as {path.name}.")
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        raise UserError("A figure needs matplotlib: pip install 'compeer-esc[data]'.") from None
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # about a font that is not installed
    style: dict[Any, Any] = {
        "font.size": font_size,
        # Chinese names are drawn where a font for them is installed
        "font.family": ["DejaVu Sans", "Noto Sans CJK SC", "WenQuanYi Micro Hei"],
        "text.color": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "svg.fonttype": "none",  # text stays text: it can be searched, and the file is small
        "svg.hashsalt": "compeer",
    }
    with matplotlib.rc_context(style):
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, wspace=0.03)
        figure = Figure(figsize=(width, height), facecolor=PAPER, layout=layout)
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, metadata={"Date": None} if kind == ".svg" else None)


def frame(axes: Any, title: str, below: str = "", beside: str = "") -> None:
    """The look of one panel: its title, what is below and beside its axes, two quiet spines."""
    axes.set_facecolor(PAPER)
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel(below, color=QUIET)
    axes.set_ylabel(beside, color=QUIET)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(QUIET)
    axes.tick_params(length=0)


def bars(
    path: Path,
    title: str,
    below: str,
    beside: str,
    values: Sequence[tuple[str, statistics.Figure, str]],
    form: Callable[[float], str],
) -> None:
    """One bar with its interval per named figure, each with a note above it; `form` writes the numbers of the axis."""
    colours = (WARM, ACCENT, *SERIES[2:])
    with drawing(path, max(4.6, 1.7 * len(values) + 1.6), 4.2) as figure:
        axes = figure.subplots()
        frame(axes, title, below, beside)
        highest = 0.0
        for place, (_, value, note) in enumerate(values):
            at = value.value or 0.0
            top = max(at, value.high or 0.0)
            highest = max(highest, top)
            axes.bar(place, at, width=0.55, color=colours[place % len(colours)])
            if value.low is not None and value.high is not None:
                axes.plot([place, place], [value.low, value.high], color=INK, linewidth=1.2)
            axes.annotate(note, (place, top), (0, 5), textcoords="offset points", ha="center", fontsize=10)
        axes.set_xticks(range(len(values)), [name for name, _, _ in values])
        axes.set_xlim(-0.6, len(values) - 0.4)
        axes.set_ylim(0, 1.16 * highest or 1.0)
        axes.yaxis.set_major_formatter(lambda value, _: form(value))
        axes.grid(axis="y", color=QUIET, alpha=0.2, linewidth=0.8)
        axes.set_axisbelow(True)
