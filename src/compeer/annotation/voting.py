"""Handing in, changing one's mind, taking back, and the draft that is saved while somebody thinks.

Answers come in as they were shown, "first" and "second", and are kept as reference and candidate. Own answers can be
changed until the item closes, or until a third person has been given what the first two differ about: they must vote
on exactly that. `undo` takes back what one handed in last, within some minutes even if it closed the item, as long as
nobody has been given it since. Votes are never overwritten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, insert, select, update

from compeer.annotation.forms import acting
from compeer.annotation.given import note_of, seconds_of
from compeer.annotation.lease import LABELLING, hand_in, in_state, renew, take_back
from compeer.annotation.people import Person, locked
from compeer.annotation.protocol import PLACES, Answer, answer_text
from compeer.annotation.queue import Work, draft_of, not_yours, take_up, view
from compeer.annotation.refusal import BadAnswers, refuse
from compeer.annotation.seats import give_back, lapse, lease_of, lock_item, questions_of, settle, sitting
from compeer.annotation.store.database import Store
from compeer.annotation.store.tables import drafts, leases, projects, votes
from compeer.cer.item import Question
from compeer.reward.verdict import CHOICES, preference_of


def submit(
    store: Store,
    person: Person,
    item: int,
    answers: Mapping[str, Any],
    *,
    seconds: float | None = None,
    note: str = "",
    guideline: str | None = None,
    form: str = "",
) -> None:
    """Hand in the answers to every question asked, or hand them in anew. When this returns they are on the disk.

    `answers`: True or False for the steps; first, second, both or neither for the preference.
    """

    def work(db: Connection) -> None:
        me, row, lease, project = _mine(store, db, person, item, form)
        now = store.clock()
        if lease.state == "lapsed":
            if not take_up(store, db, lease, project, now):
                message = "You were away for long, and somebody else has this item now. Your draft is kept; please "
                raise refuse(me, "lapsed", message + "go on with the next one.", f"item {item}")
            lease = db.execute(select(leases).where(leases.c.id == lease.id)).one()
        elif lease.state == "done" and (why := _locked_in(store, db, row, lease)):
            raise refuse(me, "closed", why, f"item {item}")
        values = read_answers(questions_of(lease.questions), answers, lease.candidate_first)
        shared = {
            "lease": lease.id,
            "revision": hand_in(db, LABELLING, lease, now, note_of(note)),
            "item": item,
            "annotator": me.id,
            "turn": lease.turn,
            "at": now,
            "seconds": seconds_of(seconds),
            "candidate_first": lease.candidate_first,
            "guideline": guideline or project.guideline,
        }
        rows = [{**shared, "question": name, "answer": answer_text(value)} for name, value in values.items()]
        db.execute(insert(votes), rows)
        db.execute(delete(drafts).where(drafts.c.lease == lease.id))
        settle(db, row, now)

    store.write(work)


def undo(store: Store, person: Person, *, form: str = "") -> Work | None:
    """Take back what this person handed in last; it is theirs again, with their answers as a draft. None: nothing."""
    lapse(store)

    def work(db: Connection) -> int | None:
        last = db.execute(in_state(LABELLING, person.id, "done")).first()
        if last is None:
            return None
        me, row, lease, project = _mine(store, db, person, last.item, form)
        now = store.clock()
        why = _locked_in(store, db, row, lease, window=project.undo_seconds)
        if lease.state != "done" or why:
            raise refuse(me, "closed", why or "It was taken back already.", f"undo of item {lease.item}")
        draft = draft_of(db, lease)
        _keep(db, lease.id, draft.answers, draft.note, draft.seconds, now)
        take_back(db, LABELLING, lease.id, now, now + project.lease_seconds)
        settle(db, row, now)
        return int(lease.item)

    number = store.write(work)
    return None if number is None else view(store, person, number)


def save_draft(
    store: Store, person: Person, item: int, answers: Mapping[str, Any], *, note: str = "", seconds: float = 0.0
) -> bool:
    """Autosave: keep what is filled in so far and renew the lease. False: the lease has run out meanwhile."""

    def work(db: Connection) -> bool:
        me = locked(store, db, person)
        lease = lease_of(db, item, me.id)
        if lease is None or lease.state == "skipped":
            raise not_yours(me, item)
        if me.paused or lease.state == "done":
            return False
        asked = questions_of(lease.questions)
        given = {name: _checked(name, value) for name, value in answers.items() if name in asked and value is not None}
        now = store.clock()
        _keep(db, lease.id, given, note_of(note), seconds_of(seconds) or 0.0, now)
        length = select(projects.c.lease_seconds).where(projects.c.id == me.project)
        return renew(db, LABELLING, lease.id, now + db.execute(length).scalar_one())

    return store.write(work)


def read_answers(asked: Sequence[Question], given: Mapping[str, Any], candidate_first: bool) -> dict[Question, Answer]:
    """Answers as they are kept, or an error that says what is wrong with them.

    >>> read_answers(["emotion", "preference"], {"emotion": True, "preference": "second"}, candidate_first=True)
    {'emotion': True, 'preference': 'reference'}
    """
    if missing := [question for question in asked if given.get(question) is None]:
        raise BadAnswers(f"Not answered yet: {', '.join(missing)}.")
    if extra := [name for name in given if name not in asked]:
        raise BadAnswers(f"Not asked here: {', '.join(map(str, extra))[:200]}. Nothing was saved.")
    checked = {question: _checked(question, given[question]) for question in asked}
    return {
        name: value if isinstance(value, bool) else preference_of(value, candidate_first)
        for name, value in checked.items()
    }


def _checked(question: str, value: Any) -> Any:
    if question == "preference":
        if value not in CHOICES:
            raise BadAnswers(f"The preference is {', '.join(CHOICES)}; got {str(value)[:50]!r}.")
    elif not isinstance(value, bool):
        raise BadAnswers(f"The answer to {question} is True or False; got {str(value)[:50]!r}.")
    return value


def _mine(store: Store, db: Connection, person: Person, item: int, form: str) -> tuple[Person, Any, Any, Any]:
    """Person, item, lease and project, locked and checked."""
    me = acting(store, db, person, form)
    row = lock_item(store, db, item)
    lease = lease_of(db, item, me.id)
    if row is None or lease is None:
        raise not_yours(me, item)
    if me.paused:
        raise refuse(me, "paused", "Your coordinator has paused your work. Your draft is kept.")
    if lease.state == "skipped":
        raise refuse(me, "closed", "You skipped this item.", f"item {item}")
    return me, row, lease, db.execute(select(projects).where(projects.c.id == me.project)).one()


def _locked_in(store: Store, db: Connection, item: Row[Any], lease: Row[Any], window: float | None = None) -> str:
    """Why what was handed in can no longer be changed; empty when it can."""
    now = store.clock()
    later = {"first": (*PLACES["third"], *PLACES["audit"]), "third": PLACES["audit"], "audit": ()}[lease.turn]
    taken = sitting(db, item.id).seats
    for place in later:
        if place in taken and taken[place].state == "held" and taken[place].expires < now:
            give_back(store, db, taken[place].id)
        elif place in taken:
            return "Somebody else has been given this item since, so it can no longer be changed."
    if item.stage == "closed" and (window is None or now - (lease.finished or 0.0) > window):
        return "This item is closed and can no longer be changed."
    return ""


def _keep(db: Connection, lease: int, answers: Mapping[Any, Any], note: str, seconds: float, now: float) -> None:
    row = {"answers": msgspec.json.encode(answers).decode(), "note": note, "seconds": seconds, "at": now}
    if not db.execute(update(drafts).where(drafts.c.lease == lease).values(**row)).rowcount:
        db.execute(insert(drafts).values(lease=lease, **row))
