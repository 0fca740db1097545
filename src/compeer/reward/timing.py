"""The time study (Figure 5b): seconds per judgement, in one run on one machine.

The same batches of cases go to every judge in turn, and the order of the judges changes from batch to batch, so that
a machine that gets warm or busy affects all alike. Each judge first judges a batch that is not counted, because
loading and compiling are not part of judging. The ratio of two judges is that of their sums; its interval resamples
the batches, each with the times of both judges.

The paper reports 0.004 seconds more per round for UnifiReward than for PRM+ORM, 12.5 % (about 0.036 against 0.032).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from compeer import __version__
from compeer.errors import UserError
from compeer.plotting import bars
from compeer.reward.case import Case, split_by_history
from compeer.reward.evaluation.folder import write_study
from compeer.reward.evaluation.report import grid
from compeer.reward.judge import Judge, Orders, run_and_close
from compeer.statistics import Figure, Resamples, estimate, quotient

PAPER = "The paper: 12.5 % more for UnifiReward than for PRM+ORM (0.004 s per round), on eight A800 with a 7B model."


class Lap(msgspec.Struct, frozen=True):
    """One judge on one batch: seconds, tokens encoded, cases without a judgement."""

    judge: str
    batch: int
    place: int  # the judge's place in the order: 0 went first
    cases: int
    seconds: float
    tokens: int
    failures: int


class Pace(msgspec.Struct, frozen=True):
    """One judge over all batches. `ratio` is its time over that of the first judge."""

    name: str
    seconds_a_case: Figure
    ratio: Figure
    tokens_a_case: float
    failures: int


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """What timing.json holds."""

    version: str
    cases: int
    batch: int
    rounds: int
    orders: Orders
    paces: list[Pace]
    laps: list[Lap]


def time_study(
    judges: Mapping[str, Judge],
    cases: Sequence[Case],
    *,
    batch: int = 32,
    rounds: int = 3,
    orders: Orders = "one",
) -> Timing:
    """Time the judges on the cases, `rounds` times over, relative to the first judge, and close them."""
    laps = run_and_close(_laps(judges, cases, batch, rounds, orders), judges.values())
    return Timing(
        version=__version__,
        cases=len(cases),
        batch=batch,
        rounds=rounds,
        orders=orders,
        paces=paces(list(judges), laps),
        laps=laps,
    )


async def _laps(
    judges: Mapping[str, Judge], cases: Sequence[Case], batch: int, rounds: int, orders: Orders
) -> list[Lap]:
    """Every judge on every batch, `rounds` times over, after a batch that is not counted."""
    if not judges or not cases:
        raise UserError("A time study needs at least one judge and one case.")
    batches = [cases[piece.start : piece.stop] for piece in split_by_history(cases, batch)]
    names = list(judges)
    for name in names:
        await judges[name].judge(batches[0], orders=orders)  # loads the model; not counted
    laps: list[Lap] = []
    for turn in range(rounds):
        for number, some in enumerate(batches):
            shift = (turn + number) % len(names)
            for place, name in enumerate(names[shift:] + names[:shift]):
                started = time.perf_counter()
                judgements = await judges[name].judge(some, orders=orders)
                seconds = time.perf_counter() - started
                failures = sum(judgement.failure is not None for judgement in judgements)
                tokens = sum(judgement.tokens for judgement in judgements)
                laps.append(Lap(name, turn * len(batches) + number, place, len(some), seconds, tokens, failures))
    return laps


def paces(names: Sequence[str], laps: Sequence[Lap]) -> list[Pace]:
    """The laps summed up, judge by judge."""
    count = 1 + max(lap.batch for lap in laps)
    seconds = {name: np.zeros(count) for name in names}
    sizes = np.zeros(count)
    for lap in laps:
        seconds[lap.judge][lap.batch] = lap.seconds
        sizes[lap.batch] = lap.cases
    drawn = Resamples([f"{batch:09}" for batch in range(count)]).weights
    first, found = seconds[names[0]], []
    for name in names:
        laps_of = [lap for lap in laps if lap.judge == name]
        own = seconds[name]
        found.append(
            Pace(
                name,
                estimate("seconds per case", own.sum() / sizes.sum(), quotient(drawn @ own, drawn @ sizes), count),
                estimate("ratio", own.sum() / first.sum(), quotient(drawn @ own, drawn @ first), count),
                sum(lap.tokens for lap in laps_of) / float(sizes.sum()),
                sum(lap.failures for lap in laps_of),
            )
        )
    return found


def markdown(timing: Timing) -> str:
    rows = [
        [
            pace.name,
            pace.seconds_a_case.text(2, scale=1000),
            pace.ratio.text(2),
            f"{pace.tokens_a_case:,.0f}" if pace.tokens_a_case else "-",
            f"{pace.failures:,}",
        ]
        for pace in timing.paces
    ]
    head = ("judge", "ms per case", f"time over {timing.paces[0].name}", "tokens per case", "not judged")
    about = (
        f"{timing.cases:,} cases in batches of about {timing.batch}, {timing.rounds} times over, the judges in turn, "
        "on one machine. Brackets: 95 % intervals over batches."
    )
    return "\n".join(["# Time of a judgement", "", about, "", *grid(head, rows), "", PAPER, ""])


def write_timing(timing: Timing, out: Path) -> None:
    """timing.md, timing.json and timing.png in a folder."""
    write_study(out, "timing", timing, markdown(timing))
    rows = []
    for place, pace in enumerate(timing.paces):
        more = f" ({100 * (pace.ratio.value or 0) - 100:+.1f} %)" if place else ""
        rows.append((pace.name, pace.seconds_a_case, f"{pace.seconds_a_case.value:.3g} s{more}"))
    below = f"{timing.cases:,} cases, {timing.rounds} times over"
    bars(out / "timing.png", "Time of a judgement", below, "seconds per case", rows, lambda value: f"{value:g}")
