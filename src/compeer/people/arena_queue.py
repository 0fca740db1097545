"""The slots of an arena: giving one to a person, going on with one that lapsed, and returning those that ran out.

What a person compares next, handing in, taking back, putting away.

What they hold comes first, then what lapsed and nobody took over, then of the next slots in the plan the one that suits
their record (`pairing.choose`). Nobody gets a comparison twice; coordinators and paused people get nothing; a closed
arena gives out nothing. The life of a lease is that of labelling (`compeer.people.leases`): it lasts some minutes,
is renewed while somebody reads, and goes back when they are paused or their link ends.

Everything is refused in the way of labelling (`compeer.people.refusal`), under the random name of a lease.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, exists, func, insert, select

from compeer.cer.item import Said
from compeer.people import leases as leasing
from compeer.people.arena_cases import Case, Reply
from compeer.people.arena_project import WINDOW, Slot, choose
from compeer.people.invitations import Person, acting, locked
from compeer.people.leases import COMPARING, hand_in, held, in_state, put_away, renew, take_back
from compeer.people.projects import Album, picture_in
from compeer.people.refusal import BadAnswers, Refused, note_of, refuse, seconds_of
from compeer.people.store import Store
from compeer.people.store.tables import (
    annotators,
    arena_cases,
    arena_leases,
    arena_replies,
    arena_slots,
    arena_votes,
    arenas,
    projects,
)
from compeer.reasoning import STEPS, render_step
from compeer.reasoning.ontology import Language
from compeer.reward.verdict import CHOICES, Choice
from compeer.typed import from_json


def seat(db: Connection, me: Person, now: float, expires: float) -> str | None:
    """Give the person the best of the slots ahead, or nothing."""
    slots, leases = arena_slots.c, arena_leases.c
    taken = exists().where(leases.seat == slots.id)
    had = exists().where(
        leases.annotator == me.id, leases.case == slots.case, leases.one == slots.one, leases.two == slots.two
    )
    mine = select(arena_slots).join(arena_leases, leases.slot == slots.id).where(leases.annotator == me.id)
    before = [slot_of(row) for row in db.execute(mine.where(leases.state == "done"))]
    pairs = select(func.count()).select_from(
        select(slots.one, slots.two).where(slots.project == me.project).distinct().subquery()
    )
    most = WINDOW * db.execute(pairs).scalar_one()
    free = select(arena_slots).where(slots.project == me.project, ~taken, ~had).order_by(slots.position)
    ahead = db.execute(free.limit(most)).all()
    if not ahead:
        return None
    chosen = ahead[choose([slot_of(row) for row in ahead], before)]
    name = secrets.token_urlsafe(12)  # random: it says nothing about what is compared
    db.execute(
        insert(arena_leases).values(
            name=name, slot=chosen.id, seat=chosen.id, case=chosen.case, one=chosen.one, two=chosen.two,
            annotator=me.id, state="held", opened=now, expires=expires, revision=0, note="",
        )
    )  # fmt: skip
    return name


def take_up(db: Connection, lease: Row[Any], expires: float) -> bool:
    """Go on with what lapsed, if nobody has taken the slot."""
    if db.execute(select(arena_leases.c.id).where(arena_leases.c.seat == lease.slot)).first() is not None:
        return False
    leasing.change(db, COMPARING, lease.id, state="held", seat=lease.slot, expires=expires)
    return True


def lapse(db: Connection, project: int, now: float) -> None:
    """Return the slots of leases that have run out."""
    people = select(annotators.c.id).where(annotators.c.project == project)
    leasing.lapse_lease(db, COMPARING, (arena_leases.c.expires < now) & arena_leases.c.annotator.in_(people))


def is_complete(db: Connection, project: int) -> bool:
    """Whether every slot of an arena has its vote."""
    slots = select(func.count()).where(arena_slots.c.project == project)
    done = select(func.count()).join_from(arena_leases, arena_slots, arena_leases.c.seat == arena_slots.c.id)
    done = done.where(arena_slots.c.project == project, arena_leases.c.state == "done")
    return bool(db.execute(slots).scalar_one() == db.execute(done).scalar_one())


def slot_of(row: Row[Any]) -> Slot:
    return Slot(row.case, row.one, row.two, row.place, row.one_left)


class Comparison(msgspec.Struct, frozen=True):
    """Two replies as one person sees them. Nothing in it tells whose they are.

    `thoughts` are the steps of both, where the arena shows them and both have them. `choice` is what the person had
    chosen, after taking it back.
    """

    name: str
    language: Language
    history: tuple[Said, ...]
    first: str
    second: str
    thoughts: tuple[dict[str, str], dict[str, str]] | None = None
    choice: Choice | None = None
    note: str = ""
    seconds: float = 0.0


def next_comparison(store: Store, person: Person) -> Comparison | None:
    """The next comparison for this person, leased to them; None when there is nothing for them now."""

    def work(db: Connection) -> str | None:
        me = locked(store, db, person)
        arena = _arena(db, me.project)
        if me.paused or me.role != "annotator" or arena.closed is not None:
            return None
        now = store.clock()
        lapse(db, me.project, now)
        until = now + arena.lease_seconds
        if (at_hand := held(db, COMPARING, me.id, until)) is not None:
            return str(at_hand.name)
        for row in db.execute(in_state(COMPARING, me.id, "lapsed")).all():
            if take_up(db, row, until):
                return str(row.name)
        return seat(db, me, now, until)

    name = store.write(work)
    return None if name is None else view(store, person, name)


def view(store: Store, person: Person, name: str) -> Comparison:
    """A comparison that this person holds; any other is refused."""
    with store.read() as db:
        lease = db.execute(_mine(person, name)).first()
        if lease is not None and lease.state in ("held", "lapsed"):
            return _comparison(db, lease)
    refusal = not_yours(person)
    store.log(refusal)
    raise refusal


def submit(
    store: Store,
    person: Person,
    name: str,
    choice: str,
    *,
    seconds: float | None = None,
    note: str = "",
    form: str = "",
) -> None:
    """Hand in which reply is better: first, second, both or neither. When this returns it is on the disk."""
    if choice not in CHOICES:
        raise BadAnswers(f"The answer is {', '.join(CHOICES)}; got {choice[:50]!r}.")
    note = note_of(note)

    def work(db: Connection) -> None:
        lease, arena = _begin(store, db, person, name, form)
        now = store.clock()
        if lease.state == "lapsed" and not take_up(db, lease, now + arena.lease_seconds):
            raise refuse(person, "lapsed", "You were away for long, and somebody else has this comparison now.")
        one_left = db.execute(select(arena_slots.c.one_left).where(arena_slots.c.id == lease.slot)).scalar_one()
        revision = hand_in(db, COMPARING, lease, now, note)
        row = {"lease": lease.id, "revision": revision, "choice": choice, "one_left": one_left, "at": now}
        db.execute(insert(arena_votes).values(**row, seconds=seconds_of(seconds)))

    store.write(work)


def undo(store: Store, person: Person, *, form: str = "") -> Comparison | None:
    """Take back what this person handed in last, for some minutes and until the results are out. None: nothing."""

    def work(db: Connection) -> str | None:
        last = db.execute(in_state(COMPARING, person.id, "done")).first()
        if last is None:
            return None
        lease, arena = _begin(store, db, person, last.name, form, state="done")
        now = store.clock()
        if is_complete(db, person.project):
            raise refuse(person, "closed", "Every comparison has its vote, and the results are out.")
        if now - (lease.finished or 0.0) > arena.undo_seconds:
            raise refuse(person, "closed", "This was handed in a while ago and stays as it is.")
        take_back(db, COMPARING, lease.id, now, now + arena.lease_seconds)
        return str(lease.name)

    found = store.write(work)
    return None if found is None else view(store, person, found)


def skip(store: Store, person: Person, name: str, reason: str, *, distress: bool = False, form: str = "") -> None:
    """Give a comparison back for good, with a reason; `distress` when it was too hard to read. Others get it."""

    def work(db: Connection) -> None:
        lease, _ = _begin(store, db, person, name, form)
        put_away(db, COMPARING, lease.id, store.clock(), reason, distress)

    store.write(work)


def keep(store: Store, person: Person, name: str) -> bool:
    """Somebody is still reading: renew the lease. False when it has run out."""

    def work(db: Connection) -> bool:
        me = locked(store, db, person)
        lease = db.execute(_mine(me, name)).first()
        if lease is None or me.paused:
            return False
        return renew(db, COMPARING, lease.id, store.clock() + _arena(db, me.project).lease_seconds)

    return store.write(work)


def picture(store: Store, person: Person, name: str, number: int) -> Path:
    """The n-th picture of a comparison that was given to this person."""
    with store.read() as db:
        lease = db.execute(_mine(person, name)).first()
        album = None
        if lease is not None:
            content = db.execute(select(arena_cases.c.content).where(arena_cases.c.id == lease.case)).scalar_one()
            folder = db.execute(select(projects.c.images).where(projects.c.id == person.project)).scalar_one()
            case = from_json(content, Case)
            album = Album(case.id, case.images, folder)
    return picture_in(store, person, album, number, not_yours(person))


def not_yours(person: Person) -> Refused:
    return refuse(person, "not-yours", "This comparison was not given to you.")


def _begin(
    store: Store, db: Connection, person: Person, name: str, form: str, *, state: str = "held"
) -> tuple[Row[Any], Row[Any]]:
    """The lease and the arena, when this person may change it now."""
    me = acting(store, db, person, form)
    lease = db.execute(_mine(me, name)).first()
    if lease is None:
        raise not_yours(me)
    if me.paused:
        raise refuse(me, "paused", "Your coordinator has paused your work.")
    arena = _arena(db, me.project)
    if arena.closed is not None:
        raise refuse(me, "closed", "The arena has been closed, so nothing more is counted.")
    if lease.state != state and not (state == "held" and lease.state == "lapsed"):
        raise refuse(me, "closed", "This was handed in or put away already.")
    return lease, arena


def _comparison(db: Connection, lease: Row[Any]) -> Comparison:
    content = db.execute(select(arena_cases.c.content).where(arena_cases.c.id == lease.case)).scalar_one()
    case = from_json(content, Case)
    query = select(arena_replies.c.model, arena_replies.c.content).where(arena_replies.c.case == lease.case)
    said = {row.model: from_json(row.content, Reply) for row in db.execute(query)}
    slot = slot_of(db.execute(select(arena_slots).where(arena_slots.c.id == lease.slot)).one())
    left, right = said[slot.left], said[slot.right]
    shown = select(arenas.c.show_reasoning).where(arenas.c.project == select(arena_slots.c.project)
                                                  .where(arena_slots.c.id == lease.slot).scalar_subquery())  # fmt: skip
    thoughts = None
    if left.reasoning and right.reasoning and db.execute(shown).scalar_one():
        steps = [{step: render_step(one, step) for step in STEPS} for one in (left.reasoning, right.reasoning)]
        thoughts = (steps[0], steps[1])
    last = db.execute(
        select(arena_votes).where(arena_votes.c.lease == lease.id, arena_votes.c.revision == lease.revision)
    ).first()
    return Comparison(
        lease.name, case.language, case.history, left.response, right.response, thoughts,
        choice=last.choice if last else None, note=lease.note, seconds=(last.seconds or 0.0) if last else 0.0,
    )  # fmt: skip


def _mine(person: Person, name: str) -> Any:
    return select(arena_leases).where(arena_leases.c.name == name[:64], arena_leases.c.annotator == person.id)


def _arena(db: Connection, project: int) -> Row[Any]:
    settings = (projects.c.lease_seconds, projects.c.undo_seconds, arenas.c.closed)
    query: Select[Any] = select(*settings).join(arenas)
    return db.execute(query.where(projects.c.id == project)).one()
