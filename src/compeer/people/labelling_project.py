"""A labelling project: items in an order, the settings they are labelled under, and the folder of their pictures.

How far the work is: for the coordinator all of it, for an annotator their own part and nothing of the others'.

All projects of a database, or all arenas, with what a list shows of them, counted without looking at votes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, case, func, insert, select

from compeer.cer.exchange import Status
from compeer.cer.item import QUESTIONS, Item, Question
from compeer.errors import UserError
from compeer.people import projects as founding
from compeer.people.agreement import pivot, tallies
from compeer.people.invitations import Own, Person, PersonProgress, efforts, own
from compeer.people.labelling_queue import not_yours
from compeer.people.leases import FRESH, LABELLING, is_number, lease_of, questions_of
from compeer.people.projects import Album, Founded, inside, picture_in
from compeer.people.protocol import STATUSES, Pass, asked_of
from compeer.people.store.database import Store
from compeer.people.store.tables import annotators, arenas, audit_draws, items, leases, projects, refusals, votes
from compeer.typed import from_json

_AT_ONCE = 500


class Project(msgspec.Struct, frozen=True):
    """What a project was made with."""

    id: int
    name: str
    created: float
    seed: int
    guideline: str
    lease_seconds: float
    undo_seconds: float
    audit_share: float
    images: str | None


class Created(msgspec.Struct, frozen=True):
    """A new project; `left_out` counts items without a candidate, which have nothing to judge."""

    project: Project
    items: int
    left_out: int


def create_project(
    store: Store,
    name: str,
    source: Iterable[Item],
    *,
    images: Path | None = None,
    guideline: str = "1",
    lease_minutes: float = 15.0,
    undo_minutes: float = 2.0,
    audit_share: float = 0.05,
    seed: int | None = None,
) -> Created:
    """Make a project from CER items, in their order. `images` is the folder that their pictures lie in.

    The seed decides the order of replies and the audit draw; without one it is drawn, and nobody can foretell them.
    """
    terms = founding.Terms(
        name=name, images=images, guideline=guideline, lease_minutes=lease_minutes, undo_minutes=undo_minutes,
        audit_share=audit_share, seed=seed,
    )  # fmt: skip
    founding.check(terms)
    given = list(source)
    usable = [item for item in given if item.candidate is not None]
    if not usable:
        raise UserError(
            f"None of the {len(given)} items has a candidate to judge; compeer cer reason gives them one."
            if given else "There are no items in this file."
        )  # fmt: skip
    names: set[str] = set()
    for item in usable:
        if item.id in names:
            raise UserError(f"The item {item.id} is there twice; each must have an id of its own.")
        names.add(item.id)
        for path in _pictures(item):
            inside(images, path, item.id)

    def work(db: Connection) -> int:
        number, _ = founding.found(db, terms, store.clock())
        for start in range(0, len(usable), _AT_ONCE):
            chunk = usable[start : start + _AT_ONCE]
            db.execute(insert(items), [_row(number, start + n, item) for n, item in enumerate(chunk)])
        return number

    return Created(project(store, store.write(work)), len(usable), len(given) - len(usable))


def projects_of(store: Store) -> list[Project]:
    """All labelling projects of a database, oldest first. Arenas have people too, but are no labelling."""
    labelling = select(projects).where(projects.c.id.not_in(select(arenas.c.project)))
    with store.read() as db:
        return [_project(row) for row in db.execute(labelling.order_by(projects.c.id))]


def project(store: Store, number: int) -> Project:
    """A project by its number."""
    with store.read() as db:
        return _project(db.execute(select(projects).where(projects.c.id == number)).one())


def project_named(store: Store, name: str | None) -> Project:
    """A project by name, or the only one."""
    return founding.called(projects_of(store), name, "project", "compeer annotate create")


def picture(store: Store, person: Person, item: int, number: int) -> Path:
    """The file of the item's picture `number`, for who was given this item; a coordinator may see all of theirs."""
    with store.read() as db:
        given = lease_of(db, item, person.id)
        query = select(items.c.name, items.c.images, projects.c.images.label("folder")).join(projects)
        asked = items.c.id == (item if is_number(item) else 0)
        row = db.execute(query.where(asked, items.c.project == person.project)).first()
    album = None
    if row is not None and (given is not None or person.role == "coordinator"):
        album = Album(row.name, from_json(row.images, list[str]), row.folder)
    return picture_in(store, person, album, number, not_yours(person, item))


def _row(number: int, position: int, item: Item) -> dict[str, Any]:
    return {
        "project": number,
        "name": item.id,
        "position": position,
        "questions": ",".join(asked_of(item)),
        "content": msgspec.json.encode(item).decode(),
        "images": msgspec.json.encode(_pictures(item)).decode(),
        "stage": "first",
        "rank": FRESH,
    }


def _pictures(item: Item) -> list[str]:
    return [path for turn in item.history for path in turn.images]


def _project(row: Row[Any]) -> Project:
    return Project(**{name: getattr(row, name) for name in Project.__struct_fields__})


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


def project_name(store: Store, number: int) -> str:
    return project(store, number).name


def progress(store: Store, project: int) -> Progress:
    """The whole project, counted now."""
    name = project_name(store, project)
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


class OnShelf(msgspec.Struct, frozen=True):
    """One of them: how much there is to do, how much of it is done, how many people are in it."""

    id: int
    name: str
    total: int
    done: int
    people: int
    ended: bool = False


def shelf(store: Store) -> list[OnShelf]:
    """The labelling projects, the newest first."""
    known = projects_of(store)
    with store.read() as db:
        every = select(items.c.project, func.count()).group_by(items.c.project)
        return line_up(db, known, every, every.where(items.c.stage == "closed"))


def line_up(
    db: Connection,
    known: Iterable[Founded],
    total: Select[Any],
    done: Select[Any],
    ended: Collection[int] = (),
) -> list[OnShelf]:
    """The newest first; `total` and `done` select numbers of projects with counts."""
    heads = select(annotators.c.project, func.count()).group_by(annotators.c.project)
    counts: list[dict[int, int]] = [{row[0]: row[1] for row in db.execute(query)} for query in (total, done, heads)]
    every, finished, people = counts
    return [
        OnShelf(
            id=one.id,
            name=one.name,
            total=every.get(one.id, 0),
            done=finished.get(one.id, 0),
            people=people.get(one.id, 0),
            ended=one.id in ended,
        )
        for one in sorted(known, key=lambda one: -one.id)
    ]
