"""Progress, agreement, audit and disagreements of a labelling project, and its votes read back item by item.

The database counts: a row of `pivot` is one question of one item that both first-pass people have answered, with the
answers of the two, of the third, and of the audit. Ten thousand items come down to some dozens of distinct rows with
counts, so everything is computed anew whenever it is asked for.

Agreement is counted on the two first-pass votes only: third votes exist only where the first two disagreed, and would
make agreement look worse than it is. An item on which one of the two is unsure is left out of that question's
coefficients and counted beside them. Shares have Wilson's 95 % interval, coefficients that of a bootstrap over items.
Kappa over the whole project takes the two places as its two raters; for each pair of people it is counted apart, with
their table of answers, so that somebody who reads the guideline differently shows.

The audit asks somebody new about closed items. How often they confirm the label is the ceiling for any judge on these
data; a judge's own agreement with the same labels stands beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import numpy as np
from sqlalchemy import ColumnElement, Connection, Row, Select, case, func, or_, select

from compeer.cer.exchange import Consensus, Status
from compeer.cer.item import QUESTIONS, Item, Question, Vote
from compeer.dialogue import read_rows
from compeer.people.guideline import own_questions
from compeer.people.invitations import people_of
from compeer.people.labelling import STAGES, UNTOUCHED, LabellingQueue, questions_of
from compeer.people.projects import project_by_number
from compeer.people.protocol import (
    STATUSES,
    UNSURE,
    Answer,
    Ballot,
    Pass,
    answer_of,
    answer_text,
    decide,
    verdicts,
)
from compeer.people.store import Store
from compeer.people.tables import annotators, audit_draws, items, leases, refusals, skips, votes
from compeer.people.work_queue import PersonProgress
from compeer.reasoning import STEPS
from compeer.reward.judge import Judgement, Scored
from compeer.reward.verdict import PREFERENCES
from compeer.statistics import ROUNDS, Figure, estimate, share_figure
from compeer.statistics.agreement import ac1, alpha, kappa, percent_agreement
from compeer.typed import from_json

_ITEMS_AT_ONCE = 400
#: the answers that can be given
VALUES: dict[Question, tuple[Answer, ...]] = {
    "history": (True, False), "emotion": (True, False), "strategy": (True, False), "preference": PREFERENCES,
}  # fmt: skip


def answer_values(store: Store, project: int) -> dict[Question, tuple[Answer, ...]]:
    """The answers to every question of a project: the paper's, and those of its own, which are handled alike."""
    own = {one.id: one.values for one in own_questions(store, project)}
    return cast("dict[Question, tuple[Answer, ...]]", {**VALUES, **own})


class AnswerCount(msgspec.Struct, frozen=True):
    """On `count` items these answers were given to this question; None where a place is empty."""

    question: Question
    first: Answer
    second: Answer
    third: Answer | None
    count: int
    people: tuple[int, int] = (0, 0)  # the two of the first pass, by number, where asked for

    @property
    def verdict(self) -> Consensus:
        return decide((self.first, self.second), self.third)


def count_answers(
    db: Connection, project: int, *, people: bool = False, question: Question | None = None
) -> list[AnswerCount]:
    """Counts of the pivot, with `people` for each pair of annotators apart; of one question, or of all."""
    rows = pivot(project)
    if question is not None:
        rows = rows.where(rows.selected_columns["question"] == question)
    left_out = {"item", "p4"} if people else {"item", "p4", "a1", "a2"}
    by = [column for column in rows.selected_columns if column.name not in left_out]
    found = []
    for row in db.execute(rows.with_only_columns(*by, func.count().label("n")).group_by(*by)):
        first, second = answer_of(row.question, row.p1), answer_of(row.question, row.p2)
        third = None if row.p3 is None else answer_of(row.question, row.p3)
        both = (row.a1, row.a2) if people else (0, 0)
        found.append(AnswerCount(row.question, first, second, third, row.n, both))
    return found


