"""A sweep over the multiplier of tau: one GRPO run each, diversity against reward.

    python -m runs.sweep configs/policy/laptop.yaml --tau 0.5,1,2 --out runs/out/sweep

Each multiplier has a run of its own, OUT/tau-0.5 and so on, which is resumed, or used as it is when it is finished;
0 switches the reweighting off. The comparison uses the last steps of each run: the reward *before* equation 5 (the
multiplier is part of the reweighted one), the share of different word pairs in the replies (distinct-2), and the
similarity of the replies to one another. Runs that no other run beats in both are the Pareto front.

Written to OUT: sweep.json, sweep.md, sweep.png.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.policy.grpo.config import GrpoConfig

REWARD, DISTINCT, LIKENESS = "reward/total", "diversity/distinct_2", "diversity/self_similarity"
LAST = 0.2  # the share of a run's steps that counts, and at least ten


class Value(msgspec.Struct, frozen=True):
    """A mean over the last steps, with its standard error."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the sweep. `front`: whether no other has both more reward and more diversity."""

    tau: float
    run: str
    steps: int
    reward: Value
    distinct_2: Value
    self_similarity: Value
    front: bool = False


def sweep(
    config: GrpoConfig,
    multipliers: Sequence[float],
    out: str | Path,
    *,
    train: Callable[[GrpoConfig], Mapping[str, Any]] | None = None,
    force: bool = False,
    fresh: bool = False,
) -> list[Point]:
    """A run for each multiplier, then the comparison. `train` is GRPO unless something else is given."""
    if not multipliers or any(one < 0 or not math.isfinite(one) for one in multipliers):
        raise UserError("A sweep needs multipliers of tau, numbers of at least 0, for example --tau 0.5,1,2.")
    if len(set(multipliers)) != len(multipliers):
        raise UserError("A multiplier of tau is given twice.")
    if config.variant in ("por", "ur"):
        raise UserError(f"variant: {config.variant} has no reweighting to vary; take urp.")
    points = []
    for one in sorted(multipliers):
        folder = Path(out) / f"tau-{one:g}"
        _train(_with(config, one, folder), train, force=force, fresh=fresh)
        points.append(point(one, folder))
    points = marked(points)
    if _is_main():
        _write(points, Path(out), config.name)
    return points


def point(tau: float, folder: Path) -> Point:
    """What a run came to, from its metrics."""
    path = folder / "metrics.jsonl"
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()] if path.exists() else []
    logged = [line for line in lines if REWARD in line]
    if not logged:
        raise UserError(
            f"{folder} has no metrics to compare. Was it trained with another version? --fresh begins anew."
        )
    return Point(
        tau=tau,
        run=str(folder),
        steps=int(logged[-1]["step"]),
        reward=_last(logged, REWARD),
        distinct_2=_last(logged, DISTINCT),
        self_similarity=_last(logged, LIKENESS),
    )


def marked(points: Sequence[Point]) -> list[Point]:
    """The points, those on the Pareto front of reward and distinct-2 marked."""
    values = [(one.reward.mean, one.distinct_2.mean) for one in points]
    return [
        msgspec.structs.replace(one, front=not any(beats(other, own) for other in values))
        for one, own in zip(points, values, strict=True)
    ]


def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """At least as good in both and better in one.

    >>> beats((2.0, 0.5), (1.0, 0.5)), beats((2.0, 0.4), (1.0, 0.5)), beats((1.0, 0.5), (1.0, 0.5))
    (True, False, False)
    """
    return one != other and all(mine >= its for mine, its in zip(one, other, strict=True))


def table(points: Sequence[Point]) -> str:
    """As Markdown."""
    rows = ["| tau x | steps | reward before equation 5 | distinct-2 | self-similarity | Pareto front |",
            "|---|---|---|---|---|---|"]  # fmt: skip
    for one in points:
        front = "yes" if one.front else ""
        cells = (f"{one.tau:g}", one.steps, one.reward, one.distinct_2, one.self_similarity, front)
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(rows)


