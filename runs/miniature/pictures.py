"""Training with and without reweighting as a picture: `python -m runs.miniature.pictures` draws
docs/img/miniature-curves.png from results/curves.json. Thin lines are seeds, thick ones their mean, over five steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

HERE = Path(__file__).parent
PICTURE = HERE.parent.parent / "docs" / "img" / "miniature-curves.png"
PANELS = {
    "reward/total": "reward before equation 5",
    "diversity/distinct_2": "distinct-2 of 64 outputs",
    "diversity/self_similarity": "self-similarity",
    "format/incomplete": "incomplete outputs",
}
COLOURS = {"ur": "#b5651d", "urp": "#2f6f8f", "urp-sign": "#5b8c5a", "por": "#8a8a8a"}
NAMES = {"ur": "UR", "urp": "URP", "urp-sign": "URP, sign-aware", "por": "POR"}
_STEPS = 5


def draw(runs: Mapping[str, Sequence[Mapping[str, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(15, 3.6), layout="constrained")
    for axis, (name, title) in zip(axes, PANELS.items(), strict=True):
        for variant, colour in COLOURS.items():
            seeds = [smooth([line[name] for line in runs[run]]) for run in runs if run.rpartition("-")[0] == variant]
            for values in seeds:
                axis.plot(range(1, len(values) + 1), values, color=colour, alpha=0.25, linewidth=1)
            if seeds:
                mean = np.mean(seeds, axis=0)
                axis.plot(range(1, len(mean) + 1), mean, color=colour, linewidth=2.2, label=NAMES[variant])
        axis.set_title(title, fontsize=11)
        axis.set_xlabel("step")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", alpha=0.2)
    axes[0].legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def smooth(values: Sequence[float]) -> list[float]:
    """The mean of a step and those just before it.

    >>> smooth([1.0, 3.0])
    [1.0, 2.0]
    """
    return [float(np.mean(values[max(0, at + 1 - _STEPS) : at + 1])) for at in range(len(values))]


if __name__ == "__main__":
    stored: dict[str, Any] = msgspec.json.decode((HERE / "results" / "curves.json").read_bytes())
    draw(stored["runs"], PICTURE)