def pivot(project: int) -> Select[Any]:
    """One row per item and question with both first votes: answers p1 to p4, and who gave the first two, a1 and a2."""
    lease = [leases.alias(f"lease{place}") for place in (1, 2, 3, 4)]
    vote = [votes.alias(f"vote{place}") for place in (1, 2, 3, 4)]

    def at_place(n: int) -> Any:
        return (lease[n].c.item == items.c.id) & (lease[n].c.place == n + 1) & (lease[n].c.state == "done")

    def counts(n: int) -> Any:
        newest = (vote[n].c.lease == lease[n].c.id) & (vote[n].c.revision == lease[n].c.revision)
        return newest if n == 0 else newest & (vote[n].c.question == vote[0].c.question)

    joined: Any = items.join(lease[0], at_place(0)).join(lease[1], at_place(1))
    joined = joined.join(vote[0], counts(0)).join(vote[1], counts(1))
    for n in (2, 3):
        joined = joined.outerjoin(lease[n], at_place(n)).outerjoin(vote[n], counts(n))
    return (
        select(
            items.c.id.label("item"),
            vote[0].c.question.label("question"),
            *(vote[n].c.answer.label(f"p{n + 1}") for n in range(4)),
            *(lease[n].c.annotator.label(f"a{n + 1}") for n in range(2)),
        )
        .select_from(joined)
        .where(items.c.project == project)
    )


class LabellingProgress(msgspec.Struct, frozen=True):
    """A project at one moment. `questions` counts items by question and status; items nobody has voted on are open."""

    project: str
    items: int
    untouched: int
    begun: int  # first-pass votes are missing
    disputed: int  # waiting for a third vote
    closed: int
    questions: dict[Question, dict[Status, int]]
    audited: int
    audit_drawn: int
    people: list[PersonProgress]
    refusals: int
    withheld: int = 0  # items that wait for a decision about somebody's labels


def labelling_progress(store: Store, project: int) -> LabellingProgress:
    """The whole project, counted now."""
    name = project_by_number(store, project).name
    with store.read() as db:
        stages: dict[str, int] = dict.fromkeys(("untouched", "first", "third", "closed"), 0)
        stage = case((items.c.rank == UNTOUCHED, "untouched"), else_=items.c.stage)
        for at, count in db.execute(select(stage, func.count()).where(_labelled(project)).group_by(stage)):
            stages[at] = count
        done = (leases.c.item == items.c.id) & (leases.c.place == 4) & (leases.c.state == "done")
        audit = audit_draws.join(items).outerjoin(leases, done)
        drawn, audited = db.execute(
            select(func.count(), func.count(leases.c.id)).select_from(audit).where(items.c.project == project)
        ).one()
        refused = select(func.count()).select_from(refusals).where(refusals.c.project == project)
        withheld = select(func.count(leases.c.item.distinct())).select_from(leases.join(items))
        withheld = withheld.where(_labelled(project), leases.c.state == "withheld")
        return LabellingProgress(
            project=name,
            items=sum(stages.values()),
            untouched=stages["untouched"],
            begun=stages["first"],
            disputed=stages["third"],
            closed=stages["closed"],
            questions=_statuses(db, project),
            audited=audited,
            audit_drawn=drawn,
            people=LabellingQueue(store).people_progress(db, project),
            refusals=db.execute(refused).scalar_one(),
            withheld=db.execute(withheld).scalar_one(),
        )


def _labelled(project: int) -> ColumnElement[bool]:
    """The items of a project that get labels: not those with known answers."""
    return (items.c.project == project) & items.c.stage.in_(STAGES)


def _statuses(db: Connection, project: int) -> dict[Question, dict[Status, int]]:
    asking: Counter[Question] = Counter()
    kinds = select(items.c.questions, func.count()).where(_labelled(project)).group_by(items.c.questions)
    for text, count in db.execute(kinds).all():
        for question in questions_of(text):
            asking[question] += count
    counts: dict[Question, dict[Status, int]] = {
        name: dict.fromkeys(STATUSES, 0) for name in dict.fromkeys((*QUESTIONS, *asking))
    }
    for one in count_answers(db, project):
        counts[one.question][one.verdict.status] += one.count
    for name, total in asking.items():
        counts[name]["open"] += total - sum(counts[name].values())
    return counts


class QuestionAgreement(msgspec.Struct, frozen=True):
    """Agreement on one question. `values` counts the first votes of `units` items that had two.

    `unsure` counts items on which one of the two, or both, were unsure. `figures` holds the four measures with their
    95 % intervals: percent, kappa, alpha, ac1.
    """

    units: int
    percent: float
    kappa: float
    alpha: float
    ac1: float
    values: dict[str, int]
    unsure: int = 0
    figures: dict[str, Figure] = {}


class Confirmed(msgspec.Struct, frozen=True):
    """On one question: audited items with a label, how many the auditor confirms, and the judge, if one was given."""

    audited: int
    confirmed: int
    judged: int | None = None  # of the audited items, those with a verdict
    judge_agrees: int | None = None
    judged_all: int | None = None  # of all items with a label
    judge_agrees_all: int | None = None


