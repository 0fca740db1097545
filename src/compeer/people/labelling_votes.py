"""Handing in, changing one's mind, taking back, and the draft that is saved while somebody thinks.

Answers come in as they were shown, "first" and "second", and are kept as reference and candidate. Own answers can be
changed until the item closes, or until a third person has been given what the first two differ about: they must vote
on exactly that. `undo` takes back what one handed in last, within some minutes even if it closed the item, as long as
nobody has been given it since. Votes are never overwritten.

Everything that was voted on a project's items, read back item by item: what counts, and what was replaced.

The items are streamed in the order of the project, some hundreds at a time.

What an annotator has handed in, to look at again and change while it is open; and whether all work is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, select, update

from compeer.cer.exchange import Consensus
from compeer.cer.item import QUESTIONS, Item, Question, Vote
from compeer.people.invitations import Person, acting, locked
from compeer.people.labelling_queue import Work, draft_of, not_yours, take_up, view
from compeer.people.leases import (
    LABELLING,
    give_back,
    hand_in,
    in_state,
    lapse,
    lease_of,
    lock_item,
    questions_of,
    renew,
    settle,
    sitting,
    take_back,
)
from compeer.people.protocol import PLACES, Answer, Ballot, Pass, answer_of, answer_text, verdicts
from compeer.people.refusal import BadAnswers, note_of, refuse, seconds_of
from compeer.people.store.database import Store
from compeer.people.store.tables import annotators, drafts, items, leases, projects, skips, votes
from compeer.reward.verdict import CHOICES, preference_of
from compeer.typed import from_json


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


_AT_ONCE = 400


class Cast(msgspec.Struct, frozen=True):
    """A vote with its pass and whether it counts; one that does not was changed, taken back, or came too late."""

    vote: Vote
    turn: Pass
    counts: bool


class Record(msgspec.Struct, frozen=True):
    """One item with all that people did to it."""

    number: int
    item: Item
    questions: tuple[Question, ...]
    votes: list[Cast]
    notes: dict[str, str]
    skips: list[dict[str, Any]]

    @property
    def verdicts(self) -> dict[Question, Consensus]:
        """Label and status of each question, from the votes that count."""
        found: dict[tuple[str, Pass], dict[Question, Any]] = {}
        for one in self.votes:
            if one.counts:
                found.setdefault((one.vote.annotator, one.turn), {})[one.vote.question] = one.vote.value
        return verdicts(self.questions, [Ballot(name, turn, given) for (name, turn), given in found.items()])


def records(store: Store, project: int) -> Iterator[Record]:
    """All items of a project, in order, with their votes in the order of places."""
    after = -1
    while True:
        with store.read() as db:
            query = select(items.c.id, items.c.position, items.c.content, items.c.questions)
            query = query.where(items.c.project == project, items.c.position > after)
            found = db.execute(query.order_by(items.c.position).limit(_AT_ONCE)).all()
            told = _told(db, [row.id for row in found])
        if not found:
            return
        for row in found:
            cast, notes, skipped = told.get(row.id, ([], {}, []))
            item = from_json(row.content, Item)
            yield Record(row.id, item, questions_of(row.questions), cast, notes, skipped)
        after = found[-1].position


def _told(db: Connection, numbers: list[int]) -> dict[int, tuple[list[Cast], dict[str, str], list[dict[str, Any]]]]:
    told: dict[int, tuple[list[Cast], dict[str, str], list[dict[str, Any]]]] = {}
    cast = (
        select(
            votes, leases.c.revision.label("newest"), leases.c.state, leases.c.place, leases.c.note, annotators.c.name
        )
        .join(leases, leases.c.id == votes.c.lease)
        .join(annotators, annotators.c.id == votes.c.annotator)
        .where(votes.c.item.in_(numbers))
    )
    rows = db.execute(cast).all()
    for row in sorted(rows, key=lambda row: (row.place or 9, row.lease, row.revision, QUESTIONS.index(row.question))):
        entry = told.setdefault(row.item, ([], {}, []))
        entry[0].append(_cast(row))
        if row.note:
            entry[1][row.name] = row.note
    left = (
        select(skips, leases.c.item, annotators.c.name)
        .join(leases, leases.c.id == skips.c.lease)
        .join(annotators, annotators.c.id == leases.c.annotator)
        .where(leases.c.item.in_(numbers))
        .order_by(skips.c.id)
    )
    for row in db.execute(left):
        about = {"annotator": row.name, "at": _iso(row.at), "reason": row.reason, "distress": row.distress}
        told.setdefault(row.item, ([], {}, []))[2].append(about)
    return told


def _cast(row: Row[Any]) -> Cast:
    vote = Vote(
        annotator=row.name,
        question=row.question,
        value=answer_of(row.question, row.answer),
        at=_iso(row.at),
        seconds=row.seconds,
        candidate_first=row.candidate_first,
        guideline=row.guideline,
    )
    return Cast(vote, row.turn, row.state == "done" and row.place is not None and row.revision == row.newest)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


_OPENING = 120  # characters


class HandedIn(msgspec.Struct, frozen=True):
    """One item that this person handed in: its number, when, and how its last message begins.

    It does not say whether the item is closed: that would tell whether the others agree.
    """

    item: int
    finished: float
    opening: str


def handed_in(store: Store, person: Person, *, limit: int = 50) -> list[HandedIn]:
    """The person's own items, the newest first."""
    query = (
        select(leases.c.item, leases.c.finished, items.c.content)
        .join(items, items.c.id == leases.c.item)
        .where(leases.c.annotator == person.id, leases.c.state == "done")
        .order_by(leases.c.finished.desc(), leases.c.id.desc())
        .limit(limit)
    )
    with store.read() as db:
        rows = db.execute(query).all()
    return [HandedIn(row.item, row.finished, _opening(row.content)) for row in rows]


def open_items(store: Store, project: int) -> int:
    """How many items are not closed yet."""
    query = select(func.count()).where(items.c.project == project, items.c.stage != "closed")
    with store.read() as db:
        return int(db.execute(query).scalar_one())


def _opening(content: str) -> str:
    history = from_json(content, Item).history
    text = " ".join(history[-1].text.split()) if history else ""
    return text if len(text) <= _OPENING else text[:_OPENING] + "…"
