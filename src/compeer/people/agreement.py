"""How far people agree: percent, Cohen's kappa, nominal Krippendorff's alpha, Gwet's AC1.

All four say which share of the votes is equal; the last three correct it for chance, each with its own idea of chance:

- kappa: each rater draws from their own distribution of answers. About 77 % True on every question makes that chance
  high and kappa low, though people agree; that is why it never stands alone here.
- alpha: everybody draws from the one distribution of all answers, corrected for few units; any number of raters, and
  missing votes.
- AC1: only the hard cases are guessed, and there are the fewer of them the more lopsided the answers are.

A coefficient that does not exist is NaN: nothing to compare, or chance alone already explains everything (everybody
always gave the same answer, so that kappa and alpha divide nought by nought).

Ratings are given by unit: for each item the answers it got, two or more; or as a counter of such units, when the same
answers were given to many items. Units with fewer than two ratings are left out where nothing can be compared.

The valid votes of a whole project, counted by the database.

A row of the pivot is one question of one item that both first-pass people have answered, with the answers of the two,
of the third, and of the audit. Ten thousand items come down to some dozens of distinct rows with counts, so progress
and agreement are computed from the votes at every look, and are quick nonetheless.

Agreement and audit of a project, from its votes.

Agreement is counted on the two first-pass votes only: third votes exist only where the first two disagreed, and would
make everything look worse than it is. Kappa over the whole project takes the two places as its two raters; for each
pair of people it is counted apart, with their table of answers, so that one who reads the guideline differently shows.

The audit asks somebody new about closed items. How often they confirm the label that stands is the ceiling for any
judge on these data; a judge's own agreement with the same labels stands beside it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, func, select

from compeer.cer.item import QUESTIONS, Question
from compeer.dialogue import read_rows
from compeer.people.protocol import Answer, Consensus, answer_of, answer_text, consensus
from compeer.people.store.database import Store
from compeer.people.store.tables import annotators, items, leases, votes
from compeer.reasoning import STEPS
from compeer.reward.judge import Judgement
from compeer.reward.verdict import PREFERENCES
from compeer.reward.wire import Scored

Units = Iterable[Sequence[Hashable]] | Mapping[tuple[Any, ...], int]


class Figures(msgspec.Struct, frozen=True):
    """Agreement on one question. `values` counts every answer; `units` is how many items had two."""

    units: int
    percent: float
    kappa: float
    alpha: float
    ac1: float
    values: dict[str, int]


def figures(pairs: Units, values: Sequence[Hashable]) -> Figures:
    """All figures on pairs of first-pass votes; `values` are the answers that could be given."""
    given = _counted(pairs)
    counted: Counter[Hashable] = Counter()
    for pair, count in given.items():
        for value in pair:
            counted[value] += count
    return Figures(
        units=given.total(),
        percent=percent(given),
        kappa=kappa(given),
        alpha=alpha(given),
        ac1=ac1(given, categories=len(values)),
        values={_name(value): counted[value] for value in values},
    )


def percent(units: Units) -> float:
    """The share of equal pairs of ratings, averaged over units, from 0 to 1.

    >>> percent([(1, 1), (1, 2)]), percent({(1, 1): 3, (1, 2): 1})
    (0.5, 0.75)
    """
    usable = {unit: count for unit, count in _counted(units).items() if len(unit) > 1}
    total = sum(usable.values())
    return math.fsum(count * _equal_pairs(unit) for unit, count in usable.items()) / total if total else math.nan


def kappa(pairs: Units) -> float:
    """Cohen (1960), for two raters: (observed - chance) / (1 - chance), chance from each rater's own distribution.

    >>> kappa([(1, 1), (1, 1), (2, 2), (1, 2)])
    0.5
    """
    given = _counted(pairs)
    n = given.total()
    if n == 0:
        return math.nan
    left: Counter[Hashable] = Counter()
    right: Counter[Hashable] = Counter()
    for (one, other), count in given.items():
        left[one] += count
        right[other] += count
    chance = sum(left[value] * right[value] for value in left) / n**2
    return _corrected(sum(count for (one, other), count in given.items() if one == other) / n, chance)


def alpha(units: Units) -> float:
    """Krippendorff's alpha for nominal data: 1 - observed / expected disagreement, over all pairable ratings.

    >>> round(alpha([(0, 1), (1, 1), (0, 1), (0, 0), (0, 0), (0, 1), (0, 0), (0, 0), (1, 0), (0, 0)]), 3)
    0.095
    """
    usable = {unit: count for unit, count in _counted(units).items() if len(unit) > 1}
    totals: Counter[Hashable] = Counter()
    for unit, count in usable.items():
        for value in unit:
            totals[value] += count
    n = totals.total()
    if n == 0:
        return math.nan
    # a unit with m ratings gives m (m - 1) ordered pairs, each weighing 1 / (m - 1)
    observed = math.fsum(count * len(unit) * (1 - _equal_pairs(unit)) for unit, count in usable.items())
    expected = (n**2 - sum(count**2 for count in totals.values())) / (n - 1)
    return 1 - observed / expected if expected else math.nan


def ac1(units: Units, categories: int | None = None) -> float:
    """Gwet (2008): chance is the sum of p (1 - p) over the categories, divided by their number less one.

    `categories` is how many answers could be given (default: how many occur). Units with one rating take part in the
    distribution of answers, as in Gwet's treatment of missing ratings.

    >>> round(ac1({(1, 1): 118, (1, 0): 5, (0, 1): 2}), 4)
    0.9408
    """
    rated = Counter({unit: count for unit, count in _counted(units).items() if unit})
    shares: dict[Hashable, float] = {}
    for unit, count in rated.items():
        for value in unit:
            shares[value] = shares.get(value, 0.0) + count / len(unit) / rated.total()
    q = max(categories or 0, len(shares))
    if q < 2 or not shares:
        return math.nan
    chance = math.fsum(share * (1 - share) for share in shares.values()) / (q - 1)
    return _corrected(percent(rated), chance)


def _counted(units: Units) -> Counter[tuple[Any, ...]]:
    return Counter(units) if isinstance(units, Mapping) else Counter(tuple(unit) for unit in units)


def _equal_pairs(unit: Sequence[Hashable]) -> float:
    m = len(unit)
    return sum(count * (count - 1) for count in Counter(unit).values()) / (m * (m - 1))


def _corrected(observed: float, chance: float) -> float:
    return (observed - chance) / (1 - chance) if chance < 1 else math.nan


def _name(value: Hashable) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Tally(msgspec.Struct, frozen=True):
    """So many items on which these answers were given to this question; None where a place is empty."""

    question: Question
    first: Answer
    second: Answer
    third: Answer | None
    audit: Answer | None
    count: int
    people: tuple[int, int] = (0, 0)  # the two of the first pass, by number, where asked for

    @property
    def verdict(self) -> Consensus:
        return consensus([vote for vote in (self.first, self.second, self.third) if vote is not None])


def tallies(db: Connection, project: int, *, people: bool = False, question: Question | None = None) -> list[Tally]:
    """Counts of the pivot, with `people` for each pair of annotators apart; of one question, or of all."""
    rows = pivot(project)
    if question is not None:
        rows = rows.where(rows.selected_columns["question"] == question)
    left_out = {"item"} if people else {"item", "a1", "a2"}
    by = [column for column in rows.selected_columns if column.name not in left_out]
    return [
        _tally(row, people) for row in db.execute(rows.with_only_columns(*by, func.count().label("n")).group_by(*by))
    ]


def pivot(project: int) -> Select[Any]:
    """One row an item and question with both first votes: answers p1 to p4, and who gave the first two, a1 and a2."""
    seat = [leases.alias(f"lease{place}") for place in (1, 2, 3, 4)]
    vote = [votes.alias(f"vote{place}") for place in (1, 2, 3, 4)]

    def sits(n: int) -> Any:
        return (seat[n].c.item == items.c.id) & (seat[n].c.place == n + 1) & (seat[n].c.state == "done")

    def says(n: int) -> Any:
        same = (vote[n].c.lease == seat[n].c.id) & (vote[n].c.revision == seat[n].c.revision)
        return same if n == 0 else same & (vote[n].c.question == vote[0].c.question)

    tables: Any = items.join(seat[0], sits(0)).join(seat[1], sits(1)).join(vote[0], says(0)).join(vote[1], says(1))
    for n in (2, 3):
        tables = tables.outerjoin(seat[n], sits(n)).outerjoin(vote[n], says(n))
    return (
        select(
            items.c.id.label("item"),
            vote[0].c.question.label("question"),
            *(vote[n].c.answer.label(f"p{n + 1}") for n in range(4)),
            *(seat[n].c.annotator.label(f"a{n + 1}") for n in range(2)),
        )
        .select_from(tables)
        .where(items.c.project == project)
    )


def _tally(row: Any, people: bool) -> Tally:
    third, audit = (None if text is None else answer_of(row.question, text) for text in (row.p3, row.p4))
    first, second = answer_of(row.question, row.p1), answer_of(row.question, row.p2)
    return Tally(row.question, first, second, third, audit, row.n, (row.a1, row.a2) if people else (0, 0))


VALUES: dict[Question, tuple[Answer, ...]] = {
    "history": (True, False), "emotion": (True, False), "strategy": (True, False), "preference": PREFERENCES,
}  # fmt: skip


class Pair(msgspec.Struct, frozen=True):
    """Two people on one question: `table[i][j]` counts answer i of the first beside answer j of the second."""

    question: Question
    people: tuple[str, str]
    items: int
    percent: float
    kappa: float
    values: list[str]
    table: list[list[int]]


class Agreement(msgspec.Struct, frozen=True):
    """First-pass agreement of a project. `labels` counts what the votes came to."""

    questions: dict[Question, Figures]
    labels: dict[Question, dict[str, int]]
    pairs: list[Pair]


class Overview(msgspec.Struct, frozen=True):
    """What a page shows first: agreement without the pairs of people, and the audit without a judge."""

    questions: dict[Question, Figures]
    labels: dict[Question, dict[str, int]]
    audits: dict[Question, Confirmed]


class Confirmed(msgspec.Struct, frozen=True):
    """On one question: audited items with a label, how many the auditor confirms, and the judge, if one was given."""

    audited: int
    confirmed: int
    judged: int | None = None  # of the audited items, those with a verdict
    judge_agrees: int | None = None
    judged_all: int | None = None  # of all items with a label
    judge_agrees_all: int | None = None


def agreement(store: Store, project: int) -> Agreement:
    """All figures, from the votes as they are now."""
    with store.read() as db:
        found = tallies(db, project, people=True)
        query = select(annotators.c.id, annotators.c.name).where(annotators.c.project == project)
        names: dict[int, str] = {row.id: row.name for row in db.execute(query)}
    questions = {name: figures(_pairs(found, name), VALUES[name]) for name in QUESTIONS}
    return Agreement(questions, {name: _labels(found, name) for name in QUESTIONS}, _between(found, names))


def overview(store: Store, project: int) -> Overview:
    """The figures without regard to who voted, from one look at the votes."""
    with store.read() as db:
        found = tallies(db, project)
    questions = {name: figures(_pairs(found, name), VALUES[name]) for name in QUESTIONS}
    labels = {name: _labels(found, name) for name in QUESTIONS}
    return Overview(questions, labels, {name: _confirmed(found, name) for name in QUESTIONS})


def between(store: Store, project: int, question: Question) -> list[Pair]:
    """How every two people answered one question."""
    with store.read() as db:
        found = tallies(db, project, people=True, question=question)
        query = select(annotators.c.id, annotators.c.name).where(annotators.c.project == project)
        names: dict[int, str] = {row.id: row.name for row in db.execute(query)}
    return _between(found, names)


def audit(store: Store, project: int, judgements: Mapping[str, Judgement] | None = None) -> dict[Question, Confirmed]:
    """How often auditors, and a judge, agree with the labels that stand. Questions without a label take no part."""
    counts: dict[Question, Counter[str]] = {name: Counter() for name in QUESTIONS}
    rows = pivot(project).add_columns(items.c.name).subquery()
    with store.read() as db:
        query = select(rows) if judgements is not None else select(rows).where(rows.c.p4.is_not(None))
        for row in db.execute(query):
            votes = [answer_of(row.question, text) for text in (row.p1, row.p2, row.p3) if text is not None]
            label, count = consensus(votes).value, counts[row.question]
            if label is None:
                continue
            said = _said(judgements.get(row.name), row.question) if judgements else None
            count["judged_all"] += said is not None
            count["judge_agrees_all"] += said == label
            if row.p4 is not None:
                count["audited"] += 1
                count["confirmed"] += answer_of(row.question, row.p4) == label
                count["judged"] += said is not None
                count["judge_agrees"] += said == label
    names = Confirmed.__struct_fields__ if judgements is not None else ("audited", "confirmed")
    return {question: Confirmed(**{name: count[name] for name in names}) for question, count in counts.items()}


def read_judgements(path: str | Path) -> dict[str, Judgement]:
    """What `compeer reward score` wrote, by item."""
    return {row.id: row.judgement for row in read_rows(path, Scored)}


def _said(judgement: Judgement | None, question: Question) -> Answer | None:
    if judgement is None:
        return None
    return judgement.preference if question == "preference" else judgement.steps[STEPS.index(question)].value


def _pairs(found: Iterable[Tally], question: Question) -> Counter[tuple[Answer, Answer]]:
    counts: Counter[tuple[Answer, Answer]] = Counter()
    for one in found:
        if one.question == question:
            counts[one.first, one.second] += one.count
    return counts


def _labels(found: Iterable[Tally], question: Question) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in found:
        if one.question == question and (label := one.verdict.value) is not None:
            counts[answer_text(label)] += one.count
    return {answer_text(value): counts[answer_text(value)] for value in VALUES[question]}


def _confirmed(found: Iterable[Tally], question: Question) -> Confirmed:
    seen = [one for one in found if one.question == question and one.audit is not None]
    labelled = [one for one in seen if one.verdict.value is not None]
    confirmed = sum(one.count for one in labelled if one.audit == one.verdict.value)
    return Confirmed(sum(one.count for one in labelled), confirmed)


def _between(found: Iterable[Tally], names: Mapping[int, str]) -> list[Pair]:
    """The tables of every two people, the same way round whoever came first to an item."""
    tables: dict[tuple[Question, str, str], Counter[tuple[Answer, Answer]]] = {}
    for one in found:
        left, right = (
            (names[number], answer) for number, answer in zip(one.people, (one.first, one.second), strict=True)
        )
        (a, first), (b, second) = sorted((left, right), key=lambda pair: pair[0])
        tables.setdefault((one.question, a, b), Counter())[first, second] += one.count
    pairs = []
    for (question, a, b), table in sorted(
        tables.items(), key=lambda entry: (QUESTIONS.index(entry[0][0]), *entry[0][1:])
    ):
        values = VALUES[question]
        equal = sum(table[value, value] for value in values)
        pairs.append(
            Pair(
                question=question,
                people=(a, b),
                items=table.total(),
                percent=equal / table.total(),
                kappa=kappa(table),
                values=[answer_text(value) for value in values],
                table=[[table[one, other] for other in values] for one in values],
            )
        )
    return pairs