class Agreement(msgspec.Struct, frozen=True):
    """First-pass agreement of a project, what the votes came to, and what the audit confirms."""

    questions: dict[Question, QuestionAgreement]
    labels: dict[Question, dict[str, int]]
    audit: dict[Question, Confirmed]


class PairAgreement(msgspec.Struct, frozen=True):
    """Two people on one question: `table[i][j]` counts answer i of the first beside answer j of the second."""

    question: Question
    people: tuple[str, str]
    items: int
    percent: float
    kappa: float
    values: list[str]
    table: list[list[int]]


def agreement(store: Store, project: int, judgements: Mapping[str, Judgement] | None = None) -> Agreement:
    """Agreement without regard to who voted, from the votes as they are now; with a judge beside the audit."""
    values = answer_values(store, project)
    with store.read() as db:
        found = count_answers(db, project)
    votes_given: dict[Question, Counter[tuple[Answer, Answer]]] = {name: Counter() for name in values}
    labels: dict[Question, dict[str, int]] = {name: dict.fromkeys(map(answer_text, values[name]), 0) for name in values}
    for one in found:
        votes_given[one.question][one.first, one.second] += one.count
        if (label := one.verdict.value) is not None:
            labels[one.question][answer_text(label)] += one.count
    questions = {name: question_agreement(pairs, values[name]) for name, pairs in votes_given.items()}
    return Agreement(questions, labels, _audit(store, project, judgements))


def pair_agreement(store: Store, project: int, question: Question | None = None) -> list[PairAgreement]:
    """How every two people answered one question, or each of them."""
    values = answer_values(store, project)
    order = list(values)
    with store.read() as db:
        found = count_answers(db, project, people=True, question=question)
        query = select(annotators.c.id, annotators.c.name).where(annotators.c.project == project)
        names: dict[int, str] = {row.id: row.name for row in db.execute(query)}
    tables: dict[tuple[int, str, str], Counter[tuple[Answer, Answer]]] = {}
    for one in found:
        a, b = (names[number] for number in one.people)
        answers = (one.first, one.second)
        if a > b:  # the same way round, whoever came first to an item
            a, b, answers = b, a, answers[::-1]
        tables.setdefault((order.index(one.question), a, b), Counter())[answers] += one.count
    return [_pair(order[n], (a, b), table, values[order[n]]) for (n, a, b), table in sorted(tables.items())]


def confusion(pairs: Iterable[PairAgreement], question: Question) -> list[list[int | None]]:
    """On how many items one of two people gave one answer and the other another; rows and columns: its answers.

    Who gave which does not matter and each item is counted once, so cells below the diagonal are None.

    >>> pair = PairAgreement("history", ("a", "b"), 5, 0.4, 0.0, ["true", "false"], [[2, 1], [2, 0]])
    >>> confusion([pair], "history")
    [[2, 3], [None, 0]]
    """
    tables = [pair.table for pair in pairs if pair.question == question]

    def cell(row: int, column: int) -> int | None:
        if column < row:
            return None
        either = {(row, column), (column, row)}
        return sum(table[one][other] for table in tables for one, other in either)

    places = range(len(tables[0]) if tables else 0)
    return [[cell(row, column) for column in places] for row in places]


def _audit(store: Store, project: int, judgements: Mapping[str, Judgement] | None) -> dict[Question, Confirmed]:
    """How often auditors, and a judge if there is one, agree with the labels. Without a label there is no count."""
    counts: dict[Question, Counter[str]] = {name: Counter() for name in answer_values(store, project)}
    rows = pivot(project).add_columns(items.c.name).subquery()
    wanted = select(rows).where(rows.c.p4.is_not(None)) if judgements is None else select(rows)
    with store.read() as db:
        for row in db.execute(wanted):
            first, second = answer_of(row.question, row.p1), answer_of(row.question, row.p2)
            third = None if row.p3 is None else answer_of(row.question, row.p3)
            label, count = decide((first, second), third).value, counts[row.question]
            if label is None:
                continue
            verdict = _verdict((judgements or {}).get(row.name), row.question)
            count["judged_all"] += verdict is not None
            count["judge_agrees_all"] += verdict == label
            if row.p4 not in (None, UNSURE):
                count["audited"] += 1
                count["confirmed"] += answer_of(row.question, row.p4) == label
                count["judged"] += verdict is not None
                count["judge_agrees"] += verdict == label
    fields = ("audited", "confirmed") if judgements is None else Confirmed.__struct_fields__
    return {question: Confirmed(**{name: count[name] for name in fields}) for question, count in counts.items()}


