"""Win, tie and loss by pair, with paired bootstrap intervals over cases.

The paper's four outcomes stay apart: one better, both good, neither acceptable, the other better. Shares are of the
votes on a pair. Votes on the same case are not independent (several people, several pairs), so cases are what is drawn
again: a resample takes as many cases as there are, with replacement, and with each case all its votes on all pairs.
Because every pair and every model is computed from the same resamples, differences between them are paired. The
intervals are the 2.5th and 97.5th percentiles over the resamples in which the pair has a vote.

The votes that count, read back with names: for the results and for an export.

Of each lease that is done, the vote of its newest revision. Votes that were taken back or changed stay in the store
and do not count.

A ranking of all models by Bradley-Terry, with intervals from the resamples of `outcome`.

Each model has a strength s; that i is preferred to j has probability 1 / (1 + exp(s_j - s_i)). Ties: "both good" and
"neither acceptable" say that the two are level, so each counts as half a win for either side. (Davidson's model gives
ties a parameter of their own; with half wins the strengths keep the plain reading above, and the shares of the two
kinds of ties are shown beside them.) "Neither" also says that both were poor, which no ranking between them can hold:
it stands in the bars.

A model that won or lost everything would have an infinite strength, and in a small resample that happens. So the
log-likelihood carries a ridge of RIDGE/2 times the squared strengths, worth far less than one vote; it also makes
the strengths sum to zero. This is logistic regression without an intercept, fitted here by Newton's method for all
resamples at once. Strengths are also given as points, 400 for a tenfold in odds around 1000, as in chess.

The results of an arena as they stand now: outcomes by pair, the ranking, and whether the sides were fair.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt
from sqlalchemy import select

from compeer.people.arena_project import arena, models_of
from compeer.people.store import Store
from compeer.people.store.tables import annotators, arena_cases, arena_leases, arena_models, arena_slots, arena_votes
from compeer.reward.verdict import Choice
from compeer.statistics import ROUNDS, Figure, share_figure

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


def resamples(cases: int, *, draws: int = ROUNDS, seed: int = 0) -> npt.NDArray[np.int64]:
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
    net = pair.net.scaled(-1)
    shares = {name: msgspec.structs.replace(pair.shares[TURNED[name]], name=name) for name in OUTCOMES}
    counts = {name: pair.counts[TURNED[name]] for name in OUTCOMES}
    return PairOutcome(pair.two, pair.one, pair.votes, pair.cases, counts, shares, net)


class Ballot(msgspec.Struct, frozen=True):
    """One vote. `choice` is as it was shown (first is left); `winner` is a model, or both or neither."""

    case: str
    left: str
    right: str
    choice: Choice
    annotator: str
    at: str
    seconds: float | None
    note: str = ""

    @property
    def winner(self) -> str:
        return {"first": self.left, "second": self.right}.get(self.choice, self.choice)


def ballots(store: Store, project: int, *, anonymous: bool = False) -> list[Ballot]:
    """All votes that count, in the order of the plan; `anonymous`: numbers instead of people's names, and no notes."""
    one, two = arena_models.alias(), arena_models.alias()
    query = (
        select(
            arena_cases.c.name.label("case"),
            one.c.name.label("first_model"),
            two.c.name.label("second_model"),
            arena_votes.c.one_left,
            arena_votes.c.choice,
            arena_votes.c.at,
            arena_votes.c.seconds,
            arena_leases.c.note,
            annotators.c.name.label("person"),
        )
        .join(
            arena_leases,
            (arena_votes.c.lease == arena_leases.c.id) & (arena_votes.c.revision == arena_leases.c.revision),
        )
        .join(arena_slots, arena_slots.c.id == arena_leases.c.slot)
        .join(arena_cases, arena_cases.c.id == arena_slots.c.case)
        .join(one, one.c.id == arena_slots.c.one)
        .join(two, two.c.id == arena_slots.c.two)
        .join(annotators, annotators.c.id == arena_leases.c.annotator)
        .where(arena_slots.c.project == project, arena_leases.c.state == "done")
        .order_by(arena_slots.c.position)
    )
    with store.read() as db:
        rows = db.execute(query).all()
    numbers = {name: f"person {n}" for n, name in enumerate(sorted({row.person for row in rows}), start=1)}
    found = []
    for row in rows:
        models = (row.first_model, row.second_model)
        left, right = models if row.one_left else models[::-1]
        at = datetime.fromtimestamp(row.at, UTC).isoformat(timespec="seconds")
        who, note = (numbers[row.person], "") if anonymous else (row.person, row.note)
        found.append(Ballot(row.case, left, right, row.choice, who, at, row.seconds, note))
    return found


def judged(ballot: Ballot) -> Judged:
    """The vote by models instead of by sides.

    >>> judged(Ballot("c", "a", "b", "second", "Anna", "", None))
    Judged(case='c', one='a', two='b', outcome='two')
    """
    outcome: dict[Choice, Outcome] = {"first": "one", "second": "two", "both": "both", "neither": "neither"}
    return Judged(ballot.case, ballot.left, ballot.right, outcome[ballot.choice])


RIDGE = 0.01
POINTS = 400 / math.log(10)
_STEPS = 100
_ENOUGH = 1e-10


class Ranked(msgspec.Struct, frozen=True):
    """One model. `rank` is 1 for the strongest; `best` and `worst` its ranks in 95 % of the resamples."""

    model: str
    rank: int
    best: int
    worst: int
    strength: Figure
    points: Figure
    votes: int


