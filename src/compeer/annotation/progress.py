"""How far the work is: for the coordinator all of it, for an annotator their own part and nothing of the others'."""

from __future__ import annotations

from collections import Counter

import msgspec
from sqlalchemy import Connection, case, func, select

from compeer.annotation.effort import Own, PersonProgress, efforts, own
from compeer.annotation.lease import LABELLING
from compeer.annotation.people import Person
from compeer.annotation.project import project as project_of
from compeer.annotation.protocol import STATUSES, Pass
from compeer.annotation.seats import FRESH, questions_of
from compeer.annotation.store.database import Store
from compeer.annotation.store.tables import annotators, audit_draws, items, leases, refusals, votes
from compeer.annotation.tallies import pivot, tallies
from compeer.cer.exchange import Status
from compeer.cer.item import QUESTIONS, Item, Question
from compeer.typed import from_json


class Progress(msgspec.Struct, frozen=True):
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


class Mine(Own, frozen=True):
    """An annotator's own counts, and how many items there are in all."""

    items: int


class Shown(msgspec.Struct, frozen=True):
    """One vote as a coordinator reads it."""

    annotator: str
    turn: Pass
    answer: str
    note: str


class Disagreement(msgspec.Struct, frozen=True):
    """An item on which the first two differ: the item, and all votes on each disputed question."""

    number: int
    item: Item
    votes: dict[Question, list[Shown]]


def progress(store: Store, project: int) -> Progress:
    """The whole project, counted now."""
    name = project_of(store, project).name
    with store.read() as db:
        stages: dict[str, int] = dict.fromkeys(("untouched", "first", "third", "closed"), 0)
        fresh = case((items.c.rank == FRESH, "untouched"), else_=items.c.stage)
        for stage, count in db.execute(
            select(fresh, func.count()).where(items.c.project == project).group_by(fresh)
        ).all():  # fmt: skip
            stages[stage] = count
        audit = audit_draws.join(items).outerjoin(
            leases, (leases.c.item == items.c.id) & (leases.c.place == 4) & (leases.c.state == "done")
        )
        drawn, audited = db.execute(
            select(func.count(), func.count(leases.c.id)).select_from(audit).where(items.c.project == project)
        ).one()
        refused = db.execute(
            select(func.count()).select_from(refusals).where(refusals.c.project == project)
        ).scalar_one()
        here = select(annotators.c.id).where(annotators.c.project == project)
        seconds = select(votes.c.annotator, func.avg(votes.c.seconds)).where(votes.c.annotator.in_(here))
        seconds = seconds.group_by(votes.c.annotator)  # by an index alone, in a large project
        return Progress(
            project=name,
            items=sum(stages.values()),
            untouched=stages["untouched"],
            begun=stages["first"],
            disputed=stages["third"],
            closed=stages["closed"],
            questions=_questions(db, project),
            audited=audited,
            audit_drawn=drawn,
            people=efforts(db, LABELLING, project, seconds),
            refusals=refused,
        )


def mine(store: Store, person: Person) -> Mine:
    """What this person has done."""
    total = select(func.count()).select_from(items).where(items.c.project == person.project)
    with store.read() as db:
        counts = own(db, LABELLING, person, store.clock())
        return Mine(counts.done, counts.today, counts.skipped, db.execute(total).scalar_one())


def disagreements(store: Store, project: int, *, limit: int = 50, offset: int = 0) -> list[Disagreement]:
    """Items on which the first two differ, in the order of the project."""
    rows = pivot(project).subquery()
    differing = select(rows.c.item).where(rows.c.p1 != rows.c.p2)
    with store.read() as db:
        query = select(items.c.id, items.c.content).where(items.c.id.in_(differing)).order_by(items.c.position)
        query = query.limit(limit).offset(offset)
        return [_disagreement(db, number, content) for number, content in db.execute(query).all()]


def _disagreement(db: Connection, number: int, content: str) -> Disagreement:
    query = (
        select(annotators.c.name, leases.c.turn, leases.c.note, votes.c.question, votes.c.answer)
        .join(votes, (votes.c.lease == leases.c.id) & (votes.c.revision == leases.c.revision))
        .join(annotators, annotators.c.id == leases.c.annotator)
        .where(leases.c.item == number, leases.c.state == "done", leases.c.turn != "audit")
        .order_by(leases.c.place)
    )
    found: dict[Question, list[Shown]] = {}
    for row in db.execute(query):
        found.setdefault(row.question, []).append(Shown(row.name, row.turn, row.answer, row.note))
    differing = {name: given for name, given in found.items() if len({vote.answer for vote in given}) > 1}
    return Disagreement(number, from_json(content, Item), differing)


def _questions(db: Connection, project: int) -> dict[Question, dict[Status, int]]:
    asking: Counter[Question] = Counter()
    kinds = select(items.c.questions, func.count()).where(items.c.project == project).group_by(items.c.questions)
    for text, count in db.execute(kinds).all():
        asking.update(dict.fromkeys(questions_of(text), count))
    counts: dict[Question, dict[Status, int]] = {name: dict.fromkeys(STATUSES, 0) for name in QUESTIONS}
    for one in tallies(db, project):
        counts[one.question][one.verdict.status] += one.count
    for name, total in asking.items():
        counts[name]["open"] += total - sum(counts[name].values())
    return counts
