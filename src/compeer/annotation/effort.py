"""What people have done, counted from their leases: each person for the coordinator, one's own part for oneself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, case, func, select

from compeer.annotation.lease import Book
from compeer.annotation.people import Person, Role
from compeer.annotation.store.tables import annotators


class PersonProgress(msgspec.Struct, frozen=True):
    """What one person has done."""

    id: int
    name: str
    role: Role
    paused: bool
    invited: bool
    done: int
    held: int
    skipped: int
    distressed: int
    seconds: float | None  # mean for one thing that was judged


class Own(msgspec.Struct, frozen=True):
    """Somebody's own counts; today by UTC."""

    done: int
    today: int
    skipped: int


def efforts(db: Connection, book: Book, project: int, seconds: Select[Any]) -> list[PersonProgress]:
    """Everybody in the order in which they came; `seconds` selects people with the mean of theirs."""
    leases, skips = book.leases.c, book.skips.c
    here = leases.annotator.in_(select(annotators.c.id).where(annotators.c.project == project))
    states = select(leases.annotator, leases.state, func.count()).where(here).group_by(leases.annotator, leases.state)
    counts = {(who, state): count for who, state, count in db.execute(states)}
    hurt = select(leases.annotator, func.count()).join_from(book.skips, book.leases, skips.lease == leases.id)
    hurt = hurt.where(here, skips.distress).group_by(leases.annotator)
    distressed: dict[int, int] = {row[0]: row[1] for row in db.execute(hurt)}
    means: dict[int, float | None] = {row[0]: row[1] for row in db.execute(seconds)}
    everybody = select(annotators).where(annotators.c.project == project).order_by(annotators.c.id)
    return [
        PersonProgress(
            id=row.id,
            name=row.name,
            role=row.role,
            paused=row.paused,
            invited=row.token is not None,
            done=counts.get((row.id, "done"), 0),
            held=counts.get((row.id, "held"), 0),
            skipped=counts.get((row.id, "skipped"), 0),
            distressed=distressed.get(row.id, 0),
            seconds=means.get(row.id),
        )
        for row in db.execute(everybody)
    ]


def own(db: Connection, book: Book, person: Person, now: float) -> Own:
    """What this person has done."""
    midnight = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    leases = book.leases.c
    done = leases.state == "done"
    counts = select(
        func.count(case((done, 1))),
        func.count(case((done & (leases.finished >= midnight), 1))),
        func.count(case((leases.state == "skipped", 1))),
    )
    return Own(*db.execute(counts.where(leases.annotator == person.id)).one())