def wins(counted: Tally, sums: Counts) -> Counts:
    """Wins of each model over each other, ties as halves: … × models × models from … × pairs × outcomes."""
    size = len(counted.models)
    found = np.zeros((*sums.shape[:-2], size, size))
    ties = sums[..., OUTCOMES.index("both")] + sums[..., OUTCOMES.index("neither")]
    for number, (one, two) in enumerate(counted.pairs):
        found[..., one, two] = sums[..., number, OUTCOMES.index("one")] + ties[..., number] / 2
        found[..., two, one] = sums[..., number, OUTCOMES.index("two")] + ties[..., number] / 2
    return found


def strengths(won: Counts, ridge: float = RIDGE) -> Counts:
    """Strengths that fit a matrix of wins best, or a stack of matrices; they sum to zero.

    >>> import numpy as np
    >>> won = np.array([[0.0, 3.0], [1.0, 0.0]])   # three of four: odds 3, so the difference is near log 3 = 1.0986
    >>> [round(float(one), 3) for one in strengths(won, ridge=1e-9)]
    [0.549, -0.549]
    """
    size = won.shape[-1]
    met = won + np.swapaxes(won, -1, -2)
    now = np.zeros(won.shape[:-1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(now[..., None, :] - now[..., :, None]))  # that the row beats the column
        slope = (won - met * chance).sum(axis=-1) - ridge * now
        bend = met * chance * (1 - chance)
        steep = -bend
        steep[..., np.arange(size), np.arange(size)] += bend.sum(axis=-1) + ridge
        step = np.linalg.solve(steep, slope[..., None])[..., 0]
        step = np.clip(step, -2.0, 2.0)  # far from the answer the full step may overshoot
        now = now + step
        if np.abs(step).max() < _ENOUGH:
            break
    found: Counts = now - now.mean(axis=-1, keepdims=True)
    return found


def ranking(counted: Tally, drawn: Counts) -> list[Ranked]:
    """All models that were compared, the strongest first."""
    sums = counted.array().sum(axis=0)
    won = wins(counted, sums)
    votes = (won + won.T).sum(axis=1)
    here = np.flatnonzero(votes)
    if not len(here):
        return []
    fitted = strengths(won[np.ix_(here, here)])
    each = strengths(wins(counted, drawn)[:, here][:, :, here])
    ranks = _ranks(each)
    order = np.argsort(-fitted, kind="stable")
    found = []
    for rank, place in enumerate(order, start=1):
        strength = interval("strength", fitted[place], each[:, place], int(votes[here[place]]), len(counted.cases))
        best = worst = rank
        if strength.low is not None:
            best, worst = map(int, np.percentile(ranks[:, place], [2.5, 97.5], method="nearest"))
        name = counted.models[here[place]]
        found.append(Ranked(name, rank, best, worst, strength, points(strength), strength.n))
    return found


def points(strength: Figure) -> Figure:
    """A strength on the scale of chess."""
    return strength.scaled(POINTS, 1000.0, "points")


def _ranks(each: Counts) -> npt.NDArray[np.int64]:
    """1 for the strongest in each row."""
    order = np.argsort(-each, axis=1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(1, each.shape[1] + 1)[None, :].repeat(len(each), axis=0), axis=1)
    return found


class Sides(msgspec.Struct, frozen=True):
    """How often the first model of a pair stood on the left and on the right, among the votes that count."""

    one: str
    two: str
    left: int
    right: int


class Results(msgspec.Struct, frozen=True):
    """Everything that the votes say. `left_won`: of the votes for one side, the share for the left; near a half."""

    arena: str
    models: list[str]
    focus: str | None
    cases: int
    votes: int
    people: int
    pairs: list[PairOutcome]
    ranking: list[Ranked]
    sides: list[Sides]
    left_won: Figure
    draws: int = ROUNDS
    seed: int = 0


def results_of(store: Store, number: int, *, draws: int = ROUNDS, seed: int = 0) -> Results:
    """The results of an arena in the store."""
    about = arena(store, number)
    given = ballots(store, number)
    return results(about.name, models_of(store, number), given, focus=about.focus, draws=draws, seed=seed)


def results(
    name: str,
    models: Sequence[str],
    given: Sequence[Ballot],
    *,
    focus: str | None = None,
    draws: int = ROUNDS,
    seed: int = 0,
) -> Results:
    """The results of votes. With `focus` every pair is seen from that model; else from the stronger one."""
    counted = tally((judged(ballot) for ballot in given), models)
    pairs: list[PairOutcome] = []
    ranked: list[Ranked] = []
    if given:
        drawn = resampled(counted, resamples(len(counted.cases), draws=draws, seed=seed))
        pairs, ranked = outcomes(counted, drawn), ranking(counted, drawn)
    rank = {one.model: one.rank for one in ranked}
    pairs = [seen_from(pair, _first(pair, rank, focus)) for pair in pairs]
    pairs.sort(key=lambda pair: (rank[pair.one], rank[pair.two]))
    decided = [float(ballot.choice == "first") for ballot in given if ballot.choice in ("first", "second")]
    return Results(
        arena=name,
        models=list(models),
        focus=focus,
        cases=len(counted.cases),
        votes=len(given),
        people=len({ballot.annotator for ballot in given}),
        pairs=pairs,
        ranking=ranked,
        sides=_sides(given, models),
        left_won=share_figure("left_won", decided) if decided else Figure("left_won", 0.5),
        draws=draws,
        seed=seed,
    )


def _first(pair: PairOutcome, rank: dict[str, int], focus: str | None) -> str:
    if focus in (pair.one, pair.two) and focus is not None:
        return focus
    return min(pair.one, pair.two, key=lambda model: rank[model])


def _sides(given: Sequence[Ballot], models: Sequence[str]) -> list[Sides]:
    seen = Counter((ballot.left, ballot.right) for ballot in given)
    return [
        Sides(one, two, seen[one, two], seen[two, one])
        for place, one in enumerate(models)
        for two in models[place + 1 :]
        if seen[one, two] or seen[two, one]
    ]
