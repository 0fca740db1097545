"""The results of an arena: win, tie and loss by pair, a ranking of all models, and whether the sides were fair.

The paper's four outcomes stay apart: one better, both good, neither acceptable, the other better. Shares are of the
votes on a pair. Votes on the same case are not independent (several people, several pairs), so cases are resampled: a
round of the bootstrap takes as many cases as there are, with replacement, and with each case all its votes on all
pairs. Every pair and every model is computed from the same rounds, so differences between them are paired. Where a
share is the same in all rounds the interval is Wilson's, over cases.

The ranking is Bradley-Terry's (`compeer.statistics.ranking`). Both kinds of ties say that the two are level and count
as half a win for either side; "neither" also says that both were poor, which a ranking cannot hold: the bars show it.

The stacked bars of Figure 6 read from left to right: the first model better, both good, neither acceptable, the other
better. The thin marks are the 95 % intervals of the two ends: where the first model's wins may end, and where the
other's may begin. matplotlib draws them as SVG or PNG; the studio's page draws the same `parts` and `marks` by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import select

from compeer.dialogue import write_rows
from compeer.people.arena import models_of
from compeer.people.arena_cases import Case, Reply
from compeer.people.exchange import write_csv
from compeer.people.projects import project_by_number
from compeer.people.store import Store
from compeer.people.tables import (
    NEWEST_ARENA_VOTES,
    annotators,
    arena_cases,
    arena_leases,
    arena_models,
    arena_replies,
    arena_slots,
    arena_votes,
)
from compeer.plotting import ACCENT, INK, WARM, drawing
from compeer.reward.verdict import Choice
from compeer.statistics import ROUNDS, Figure, Floats, Resamples, estimate, quotient, share_figure
from compeer.statistics.ranking import bradley_terry, chess_points, rank_range
from compeer.typed import from_json

Outcome = Literal["one", "both", "neither", "two"]
OUTCOMES: tuple[Outcome, ...] = ("one", "both", "neither", "two")
MIRRORED: dict[Outcome, Outcome] = {"one": "two", "both": "both", "neither": "neither", "two": "one"}
_OUTCOME: dict[Choice, Outcome] = {"first": "one", "second": "two", "both": "both", "neither": "neither"}


class ArenaVote(msgspec.Struct, frozen=True):
    """One vote. `choice` is as it was shown (first is left); `winner` is a model, or both or neither."""

    case: str
    left: str
    right: str
    choice: Choice
    annotator: str = ""
    at: str = ""
    seconds: float | None = None
    note: str = ""

    @property
    def winner(self) -> str:
        return {"first": self.left, "second": self.right}.get(self.choice, self.choice)


class PairOutcome(msgspec.Struct, frozen=True):
    """How one pair came out. `net` is the share of wins less that of losses; above 0, `one` is preferred."""

    one: str
    two: str
    votes: int
    cases: int
    counts: dict[Outcome, int]
    shares: dict[Outcome, Figure]
    net: Figure

    @property
    def parts(self) -> list[BarPart]:
        """The pair as a bar."""
        return bar_parts(self.counts)

    @property
    def marks(self) -> list[tuple[float, float]]:
        """(low, high) of where the wins end and where the losses begin on the bar, as far as they are known."""
        won, lost = self.shares["one"], self.shares["two"]
        ends = [(won.low, won.high)]
        if lost.low is not None and lost.high is not None:
            ends.append((1 - lost.high, 1 - lost.low))
        return [(low, high) for low, high in ends if low is not None and high is not None]


class ModelRank(msgspec.Struct, frozen=True):
    """One model. `rank` is 1 for the strongest; `best` and `worst` its ranks in 95 % of the rounds."""

    model: str
    rank: int
    best: int
    worst: int
    strength: Figure
    points: Figure
    votes: int


class Sides(msgspec.Struct, frozen=True):
    """How often the first model of a pair stood on the left and on the right, among the votes that count."""

    one: str
    two: str
    left: int
    right: int


class ArenaResults(msgspec.Struct, frozen=True):
    """Everything that the votes say. `left_won`: of the votes for one side, the share for the left; near a half."""

    arena: str
    models: list[str]
    focus: str | None
    cases: int
    votes: int
    people: int
    pairs: list[PairOutcome]
    ranking: list[ModelRank]
    sides: list[Sides]
    left_won: Figure
    draws: int = ROUNDS
    seed: int = 0


def results_of(store: Store, number: int, *, draws: int = ROUNDS, seed: int = 0) -> ArenaResults:
    """The results of an arena in the store."""
    about, votes = project_by_number(store, number), counted_votes(store, number)
    return results(about.name, models_of(store, number), votes, focus=about.focus, draws=draws, seed=seed)


def results(
    name: str,
    models: Sequence[str],
    votes: Sequence[ArenaVote],
    *,
    focus: str | None = None,
    draws: int = ROUNDS,
    seed: int = 0,
) -> ArenaResults:
    """The results of votes. With `focus` every pair is seen from that model; else from the stronger one."""
    counted = count_votes(votes, models)
    resamples = Resamples(counted.cases, draws, seed)
    ranked = ranking(counted, counted.resampled(resamples))
    seen = count_votes(votes, list(dict.fromkeys([*([focus] if focus else []), *(one.model for one in ranked)])))
    decided = [vote.choice == "first" for vote in votes if vote.choice in ("first", "second")]
    return ArenaResults(
        arena=name,
        models=list(models),
        focus=focus,
        cases=len(counted.cases),
        votes=len(votes),
        people=len({vote.annotator for vote in votes}),
        pairs=outcomes(seen, seen.resampled(resamples)),
        ranking=ranked,
        sides=_sides(votes, models),
        left_won=share_figure("left_won", decided) if decided else Figure("left_won", 0.5),
        draws=draws,
        seed=seed,
    )


def counted_votes(store: Store, project: int, *, anonymous: bool = False) -> list[ArenaVote]:
    """All votes that count, in the order of the plan; `anonymous`: numbers instead of people's names, and no notes.

    Of each lease that is done, the vote of its newest revision. Votes that were taken back or changed do not count.
    """
    one, two = arena_models.alias(), arena_models.alias()
    query = (
        select(
            arena_cases.c.name.label("case"),
            one.c.name.label("first_model"),
            two.c.name.label("second_model"),
            *arena_votes.c["one_left", "choice", "at", "seconds"],
            arena_leases.c.note,
            annotators.c.name.label("person"),
        )
        .join(arena_leases, NEWEST_ARENA_VOTES)
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
        found.append(ArenaVote(row.case, left, right, row.choice, who, at, row.seconds, note))
    return found


def export_votes(store: Store, project: int, out: Path, *, anonymous: bool = False) -> int:
    """Write all votes that count, as a table where the file is called .csv, else as JSON lines; returns how many."""
    votes = counted_votes(store, project, anonymous=anonymous)
    if out.suffix != ".csv":
        return write_rows(out, votes)
    names = (*ArenaVote.__struct_fields__, "winner")
    return write_csv(out, [names, *([getattr(vote, name) for name in names] for vote in votes)])


class CaseVotes(msgspec.Struct, frozen=True):
    """One case of a pair: the conversation, both replies, and every vote with the note that its person gave."""

    number: int
    case: Case
    one: Reply
    two: Reply
    votes: list[ArenaVote]


def pair_cases(
    store: Store, project: int, one: str, two: str, *, winner: str = "", limit: int = 10, offset: int = 0
) -> list[CaseVotes]:
    """The cases on which two models were compared, with votes and notes; only those where somebody chose `winner`."""
    cast: dict[str, list[ArenaVote]] = {}
    for vote in counted_votes(store, project):
        if {vote.left, vote.right} == {one, two}:
            cast.setdefault(vote.case, []).append(vote)
    wanted = [case for case, votes in cast.items() if not winner or any(vote.winner == winner for vote in votes)]
    wanted = wanted[offset : offset + limit]
    query = (
        select(
            *arena_cases.c["id", "name", "content"],
            arena_models.c.name.label("model"),
            arena_replies.c.content.label("reply"),
        )
        .join(arena_replies, arena_replies.c.case == arena_cases.c.id)
        .join(arena_models, arena_models.c.id == arena_replies.c.model)
        .where(arena_cases.c.project == project, arena_cases.c.name.in_(wanted), arena_models.c.name.in_([one, two]))
    )
    with store.read() as db:
        rows = db.execute(query).all()
    said = {(row.name, row.model): from_json(row.reply, Reply) for row in rows}
    about = {row.name: (row.id, from_json(row.content, Case)) for row in rows}
    return [CaseVotes(*about[case], said[case, one], said[case, two], cast[case]) for case in wanted]


class PairCounts(NamedTuple):
    """Votes as numbers: cases × pairs × the four outcomes. Names in the order of the axes."""

    cases: tuple[str, ...]
    models: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]  # numbers of models
    counts: Floats

    def resampled(self, draws: Resamples) -> Floats:
        """Votes by pair and outcome in every round: rounds × pairs × outcomes."""
        return draws.sums(self.counts, np.ones(len(self.cases), dtype=bool))


def count_votes(votes: Iterable[ArenaVote], models: Sequence[str]) -> PairCounts:
    """Count the votes. `models` gives the order of the models, and with it which of a pair comes first."""
    given = list(votes)
    cases = tuple(dict.fromkeys(vote.case for vote in given))
    place = {name: number for number, name in enumerate(models)}
    row = {name: number for number, name in enumerate(cases)}
    met = ((place[vote.left], place[vote.right]) for vote in given)
    pairs = sorted({(min(pair), max(pair)) for pair in met})
    column = {pair: number for number, pair in enumerate(pairs)}
    counts = np.zeros((len(cases), len(pairs), len(OUTCOMES)))
    for vote in given:
        one, two, outcome = place[vote.left], place[vote.right], _OUTCOME[vote.choice]
        if one > two:  # seen from the other side
            one, two, outcome = two, one, MIRRORED[outcome]
        counts[row[vote.case], column[one, two], OUTCOMES.index(outcome)] += 1
    return PairCounts(cases, tuple(models), tuple(pairs), counts)


def outcomes(counted: PairCounts, drawn: Floats) -> list[PairOutcome]:
    """Shares and intervals of every pair that has votes; `drawn` comes from `PairCounts.resampled`."""
    found = []
    first, last = OUTCOMES.index("one"), OUTCOMES.index("two")
    for number, (one, two) in enumerate(counted.pairs):
        mine = counted.counts[:, number, :]
        totals = mine.sum(axis=0)
        votes, cases = int(totals.sum()), int((mine.sum(axis=1) > 0).sum())
        sums = drawn[:, number, :]
        shares = quotient(sums, np.broadcast_to(sums.sum(axis=1, keepdims=True), sums.shape))
        independent = cases if cases > 1 else None
        found.append(
            PairOutcome(
                counted.models[one],
                counted.models[two],
                votes,
                cases,
                {name: int(totals[place]) for place, name in enumerate(OUTCOMES)},
                {
                    name: estimate(name, float(totals[place]) / votes, shares[:, place], votes, share_of=independent)
                    for place, name in enumerate(OUTCOMES)
                },
                estimate("net", float(totals[first] - totals[last]) / votes, shares[:, first] - shares[:, last], votes),
            )
        )
    return found


def ranking(counted: PairCounts, drawn: Floats) -> list[ModelRank]:
    """All models that were compared, the strongest first."""
    won = wins(counted, counted.counts.sum(axis=0))
    votes = (won + won.T).sum(axis=1)
    here = np.flatnonzero(votes)
    if not len(here):
        return []
    fitted = bradley_terry(won[np.ix_(here, here)])
    rounds = bradley_terry(wins(counted, drawn)[:, here][:, :, here])
    ranges = rank_range(rounds)
    found = []
    for rank, place in enumerate(np.argsort(-fitted, kind="stable"), start=1):
        strength = estimate("strength", float(fitted[place]), rounds[:, place], int(votes[here[place]]))
        best, worst = (int(bound) for bound in ranges[place]) if strength.low is not None else (rank, rank)
        name = counted.models[here[place]]
        found.append(ModelRank(name, rank, best, worst, strength, chess_points(strength), strength.n))
    return found


def wins(counted: PairCounts, sums: Floats) -> Floats:
    """Wins of each model over each other, ties as halves: … × models × models from … × pairs × outcomes."""
    size = len(counted.models)
    found = np.zeros((*sums.shape[:-2], size, size))
    ties = sums[..., OUTCOMES.index("both")] + sums[..., OUTCOMES.index("neither")]
    for number, (one, two) in enumerate(counted.pairs):
        found[..., one, two] = sums[..., number, OUTCOMES.index("one")] + ties[..., number] / 2
        found[..., two, one] = sums[..., number, OUTCOMES.index("two")] + ties[..., number] / 2
    return found


def _sides(votes: Sequence[ArenaVote], models: Sequence[str]) -> list[Sides]:
    seen = Counter((vote.left, vote.right) for vote in votes)
    return [
        Sides(one, two, seen[one, two], seen[two, one])
        for place, one in enumerate(models)
        for two in models[place + 1 :]
        if seen[one, two] or seen[two, one]
    ]


COLOURS: dict[str, str] = {"one": ACCENT, "both": "#A9C7C3", "neither": "#D8D0C4", "two": WARM}
LEGEND: dict[str, str] = {
    "one": "left model better", "both": "both good", "neither": "neither", "two": "right model better",
}  # fmt: skip
_LEAST = 0.05  # of a bar: narrower parts carry no number


class BarPart(msgspec.Struct, frozen=True):
    """One stretch of a bar, in shares of its length."""

    kind: str
    start: float
    width: float
    count: int


def bar_parts(counts: Mapping[Any, int]) -> list[BarPart]:
    """Stretches that fill a bar, in the order of the counts; of no width where there is nothing.

    >>> [(one.kind, one.start, one.width) for one in bar_parts({"agreed": 3, "open": 1})]
    [('agreed', 0.0, 0.75), ('open', 0.75, 0.25)]
    """
    total, parts, start = sum(counts.values()), [], 0.0
    for kind, count in counts.items():
        width = count / total if total else 0.0
        parts.append(BarPart(kind, start, width, count))
        start += width
    return parts


def draw(results: ArenaResults, path: Path) -> None:
    """The figure as a file, .svg or .png."""
    shown = results.pairs
    with drawing(path, 8, 1.4 + 0.5 * len(shown)) as figure:
        axes = figure.subplots()
        for row, pair in enumerate(shown):
            for part in pair.parts:
                label = LEGEND[part.kind] if row == 0 else None
                axes.barh(row, part.width, left=part.start, color=COLOURS[part.kind], height=0.62, label=label)
                if part.width >= _LEAST:
                    ink = "white" if part.kind in ("one", "two") else INK
                    middle = part.start + part.width / 2
                    axes.text(middle, row, f"{100 * part.width:.0f}", ha="center", va="center", color=ink, fontsize=9)
            for (low, high), kind, under in zip(pair.marks, (OUTCOMES[0], OUTCOMES[-1]), (0.36, 0.44), strict=False):
                middle, half, ink = (low + high) / 2, (high - low) / 2, COLOURS[kind]
                axes.errorbar(middle, row + under, xerr=half, color=ink, capsize=2, linewidth=1.2)
            axes.text(1.01, row, pair.two, va="center")
        axes.set_yticks(range(len(shown)), [pair.one for pair in shown])
        axes.set_xlim(0, 1)
        axes.set_xticks([])
        axes.invert_yaxis()
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        if shown:
            figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
        axes.set_xlabel(f"{results.votes} votes on {results.cases} cases; marks: 95 % intervals", fontsize=9)
