"""The slots of an arena: giving one to a person, going on with one that lapsed, and returning those that ran out."""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy import Connection, Row, exists, func, insert, select

from compeer.annotation import lease as leasing
from compeer.annotation.lease import COMPARING
from compeer.annotation.people import Person
from compeer.annotation.store.arena_tables import arena_leases, arena_slots
from compeer.annotation.store.tables import annotators
from compeer.arena.pairing import WINDOW, Slot, choose


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
    leasing.lapse(db, COMPARING, (arena_leases.c.expires < now) & arena_leases.c.annotator.in_(people))


def is_complete(db: Connection, project: int) -> bool:
    """Whether every slot of an arena has its vote."""
    slots = select(func.count()).where(arena_slots.c.project == project)
    done = select(func.count()).join_from(arena_leases, arena_slots, arena_leases.c.seat == arena_slots.c.id)
    done = done.where(arena_slots.c.project == project, arena_leases.c.state == "done")
    return bool(db.execute(slots).scalar_one() == db.execute(done).scalar_one())


def slot_of(row: Row[Any]) -> Slot:
    return Slot(row.case, row.one, row.two, row.place, row.one_left)
