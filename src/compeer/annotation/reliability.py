"""Agreement and audit of a project, from its votes.

Agreement is counted on the two first-pass votes only: third votes exist only where the first two disagreed, and would
make everything look worse than it is. Kappa over the whole project takes the two places as its two raters; for each
pair of people it is counted apart, with their table of answers, so that one who reads the guideline differently shows.

The audit asks somebody new about closed items. How often they confirm the label that stands is the ceiling for any
judge on these data; a judge's own agreement with the same labels stands beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from sqlalchemy import select

from compeer.annotation.agreement import Figures, figures, kappa
from compeer.annotation.protocol import Answer, answer_of, answer_text, consensus
from compeer.annotation.store.database import Store
from compeer.annotation.store.tables import annotators, items
from compeer.annotation.tallies import Tally, pivot, tallies
from compeer.cer.item import QUESTIONS, Question
from compeer.dialogue import read_rows
from compeer.reasoning import STEPS
from compeer.reward.judge import Judgement
from compeer.reward.service.wire import Scored
from compeer.reward.verdict import PREFERENCES

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