def draw(points: Sequence[Point], path: Path, name: str) -> None:
    """Diversity against reward, in two panels; filled points are on the Pareto front of the first."""
    from matplotlib.figure import Figure

    from compeer.plotting import ACCENT, INK, PAPER, QUIET

    figure = Figure(figsize=(9, 3.9), facecolor=PAPER, layout="constrained")
    figure.suptitle(f"{name}: replies under a multiplier of tau", fontsize=11, color=INK, x=0.02, ha="left")
    axes = figure.subplots(1, 2)
    panels = ((axes[0], "distinct-2 (higher: more varied)"), (axes[1], "self-similarity (lower: more varied)"))
    for axis, label in panels:
        for one in points:
            value = one.distinct_2 if axis is axes[0] else one.self_similarity
            where = (one.reward.mean, value.mean)
            axis.errorbar(*where, xerr=one.reward.error, yerr=value.error, color=ACCENT, fmt="o", markersize=8,
                          markerfacecolor=ACCENT if one.front else PAPER, elinewidth=1, zorder=2)  # fmt: skip
            axis.annotate(f"x {one.tau:g}", where, xytext=(8, 6), textcoords="offset points", color=INK, fontsize=9)
        axis.set_xlabel("reward before equation 5", color=INK)
        axis.set_ylabel(label, color=INK)
        axis.set_facecolor(PAPER)
        axis.margins(0.2)
        axis.spines[["top", "right"]].set_visible(False)
    front = sorted((one.reward.mean, one.distinct_2.mean) for one in points if one.front)
    axes[0].plot(*zip(*front, strict=True), color=QUIET, linewidth=1, linestyle="--", label="Pareto front", zorder=1)
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].invert_yaxis()  # up is better here too
    figure.savefig(path, dpi=130)


def _with(config: GrpoConfig, tau: float, folder: Path) -> GrpoConfig:
    replace = msgspec.structs.replace
    reward = replace(config.reward, reweight=tau > 0, tau_scale=tau if tau > 0 else 1.0)
    variant = config.variant if tau > 0 else {"urp": "ur"}.get(config.variant or "", config.variant)
    return replace(config, out=str(folder), variant=variant, reward=reward, name=f"{config.name}, tau x {tau:g}")


def _train(
    config: GrpoConfig, train: Callable[[GrpoConfig], Mapping[str, Any]] | None, *, force: bool, fresh: bool
) -> Mapping[str, Any]:
    if train is not None:
        return train(config)
    from compeer.policy.grpo.run import train as grpo

    return grpo(config, force=force, fresh=fresh)


def _last(logged: Sequence[Mapping[str, Any]], name: str) -> Value:
    count = max(10, round(LAST * len(logged)))
    values = [float(line[name]) for line in logged[-count:] if isinstance(line.get(name), int | float)]
    if not values:
        return Value(math.nan, 0.0)
    mean = sum(values) / len(values)
    spread = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    return Value(mean, math.sqrt(spread / len(values)))


def _write(points: Sequence[Point], out: Path, name: str) -> None:
    data = msgspec.json.format(msgspec.json.encode(points), indent=2)
    (out / "sweep.json").write_bytes(data + b"\n")
    (out / "sweep.md").write_text(f"# {name}: multiplier of tau\n\n{table(points)}\n", encoding="utf-8")
    draw(points, out / "sweep.png", name)


def _is_main() -> bool:
    from compeer.training.run import is_main

    return is_main()


def main(words: Sequence[str]) -> None:
    """The command line."""
    from compeer.policy.grpo.config import read_config

    parser = argparse.ArgumentParser(prog="python -m runs.sweep", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("config", type=Path, help="Configuration of compeer policy grpo.")
    parser.add_argument("--out", type=Path, required=True, help="Folder of the sweep, with one run per multiplier.")
    parser.add_argument("--tau", default="0.5,1,2", help="Multipliers of tau, separated by commas; 0: no reweighting.")
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE instead of a setting of the file.")
    parser.add_argument("--force", action="store_true", help="Resume although settings, data, base or judge differ.")
    parser.add_argument("--fresh", action="store_true", help="Start again instead of resuming.")
    parser.add_argument("--json", action="store_true", help="Print the result as JSON.")
    given = parser.parse_args(words)
    try:
        multipliers = [float(one) for one in given.tau.split(",")]
    except ValueError:
        raise UserError(f"--tau is a list of numbers, for example 0.5,1,2, not {given.tau!r}.") from None
    points = sweep(read_config(given.config, given.set), multipliers, given.out, force=given.force, fresh=given.fresh)
    print(msgspec.json.format(msgspec.json.encode(points)).decode() if given.json else table(points))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
