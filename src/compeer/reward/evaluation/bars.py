"""A bar for each judge with its interval, as in Figure 5 of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from compeer.corpora.plot import ACCENT, INK, QUIET, WARM
from compeer.reward.evaluation.measure import Figure
from compeer.reward.evaluation.plot import canvas, frame, save, style

_COLOURS = (WARM, ACCENT, "#5B6C9E", "#9A7B1F")


def bars(
    path: Path,
    title: str,
    below: str,
    beside: str,
    values: Sequence[tuple[str, Figure, str]],
    form: Callable[[float], str],
) -> None:
    """Draw named figures, each with a note above its bar; `form` writes the numbers of the axis."""
    matplotlib, new = canvas()
    with matplotlib.rc_context(style()):
        figure = new(max(4.6, 1.7 * len(values) + 1.6), 4.2)
        axes = figure.subplots()
        frame(axes, title, below, beside)
        highest = 0.0
        for place, (_, value, note) in enumerate(values):
            at = value.value or 0.0
            top = max(at, value.high or 0.0)
            highest = max(highest, top)
            axes.bar(place, at, width=0.55, color=_COLOURS[place % len(_COLOURS)])
            if value.low is not None and value.high is not None:
                axes.plot([place, place], [value.low, value.high], color=INK, linewidth=1.2)
            axes.annotate(note, (place, top), (0, 5), textcoords="offset points", ha="center", fontsize=10)
        axes.set_xticks(range(len(values)), [name for name, _, _ in values])
        axes.set_xlim(-0.6, len(values) - 0.4)
        axes.set_ylim(0, 1.16 * highest or 1.0)
        axes.yaxis.set_major_formatter(lambda value, _: form(value))
        axes.grid(axis="y", color=QUIET, alpha=0.2, linewidth=0.8)
        axes.set_axisbelow(True)
        save(figure, path)
