"""The figure of a run: one small panel for each scalar that was logged, training and validation in one.

matplotlib's objects, not pyplot: no window system, no global state. Without matplotlib there is no figure, and
training ends well all the same: the numbers are in metrics.jsonl.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compeer.corpora.plot import ACCENT, INK, PAPER, QUIET, WARM

#: what a reader looks for first; the rest follows in alphabetical order
_FIRST = ("loss", "reward", "mean_token_accuracy", "entropy", "grad_norm", "learning_rate")
#: said once at the end, or the same as the axis
_LEFT_OUT = ("step", "epoch", "total_flos", "num_tokens", "_runtime", "_per_second", "train_loss")
_MOST = 12


def series(metrics: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Points by name, then by part ("train", "eval"), in the order in which they are shown.

    >>> series([{"step": 1, "loss": 2.0}, {"step": 2, "eval_loss": 1.5}])
    {'loss': {'train': [(1, 2.0)], 'eval': [(2, 1.5)]}}
    """
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for line in metrics:
        for key, value in line.items():
            if any(key == name or key.endswith(name) for name in _LEFT_OUT) or not isinstance(value, int | float):
                continue
            if not math.isfinite(value):
                continue
            part, name = ("eval", key.removeprefix("eval_")) if key.startswith("eval_") else ("train", key)
            found.setdefault(name, {}).setdefault(part, []).append((line.get("step", 0), value))
    order = sorted(found, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    return {name: found[name] for name in order}


def draw(metrics: Sequence[Mapping[str, Any]], path: Path, title: str) -> bool:
    """Write the figure; False when there is nothing to draw, or nothing to draw with."""
    panels = list(series(metrics).items())[:_MOST]
    if not panels:
        return False
    try:
        import matplotlib
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError:
        print("No curves are drawn: matplotlib is not installed (pip install 'compeer[data]').", file=sys.stderr)
        return False
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    style: dict[Any, Any] = {"font.size": 9, "text.color": INK, "xtick.color": INK, "ytick.color": INK}
    with matplotlib.rc_context(style):
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
        figure = Figure(figsize=(3.8 * columns, 0.4 + 2.6 * rows), facecolor=PAPER, layout=layout)
        grid = list(figure.subplots(rows, columns, squeeze=False).flat)
        figure.suptitle(title, fontsize=12, color=INK, x=0.02, ha="left")
        for axes, (name, parts) in zip(grid, panels, strict=False):
            _panel(axes, name, parts)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        figure.savefig(path, dpi=130)
    return True


def _panel(axes: Any, name: str, parts: Mapping[str, list[tuple[float, float]]]) -> None:
    axes.set_facecolor(PAPER)
    axes.set_title(name.replace("_", " ").replace("/", ": "), loc="left", fontsize=10, color=INK)
    axes.set_xlabel("step", color=QUIET)
    for part, colour in (("train", ACCENT), ("eval", WARM)):
        if points := parts.get(part):
            steps, values = zip(*points, strict=True)
            mark = "o" if len(points) == 1 else "." if part == "eval" else None
            axes.plot(
                steps, values, color=colour, linewidth=1.4, marker=mark, label="validation" if part == "eval" else part
            )
    if len(parts) > 1:
        axes.legend(frameon=False, fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(QUIET)
    axes.tick_params(length=0)
    axes.locator_params(axis="x", nbins=6)
