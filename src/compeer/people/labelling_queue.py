"""The queue: what a person works on next.

What they hold already comes first, then what they had begun and nobody has taken over, then somebody's item that is
begun, then an untouched one. Nobody gets an item twice, an item has no more than two first-pass places, the third vote
goes to somebody who has never had the item before their eyes, and coordinators and paused people get nothing.

A lease lasts some minutes and is renewed with every autosave. One that has run out returns its place; until somebody
takes it, the person who had it may still hand in, or go on where they were.
"""

from __future__ import annotations

import hashlib
from typing import Any, get_args

import msgspec
from sqlalchemy import Connection, Row, bindparam, exists, insert, or_, select, update

from compeer.cer.exchange import Task
from compeer.cer.item import Item, Question
from compeer.people.invitations import Person, acting, locked
from compeer.people.leases import (
    AUDIT,
    BEGUN,
    FRESH,
    LABELLING,
    NOTHING,
    THIRD,
    asked,
    held,
    in_state,
    lapse,
    lease_of,
    lock_item,
    put_away,
    questions_of,
    settle,
    sitting,
    turn_of,
)
from compeer.people.protocol import Answer, Stage, answer_of, stage
from compeer.people.refusal import Refused, refuse
from compeer.people.store.database import Store
from compeer.people.store.tables import drafts, items, leases, projects, votes
from compeer.reasoning import STEPS, render_step
from compeer.reward.verdict import Choice, choice_of
from compeer.typed import from_json

_SEEN = exists().where(leases.c.item == items.c.id, leases.c.annotator == bindparam("person"))
#: the first item of a rank that a person has never had
_UNSEEN = (
    select(items.c.id)
    .where(items.c.project == bindparam("project"), items.c.rank == bindparam("wanted"))
    .where(or_(items.c.begun_by.is_(None), items.c.begun_by != bindparam("person")), ~_SEEN)
    .order_by(items.c.position)
    .limit(1)
)


class Draft(msgspec.Struct, frozen=True):
    """What was filled in so far, as shown: first and second, not reference and candidate."""

    answers: dict[Question, Any] = {}
    note: str = ""
    seconds: float = 0.0


class Work(msgspec.Struct, frozen=True):
    """An item as one person sees it. `task.questions` are what they are asked; a third person may be asked fewer.

    Nothing in it tells which reply is whose, what others said, or in which pass this is.
    """

    item: int
    task: Task
    draft: Draft
    expires: float
    handed_in: bool = False


def next_work(store: Store, person: Person) -> Work | None:
    """The next item for this person, leased to them; None when there is nothing for them now."""
    lapse(store)

    def work(db: Connection) -> int | None:
        me = locked(store, db, person)
        if me.paused or me.role != "annotator":
            return None
        project = db.execute(select(projects).where(projects.c.id == me.project)).one()
        now = store.clock()
        if (at_hand := held(db, LABELLING, me.id, now + project.lease_seconds)) is not None:
            return int(at_hand.item)
        free = or_(*((leases.c.turn == turn_of(one)) & (items.c.stage == one) for one in get_args(Stage)))
        begun = in_state(LABELLING, me.id, "lapsed").join(items, items.c.id == leases.c.item)
        for row in db.execute(begun.where(items.c.rank > NOTHING, free)).all():
            if take_up(store, db, row, project, now):
                return int(row.item)
        for skip in (True,) if store.sqlite else (True, False):  # then wait for those that others work on just now
            for rank in (THIRD, BEGUN, AUDIT, FRESH):
                asked_for = {"project": me.project, "wanted": rank, "person": me.id}
                found = db.execute(store.locked(_UNSEEN, skip=skip), asked_for).scalar()
                if found is not None and _seat(store, db, found, me, project, now):
                    return int(found)
        return None

    number = store.write(work)
    return None if number is None else view(store, person, number)


def view(store: Store, person: Person, item: int) -> Work:
    """An item that this person holds, or has handed in and may look at again; any other is refused."""
    with store.read() as db:
        lease = lease_of(db, item, person.id)
        if lease is not None and lease.state != "skipped":
            content = db.execute(select(items.c.content).where(items.c.id == item)).scalar_one()
            return _work(lease, content, draft_of(db, lease))
    refusal = not_yours(person, item)
    store.log(refusal)
    raise refusal