def read_judgements(path: str | Path) -> dict[str, Judgement]:
    """What `compeer reward score` wrote, by item."""
    return {row.id: row.judgement for row in read_rows(path, Scored)}


def question_agreement(pairs: Mapping[tuple[Answer, Answer], int], possible: Sequence[Answer]) -> QuestionAgreement:
    """All coefficients on pairs of first-pass votes; `possible` are the answers that could be given."""
    everything, pairs = pairs, {pair: count for pair, count in pairs.items() if UNSURE not in pair}
    counted: Counter[Answer] = Counter()
    for pair, count in pairs.items():
        for value in pair:
            counted[value] += count
    return QuestionAgreement(
        units=sum(pairs.values()),
        percent=percent_agreement(pairs),
        kappa=kappa(pairs),
        alpha=alpha(pairs),
        ac1=ac1(pairs, categories=len(possible)),
        values={answer_text(value): counted[value] for value in possible},
        unsure=sum(everything.values()) - sum(pairs.values()),
        figures=agreement_figures(pairs, len(possible)),
    )


def agreement_figures(pairs: Mapping[tuple[Answer, Answer], int], categories: int) -> dict[str, Figure]:
    """Percent with Wilson's interval; kappa, alpha and AC1 with the interval of a bootstrap over items.

    To draw items with replacement is to draw how many of them fall into each cell of the table of answers.
    """
    n = sum(pairs.values())
    same = sum(count for (one, other), count in pairs.items() if one == other)
    figures = {"percent": share_figure("percent", [1.0] * same + [0.0] * (n - same))}
    cells = list(pairs)
    shares = np.array([pairs[cell] for cell in cells], dtype=np.float64) / max(n, 1)
    drawn = np.random.default_rng(0).multinomial(n, shares, size=ROUNDS) if n > 1 else np.zeros((0, len(cells)), int)
    tables = [{cell: int(k) for cell, k in zip(cells, row, strict=True) if k} for row in drawn]
    measures: dict[str, Callable[[Mapping[tuple[Answer, Answer], int]], float]] = {
        "kappa": kappa, "alpha": alpha, "ac1": lambda table: ac1(table, categories=categories),
    }  # fmt: skip
    for name, measure in measures.items():
        draws = np.array([measure(table) for table in tables], dtype=np.float64)
        figures[name] = estimate(name, measure(pairs), draws, n)
    return figures


def _pair(
    question: Question, people: tuple[str, str], table: Counter[tuple[Answer, Answer]], values: Sequence[Answer]
) -> PairAgreement:
    table = Counter({pair: count for pair, count in table.items() if UNSURE not in pair})
    return PairAgreement(
        question=question,
        people=people,
        items=table.total(),
        percent=percent_agreement(table),
        kappa=kappa(table),
        values=[answer_text(value) for value in values],
        table=[[table[one, other] for other in values] for one in values],
    )


def _verdict(judgement: Judgement | None, question: Question) -> Answer | None:
    if judgement is None or question not in QUESTIONS:
        return None
    return judgement.preference if question == "preference" else judgement.steps[STEPS.index(question)].value


Standing = Literal["counts", "changed", "withheld", "discarded"]


class RecordedVote(msgspec.Struct, frozen=True):
    """An answer with its pass, and whether it counts or why it does not.

    `changed` includes answers that were taken back or came too late. An unsure answer is no vote and never exported.
    """

    vote: Vote
    turn: Pass
    standing: Standing
    answer: str

    @property
    def counts(self) -> bool:
        return self.standing == "counts"

    @property
    def unsure(self) -> bool:
        return self.answer == UNSURE


