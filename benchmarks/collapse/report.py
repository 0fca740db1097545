"""What the runs came to: each arm's variety at first and at last, intervals over the seeds, a table and a picture.

A run's value is the mean over ten steps, of 32 replies each: the first ten, and the last ten. Intervals are Student's,
95 %, over the seeds. The difference between two arms is taken seed by seed, because both start from the same model.
Variety is only worth something if it is not noise, so the share of replies that this world knows is told too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.collapse.world import sentences

Curve = list[float]
WINDOW = 10
MEASURES = {
    "diversity/distinct_2": "distinct-2",
    "diversity/self_similarity": "self-similarity",
    "reward/total": "reward before equation 5",
    "known": "replies of whole sentences",
}
SHOWN = {"none": "without reweighting", "paper": "equation 5 as printed", "sign_aware": "equation 5, sign-aware"}


class Interval(msgspec.Struct, frozen=True):
    """A mean over seeds and half the width of its 95 % interval."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.half:.3f}"


def curves(out: Path, arm: str, seeds: int, name: str) -> list[Curve]:
    """One curve a seed, a value a step."""
    found = []
    for seed in range(seeds):
        folder = out / f"seed-{seed}" / arm
        if name == "known":
            found.append(known(folder))
            continue
        lines = (folder / "metrics.jsonl").read_bytes().splitlines()
        found.append([line[name] for line in map(msgspec.json.decode, lines) if name in line])
    return found


def known(folder: Path) -> Curve:
    """The share of replies that are three sentences of this world, step by step."""
    steps: dict[int, list[bool]] = {}
    for line in map(msgspec.json.decode, (folder / "samples.jsonl").read_bytes().splitlines()):
        steps.setdefault(line["step"], []).append(sentences(line["reply"]) is not None)
    return [sum(steps[step]) / len(steps[step]) for step in sorted(steps)]


def interval(values: Sequence[float]) -> Interval:
    """Student's, 95 %; one value has no interval."""
    from scipy.stats import t

    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return Interval(mean, math.nan)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    return Interval(mean, float(t.ppf(0.975, count - 1)) * spread / math.sqrt(count))


def at_first(curve: Curve) -> float:
    return sum(curve[:WINDOW]) / len(curve[:WINDOW])


def at_last(curve: Curve) -> float:
    return sum(curve[-WINDOW:]) / len(curve[-WINDOW:])


def report(out: Path, arms: Sequence[str], seeds: int, picture: Path) -> str:
    """The table, as Markdown; the picture and the numbers go to files."""
    found = {(arm, name): curves(out, arm, seeds, name) for arm in arms for name in MEASURES}
    rows = ["| | " + " | ".join(f"{label}, first → last" for label in MEASURES.values()) + " |",
            "|---" * (len(MEASURES) + 1) + "|"]  # fmt: skip
    numbers: dict[str, dict[str, list[float]]] = {}
    for arm in arms:
        cells = []
        for name in MEASURES:
            first, last = (interval([part(curve) for curve in found[arm, name]]) for part in (at_first, at_last))
            cells.append(f"{first.mean:.3f} → {last}")
            numbers.setdefault(arm, {})[name] = [at_last(curve) for curve in found[arm, name]]
        rows.append(f"| {SHOWN[arm]} | " + " | ".join(cells) + " |")
    for arm in arms[1:] if arms[0] == "none" else ():
        gaps = [_gap(found[arm, name], found["none", name]) for name in MEASURES]
        cells = [f"{gap.mean:+.3f} ± {gap.half:.3f}" for gap in gaps]
        rows.append(f"| {SHOWN[arm]}, minus without, at last | " + " | ".join(cells) + " |")
    (out / "collapse.json").write_bytes(msgspec.json.format(msgspec.json.encode(numbers)) + b"\n")
    table = "\n".join(rows)
    (out / "collapse.md").write_text(table + "\n", encoding="utf-8")
    draw(found, arms, picture)
    return table


def _gap(arm: list[Curve], base: list[Curve]) -> Interval:
    return interval([at_last(one) - at_last(other) for one, other in zip(arm, base, strict=True)])


def draw(found: dict[tuple[str, str], list[Curve]], arms: Sequence[str], path: Path) -> None:
    """Three panels over the steps: the mean over the seeds, and its interval as a band."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    from compeer.plotting import ACCENT, INK, PAPER, QUIET, WARM

    colours = {"none": WARM, "paper": ACCENT, "sign_aware": QUIET}
    figure = Figure(figsize=(11.5, 3.8), facecolor=PAPER, layout=ConstrainedLayoutEngine(w_pad=0.14, h_pad=0.08))
    axes = figure.subplots(1, 3)
    seeds = len(next(iter(found.values())))
    for axis, (name, label) in zip(axes, list(MEASURES.items())[:3], strict=True):
        for arm in arms:
            smooth = [_smooth(curve) for curve in found[arm, name]]
            steps = range(1, min(map(len, smooth)) + 1)
            middle = [interval([curve[step - 1] for curve in smooth]) for step in steps]
            means = [one.mean for one in middle]
            style = (0, (4, 2)) if arm == "sign_aware" else "solid"
            axis.plot(steps, means, color=colours[arm], linewidth=1.8, linestyle=style, label=SHOWN[arm])
            if seeds > 1:
                low, high = [one.mean - one.half for one in middle], [one.mean + one.half for one in middle]
                axis.fill_between(steps, low, high, color=colours[arm], alpha=0.16, linewidth=0)
        axis.set_title(label, fontsize=10, color=INK, loc="left")
        axis.set_xlabel("GRPO step", fontsize=9, color=INK)
        axis.set_facecolor(PAPER)
        axis.tick_params(colors=INK, labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylim(bottom=0)
    axes[1].set_ylim(0, 1)
    axes[0].legend(frameon=False, fontsize=8, labelcolor=INK)
    title = f"A tiny model under a judge that likes one reply best: mean of {seeds} seeds, 95 % intervals"
    figure.suptitle(title, fontsize=11, color=INK, x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140)


def _smooth(curve: Curve) -> Curve:
    """The mean of five steps around each."""
    return [sum(part) / len(part) for at in range(len(curve)) if (part := curve[max(0, at - 2) : at + 3])]
