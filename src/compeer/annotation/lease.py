"""What labelling and the arena do alike with leases: find them, keep them, finish, take back, put away, lapse.

A lease is a person's one relation to one thing to judge. What a place is differs (a pass at an item, a slot of a pair);
the rest of a lease's life is the same and stands here once. A `Book` says in which tables.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, insert, select, update

from compeer.annotation.store import arena_tables, tables

LONGEST_REASON = 2000


class Book(NamedTuple):
    """Where one kind of leases is kept; `place` names the column that is empty when a place was given back."""

    leases: Table
    votes: Table
    skips: Table
    place: str


LABELLING = Book(tables.leases, tables.votes, tables.skips, "place")
COMPARING = Book(arena_tables.arena_leases, arena_tables.arena_votes, arena_tables.arena_skips, "seat")


def in_state(book: Book, person: int, state: str) -> Select[Any]:
    """A person's leases in a state, the newest first."""
    leases = book.leases.c
    newest = leases.finished if state == "done" else leases.opened
    query = select(book.leases).where(leases.annotator == person, leases.state == state)
    return query.order_by(newest.desc(), leases.id.desc())


def held(db: Connection, book: Book, person: int, expires: float) -> Row[Any] | None:
    """What somebody holds, renewed because they asked for it again."""
    found = db.execute(in_state(book, person, "held")).first()
    if found is not None:
        change(db, book, found.id, expires=expires)
    return found


def renew(db: Connection, book: Book, lease: int, expires: float) -> bool:
    """Somebody is still at it. False when the lease has run out meanwhile."""
    still = update(book.leases).where(book.leases.c.id == lease, book.leases.c.state == "held")
    return bool(db.execute(still.values(expires=expires)).rowcount)


def hand_in(db: Connection, book: Book, lease: Row[Any], now: float, note: str) -> int:
    """The lease is done; returns the revision that its votes belong to."""
    revision = int(lease.revision) + 1
    change(db, book, lease.id, state="done", revision=revision, finished=now, note=note)
    return revision


def take_back(db: Connection, book: Book, lease: int, now: float, expires: float) -> None:
    """What was handed in is in somebody's hands again."""
    change(db, book, lease, state="held", opened=now, expires=expires, finished=None)


def put_away(db: Connection, book: Book, lease: int, now: float, reason: str, distress: bool) -> None:
    """Given back for good, with the reason."""
    change(db, book, lease, state="skipped", finished=now, **{book.place: None})
    said = reason.replace("\x00", "").strip()[:LONGEST_REASON]
    db.execute(insert(book.skips).values(lease=lease, at=now, reason=said, distress=distress))


def lapse(db: Connection, book: Book, which: ColumnElement[bool]) -> int:
    """Return the places of those that are held; whoever had one may take it up again while it is free."""
    free = update(book.leases).where(book.leases.c.state == "held", which)
    return db.execute(free.values(state="lapsed", **{book.place: None})).rowcount


def change(db: Connection, book: Book, lease: int, **values: Any) -> None:
    db.execute(update(book.leases).where(book.leases.c.id == lease).values(**values))
