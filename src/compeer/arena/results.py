"""The results of an arena as they stand now: outcomes by pair, the ranking, and whether the sides were fair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from compeer.annotation.store import Store
from compeer.arena.ballots import Ballot, ballots, judged
from compeer.arena.outcome import PairOutcome, outcomes, resampled, resamples, seen_from, tally
from compeer.arena.project import arena, models_of
from compeer.arena.ranking import Ranked, ranking
from compeer.evals.interval import DRAWS, Figure, mean_figure


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
    draws: int = DRAWS
    seed: int = 0


def results_of(store: Store, number: int, *, draws: int = DRAWS, seed: int = 0) -> Results:
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
    draws: int = DRAWS,
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
        left_won=mean_figure("left_won", decided, seed) if decided else Figure("left_won", 0.5),
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
