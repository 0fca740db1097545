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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compeer.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