class ItemRecord(msgspec.Struct):
    """One item with everything that people did to it."""

    number: int
    item: Item
    questions: tuple[Question, ...]
    votes: list[RecordedVote]
    notes: dict[str, str]
    skips: list[dict[str, Any]]

    @property
    def verdicts(self) -> dict[Question, Consensus]:
        """Label and status of each question, from the votes that count."""
        found: dict[tuple[str, Pass], dict[Question, Any]] = {}
        for one in self.votes:
            if one.counts:
                found.setdefault((one.vote.annotator, one.turn), {})[one.vote.question] = answer_of(
                    one.vote.question, one.answer
                )
        return verdicts(self.questions, [Ballot(name, turn, given) for (name, turn), given in found.items()])

    @property
    def is_closed(self) -> bool:
        """Whether no question waits for another vote."""
        return all(one.status != "open" for one in self.verdicts.values())

    @property
    def disputed(self) -> dict[Question, list[RecordedVote]]:
        """The votes on each question that people answered differently, in the order of places, without the audit."""
        found: dict[Question, list[RecordedVote]] = {}
        for one in self.votes:
            if one.counts and one.turn != "audit":
                found.setdefault(one.vote.question, []).append(one)
        return {
            name: given for name, given in found.items() if len({one.answer for one in given}) > 1 or given[0].unsure
        }


def records(store: Store, project: int, *, anonymous: bool = False) -> Iterator[ItemRecord]:
    """All items of a project, in order, with their votes in the order of places; some hundreds are read at a time.

    `anonymous`: people are numbered in the order in which they were added, instead of named.
    """
    people = people_of(store, project) if anonymous else []
    names = {one.name: f"annotator-{n}" for n, one in enumerate(people, start=1)}
    after = -1
    while True:
        query = select(items).where(_labelled(project), items.c.position > after).order_by(items.c.position)
        with store.read() as db:
            rows = db.execute(query.limit(_ITEMS_AT_ONCE)).all()
            found = _records(db, rows, names)
        if not rows:
            return
        yield from found
        after = rows[-1].position


def item_by_name(store: Store, project: int, name: str) -> ItemRecord | None:
    """One item by its own id, whatever it is used for."""
    with store.read() as db:
        rows = db.execute(select(items).where(items.c.project == project, items.c.name == name)).all()
        return next(iter(_records(db, rows)), None)


def disagreements(store: Store, project: int, *, limit: int = 50, offset: int = 0) -> list[ItemRecord]:
    """Items on which the first two differ, or one is unsure, in the order of the project."""
    rows = pivot(project).subquery()
    differing = select(rows.c.item).where(or_(rows.c.p1 != rows.c.p2, rows.c.p1 == UNSURE))
    query = select(items).where(items.c.id.in_(differing)).order_by(items.c.position).limit(limit).offset(offset)
    with store.read() as db:
        return _records(db, db.execute(query).all())


def _records(db: Connection, rows: Sequence[Row[Any]], names: Mapping[str, str] | None = None) -> list[ItemRecord]:
    """The items with their votes, notes and skips; `names` are those that people are shown under."""
    names = names or {}
    found = {
        row.id: ItemRecord(row.id, from_json(row.content, Item), questions_of(row.questions), [], {}, [])
        for row in rows
    }
    newest = leases.c.revision.label("newest")
    given = (
        select(votes, newest, leases.c.state, leases.c.place, leases.c.note, annotators.c.name)
        .join(leases, leases.c.id == votes.c.lease)
        .join(annotators, annotators.c.id == votes.c.annotator)
        .where(votes.c.item.in_(found))
    )

    def order(row: Row[Any]) -> tuple[int, ...]:
        asked = found[row.item].questions
        return (row.place or 9, row.lease, row.revision, asked.index(row.question))

    for row in sorted(db.execute(given).all(), key=order):
        name = names.get(row.name, row.name)
        found[row.item].votes.append(_recorded(row, name))
        if row.note:
            found[row.item].notes[name] = row.note
    skipped = (
        select(skips, leases.c.item, annotators.c.name)
        .join(leases, leases.c.id == skips.c.lease)
        .join(annotators, annotators.c.id == leases.c.annotator)
        .where(leases.c.item.in_(found))
        .order_by(skips.c.id)
    )
    for row in db.execute(skipped):
        about = {"at": _iso(row.at), "reason": row.reason, "distress": row.distress}
        found[row.item].skips.append({"annotator": names.get(row.name, row.name), **about})
    return list(found.values())


def _recorded(row: Row[Any], name: str) -> RecordedVote:
    answer: Any = answer_of(row.question, row.answer)
    vote = Vote(
        annotator=name,
        question=row.question,
        value=answer,
        at=_iso(row.at),
        seconds=row.seconds,
        candidate_first=row.candidate_first,
        guideline=row.guideline,
    )
    newest = row.revision == row.newest
    counts = row.state == "done" and row.place is not None and newest
    standing: Standing = (
        "counts" if counts else row.state if newest and row.state in ("withheld", "discarded") else "changed"
    )
    return RecordedVote(vote, row.turn, standing, row.answer)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