def skip(store: Store, person: Person, item: int, reason: str, *, distress: bool = False, form: str = "") -> None:
    """Give an item back for good, with a reason; `distress` when it was too hard to read. Others get it instead."""

    def work(db: Connection) -> None:
        me = acting(store, db, person, form)
        row = lock_item(store, db, item)
        lease = lease_of(db, item, me.id)
        if row is None or lease is None:
            raise not_yours(me, item)
        if lease.state not in ("held", "lapsed"):
            raise refuse(me, "closed", "This item is handed in or skipped already.")
        now = store.clock()
        put_away(db, LABELLING, lease.id, now, reason, distress)
        settle(db, row, now)

    store.write(work)


def take_up(store: Store, db: Connection, lease: Row[Any], project: Row[Any], now: float) -> bool:
    """Let somebody go on with what lapsed, if a place in their pass is still free."""
    item = lock_item(store, db, lease.item)
    if item is None:
        return False
    at, everything = sitting(db, item.id), questions_of(item.questions)
    place = at.free(lease.turn)
    if turn_of(stage(everything, at.ballots)) != lease.turn or place is None:
        return False
    questions = ",".join(asked(everything, lease.turn, at.ballots))
    back = {"state": "held", "place": place, "questions": questions, "opened": now,
            "expires": now + project.lease_seconds}  # fmt: skip
    if not db.execute(
        update(leases).where(leases.c.id == lease.id, leases.c.state == "lapsed").values(**back)
    ).rowcount:
        return False
    settle(db, item, now)
    return True


def not_yours(person: Person, item: int) -> Refused:
    message = "This item was not given to you. The next one that is waits on your labelling page."
    return refuse(person, "not-yours", message, f"item {item}")


def _seat(store: Store, db: Connection, number: int, me: Person, project: Row[Any], now: float) -> bool:
    """Give a person a free place at an item, after looking again with the item locked."""
    item = lock_item(store, db, number)
    assert item is not None
    at, everything = sitting(db, number), questions_of(item.questions)
    turn = turn_of(stage(everything, at.ballots))
    place = at.free(turn)
    if place is None or lease_of(db, number, me.id) is not None or item.rank == NOTHING:
        return False
    # the order in which the replies are shown hangs on the person and the item, and nobody can foretell it
    drawn = hashlib.sha256(f"{project.seed}\x1f{me.id}\x1f{item.name}".encode()).digest()
    db.execute(
        insert(leases).values(
            item=number,
            annotator=me.id,
            turn=turn,
            place=place,
            state="held",
            questions=",".join(asked(everything, turn, at.ballots)),
            candidate_first=drawn[0] < 128,
            opened=now,
            expires=now + project.lease_seconds,
            revision=0,
            note="",
        )
    )
    settle(db, item, now)
    return True


def draft_of(db: Connection, lease: Row[Any]) -> Draft:
    """What a person has filled in: the draft, or what they handed in, the way they saw it."""
    questions = questions_of(lease.questions)
    if lease.state == "done":
        query = select(votes).where(votes.c.lease == lease.id, votes.c.revision == lease.revision)
        rows = db.execute(query).all()
        answers = {row.question: as_shown(answer_of(row.question, row.answer), lease.candidate_first) for row in rows}
        return Draft(answers, lease.note, max((row.seconds or 0.0 for row in rows), default=0.0))
    draft = db.execute(select(drafts).where(drafts.c.lease == lease.id)).first()
    if draft is None:
        return Draft(note=lease.note)
    given = msgspec.json.decode(draft.answers)
    answers = {question: given[question] for question in questions if question in given}
    return Draft(answers, draft.note, draft.seconds)


def as_shown(answer: Answer, candidate_first: bool) -> bool | Choice:
    """An answer the way the person gave it: by place."""
    return answer if isinstance(answer, bool) else choice_of(answer, candidate_first)


def _work(row: Row[Any], content: str, draft: Draft) -> Work:
    item = from_json(content, Item)
    assert item.candidate is not None
    replies = (item.candidate.response, item.reference)
    first, second = replies if row.candidate_first else replies[::-1]
    reasoning = item.candidate.reasoning
    task = Task(
        id=str(row.item),
        language=item.language,
        history=item.history,
        first=first,
        second=second,
        reasoning={step: render_step(reasoning, step) for step in STEPS} if reasoning else None,
        questions=questions_of(row.questions),
    )
    return Work(row.item, task, draft, row.expires, row.state == "done")
