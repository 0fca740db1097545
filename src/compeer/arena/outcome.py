"""Win, tie and loss by pair, with paired bootstrap intervals over cases.

The paper's four outcomes stay apart: one better, both good, neither acceptable, the other better. Shares are of the
votes on a pair. Votes on the same case are not independent (several people, several pairs), so cases are what is drawn
again: a resample takes as many cases as there are, with replacement, and with each case all its votes on all pairs.
Because every pair and every model is computed from the same resamples, differences between them are paired. The
intervals are the 2.5th and 97.5th percentiles over the resamples in which the pair has a vote.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from compeer.evals.interval import DRAWS, Figure

Outcome = Literal["one", "both", "neither", "two"]
OUTCOMES: tuple[Outcome, ...] = ("one", "both", "neither", "two")
TURNED: dict[Outcome, Outcome] = {"one": "two", "both": "both", "neither": "neither", "two": "one"}
Counts = npt.NDArray[np.float64]


class Judged(msgspec.Struct, frozen=True):
    """One vote that counts: on which case, between which models, and who won."""

    case: str
    one: str
    two: str
    outcome: Outcome


class PairOutcome(msgspec.Struct, frozen=True):
    """How one pair came out. `net` is the share of wins less that of losses; above 0, `one` is preferred."""

    one: str
    two: str
    votes: int
    cases: int
    counts: dict[Outcome, int]
    shares: dict[Outcome, Figure]
    net: Figure


class Tally(msgspec.Struct, frozen=True):
    """Votes as numbers: cases × pairs × the four outcomes. Names in the order of the axes."""

    cases: tuple[str, ...]
    models: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]  # numbers of models
    counts: Any  # Counts

    def array(self) -> Counts:
        found: Counts = self.counts
        return found


def tally(votes: Iterable[Judged], models: Sequence[str]) -> Tally:
    """Count the votes. `models` gives the order of the models, and with it which of a pair comes first."""
    given = list(votes)
    cases = tuple(dict.fromkeys(vote.case for vote in given))
    place = {name: number for number, name in enumerate(models)}
    row = {name: number for number, name in enumerate(cases)}
    met = ((place[vote.one], place[vote.two]) for vote in given)
    found = sorted({(min(pair), max(pair)) for pair in met})
    column = {pair: number for number, pair in enumerate(found)}
    counts = np.zeros((len(cases), len(found), len(OUTCOMES)))
    for vote in given:
        one, two = place[vote.one], place[vote.two]
        kind = OUTCOMES.index(vote.outcome)
        if one > two:  # seen from the other's side
            one, two, kind = two, one, OUTCOMES.index(TURNED[vote.outcome])
        counts[row[vote.case], column[one, two], kind] += 1
    return Tally(cases, tuple(models), tuple(found), counts)


def resamples(cases: int, *, draws: int = DRAWS, seed: int = 0) -> npt.NDArray[np.int64]:
    """Which cases each resample takes: draws × cases numbers."""
    return np.random.default_rng(seed).integers(0, cases, (draws, cases))


def resampled(counted: Tally, taken: npt.NDArray[np.int64]) -> Counts:
    """Votes by pair and outcome in every resample: draws × pairs × outcomes."""
    draws, cases = taken.shape
    flat = taken + np.arange(draws)[:, None] * cases
    times = np.bincount(flat.ravel(), minlength=draws * cases).reshape(draws, cases)
    sums: Counts = np.tensordot(times.astype(float), counted.array(), axes=1)
    return sums


def outcomes(counted: Tally, drawn: Counts) -> list[PairOutcome]:
    """Shares and intervals of every pair that has votes; `drawn` comes from `resampled`."""
    array, found = counted.array(), []
    for number, (one, two) in enumerate(counted.pairs):
        totals = array[:, number, :].sum(axis=0)
        votes, cases = int(totals.sum()), int((array[:, number, :].sum(axis=1) > 0).sum())
        sums = drawn[:, number, :]
        sums = sums[sums.sum(axis=1) > 0]
        shares = sums / sums.sum(axis=1, keepdims=True)
        first, last = OUTCOMES.index("one"), OUTCOMES.index("two")
        net = totals[first] - totals[last]
        found.append(
            PairOutcome(
                counted.models[one],
                counted.models[two],
                votes,
                cases,
                {name: int(totals[place]) for place, name in enumerate(OUTCOMES)},
                {
                    name: interval(name, totals[place] / votes, shares[:, place], votes, cases)
                    for place, name in enumerate(OUTCOMES)
                },
                interval("net", float(net / votes), shares[:, first] - shares[:, last], votes, cases),
            )
        )
    return found


def interval(name: str, value: float, values: npt.NDArray[Any], votes: int, cases: int) -> Figure:
    """A number with the middle 95 % of its resamples; without an interval where one case stands behind it."""
    if cases < 2 or not len(values):
        return Figure(name, float(value), n=votes)
    low, high = np.percentile(values, [2.5, 97.5])
    return Figure(name, float(value), float(low), float(high), votes)


def seen_from(pair: PairOutcome, model: str) -> PairOutcome:
    """The same pair with this model first."""
    if pair.one == model:
        return pair
    low, high = pair.net.low, pair.net.high
    net = Figure("net", -pair.net.value, None if high is None else -high, None if low is None else -low, pair.net.n)
    shares = {name: msgspec.structs.replace(pair.shares[TURNED[name]], name=name) for name in OUTCOMES}
    counts = {name: pair.counts[TURNED[name]] for name in OUTCOMES}
    return PairOutcome(pair.two, pair.one, pair.votes, pair.cases, counts, shares, net)
