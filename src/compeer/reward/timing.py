"""The time study (Figure 5b): what a judgement costs, by the clock, in one run on one machine.

The same batches of cases go to every judge in turn, and the order of the judges changes from batch to batch, so that
a machine that grows warm or busy burdens all alike. Each judge first judges a batch that is not counted: loading and
compiling are no part of judging. The ratio of two judges is that of their sums; its interval resamples the batches,
each with the times of both judges.

The paper reports 0.004 seconds more a round for UnifiReward than for PRM+ORM, 12.5 % (so about 0.036 against 0.032).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from compeer import __version__
from compeer.errors import UserError
from compeer.reward.case import Case, split_by_history
from compeer.reward.evaluation.measure import Figure
from compeer.reward.evaluation.table import grid, hundredths
from compeer.reward.judge import Judge, Orders
from compeer.statistics import ROUNDS, interval

PAPER = "The paper: 12.5 % more for UnifiReward than for PRM+ORM (0.004 s a round), on eight A800 with a 7B model."


class Lap(msgspec.Struct, frozen=True):
    """One judge on one batch: seconds by the clock, tokens it encoded, cases it could not judge."""

    judge: str
    batch: int
    place: int  # whose turn it was: 0 went first
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


async def time_study(
    judges: Mapping[str, Judge],
    cases: Sequence[Case],
    *,
    batch: int = 32,
    rounds: int = 3,
    warm_up: int = 1,
    orders: Orders = "one",
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Time the judges on the cases, `rounds` times over; the first judge is the measure of the others."""
    if not judges or not cases:
        raise UserError("A time study needs at least one judge and one case.")
    batches = [cases[piece.start : piece.stop] for piece in split_by_history(cases, batch)]
    names = list(judges)
    for name in names:
        for _ in range(warm_up):
            await judges[name].judge(batches[0], orders=orders)
    laps: list[Lap] = []
    for turn in range(rounds):
        for number, some in enumerate(batches):
            shift = (turn + number) % len(names)
            for place, name in enumerate(names[shift:] + names[:shift]):
                started = clock()
                told = await judges[name].judge(some, orders=orders)
                seconds = clock() - started
                failures = sum(judgement.failure is not None for judgement in told)
                tokens = sum(judgement.tokens for judgement in told)
                laps.append(Lap(name, turn * len(batches) + number, place, len(some), seconds, tokens, failures))
    return Timing(
        version=__version__,
        cases=len(cases),
        batch=batch,
        rounds=rounds,
        orders=orders,
        paces=paces(names, laps),
        laps=laps,
    )


def paces(names: Sequence[str], laps: Sequence[Lap], *, resamples: int = ROUNDS, seed: int = 0) -> list[Pace]:
    """What the laps come to, judge by judge."""
    count = 1 + max(lap.batch for lap in laps)
    seconds = {name: np.zeros(count) for name in names}
    sizes = np.zeros(count)
    for lap in laps:
        seconds[lap.judge][lap.batch] = lap.seconds
        sizes[lap.batch] = lap.cases
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=resamples)
    first, found = seconds[names[0]], []
    for name in names:
        own = [lap for lap in laps if lap.judge == name]
        each = (drawn @ seconds[name]) / (drawn @ sizes)
        ratio = (drawn @ seconds[name]) / (drawn @ first)
        found.append(
            Pace(
                name,
                _figure(float(seconds[name].sum() / sizes.sum()), each),
                _figure(float(seconds[name].sum() / first.sum()), ratio),
                sum(lap.tokens for lap in own) / float(sizes.sum()),
                sum(lap.failures for lap in own),
            )
        )
    return found


def markdown(timing: Timing) -> str:
    """The study as a table."""
    rows = [
        [
            pace.name,
            _milliseconds(pace.seconds_a_case),
            hundredths(pace.ratio),
            f"{pace.tokens_a_case:,.0f}" if pace.tokens_a_case else "-",
            f"{pace.failures:,}",
        ]
        for pace in timing.paces
    ]
    return "\n".join(
        [
            "# Time of a judgement",
            "",
            f"{timing.cases:,} cases in batches of about {timing.batch}, {timing.rounds} times over, the judges in "
            "turn; by the clock of one machine. Brackets: 95 % intervals over batches.",
            "",
            *grid(("judge", "ms a case", f"time over {timing.paces[0].name}", "tokens a case", "not judged"), rows),
            "",
            PAPER,
            "",
        ]
    )


def draw(timing: Timing, path: Path) -> None:
    """Figure 5b: a bar for each judge."""
    from compeer.reward.evaluation.plot import bars

    rows = []
    for place, pace in enumerate(timing.paces):
        more = f" ({100 * (pace.ratio.value or 0) - 100:+.1f} %)" if place else ""
        rows.append((pace.name, pace.seconds_a_case, f"{pace.seconds_a_case.value:.3g} s{more}"))
    below = f"{timing.cases:,} cases, {timing.rounds} times over"
    bars(path, "Time of a judgement", below, "seconds a case", rows, lambda value: f"{value:g}")


def _figure(value: float, draws: np.ndarray) -> Figure:
    bounds = interval(draws) if len(set(draws.tolist())) > 1 else None
    return Figure(value, *bounds) if bounds else Figure(value)


def _milliseconds(figure: Figure) -> str:
    if figure.value is None or figure.low is None or figure.high is None:
        return "-" if figure.value is None else f"{1000 * figure.value:.2f}"
    return f"{1000 * figure.value:.2f} [{1000 * figure.low:.2f}, {1000 * figure.high:.2f}]"
