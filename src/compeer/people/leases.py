"""What labelling and the arena do alike with leases: find them, keep them, finish, take back, put away, lapse.

A lease is a person's one relation to one thing to judge. What a place is differs (a pass at an item, a slot of a pair);
the rest of a lease's life is the same and stands here once. A `Book` says in which tables.

The places at an item: which are taken, what the item waits for, and giving a place back.

Every change of an item locks its row first and calls `settle` last. `settle` works out from votes and leases, by the
rules of `protocol`, what the item waits for, and writes it where the queue looks (`items.stage`, `items.rank`); it also
draws the item for the audit when it closes.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple, get_args

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, bindparam, delete, insert, select, update

from compeer.cer.item import Question
from compeer.people.protocol import PLACES, Answer, Ballot, Pass, Stage, answer_of, disputed, stage
from compeer.people.store import tables
from compeer.people.store import tables as arena_tables
from compeer.people.store.database import Store
from compeer.people.store.tables import audit_draws, items, leases, projects, votes

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


def lapse_lease(db: Connection, book: Book, which: ColumnElement[bool]) -> int:
    """Return the places of those that are held; whoever had one may take it up again while it is free."""
    free = update(book.leases).where(book.leases.c.state == "held", which)
    return db.execute(free.values(state="lapsed", **{book.place: None})).rowcount


def change(db: Connection, book: Book, lease: int, **values: Any) -> None:
    db.execute(update(book.leases).where(book.leases.c.id == lease).values(**values))


#: what the queue hands out first: a third vote, then items begun, then audits, then untouched items; 0: no free place
THIRD, BEGUN, AUDIT, FRESH, NOTHING = 4, 3, 2, 1, 0
_LAPSE_AT_ONCE = 50

# asked for every item again and again, so built once
_ITEM = select(
    items.c.id, items.c.project, items.c.name, items.c.questions, items.c.stage, items.c.rank
).where(items.c.id == bindparam("number"))  # fmt: skip
_LEASE = select(leases).where(leases.c.item == bindparam("number"), leases.c.annotator == bindparam("person"))
_VALID = (votes.c.lease == leases.c.id) & (votes.c.revision == leases.c.revision) & (leases.c.state == "done")
_SITTING = (
    select(leases, votes.c.question, votes.c.answer)
    .outerjoin(votes, _VALID)
    .where(leases.c.item == bindparam("number"), leases.c.place.is_not(None))
    .order_by(leases.c.place)
)
_NEW: dict[str, Any] = {"stage": bindparam("stands"), "rank": bindparam("first"), "begun_by": bindparam("alone")}
_WAITS = update(items).where(items.c.id == bindparam("number")).values(**_NEW)


def lock_item(store: Store, db: Connection, item: int) -> Row[Any] | None:
    """The item, locked until the transaction ends."""
    return db.execute(store.locked(_ITEM), {"number": item}).first() if is_number(item) else None


def lease_of(db: Connection, item: int, annotator: int) -> Row[Any] | None:
    """A person's relation to an item, if they have one."""
    if not is_number(item):
        return None
    return db.execute(_LEASE, {"number": item, "person": annotator}).first()


def is_number(item: int) -> bool:
    """Whether this can be an item's number at all; it may come from an address somebody typed."""
    return 0 < item < 2**31


def questions_of(text: str) -> tuple[Question, ...]:
    """Questions as they are kept in a column."""
    known: tuple[Question, ...] = get_args(Question)
    return tuple(question for question in known if question in text.split(","))


class Sitting(NamedTuple):
    """Who sits at an item, and what they have said: leases that are held or done by place, and the valid ballots."""

    seats: dict[int, Any]
    ballots: list[Ballot]

    def free(self, turn: Pass) -> int | None:
        return next((place for place in PLACES[turn] if place not in self.seats), None)


def sitting(db: Connection, item: int) -> Sitting:
    """The places of one item with their ballots, in the order of the places."""
    rows = db.execute(_SITTING, {"number": item}).all()
    answers: dict[int, dict[Question, Answer]] = {}
    for row in rows:
        if row.question is not None:
            answers.setdefault(row.place, {})[row.question] = answer_of(row.question, row.answer)
    seats = {row.place: row for row in rows}
    cast = [Ballot(str(seats[place].annotator), seats[place].turn, given) for place, given in answers.items()]
    return Sitting(seats, cast)


def asked(questions: tuple[Question, ...], turn: Pass, cast: list[Ballot]) -> tuple[Question, ...]:
    """What a person in this pass is asked: the third exactly what is disputed, the others everything."""
    return disputed(questions, cast) if turn == "third" else questions


def turn_of(now: Stage) -> Pass:
    """The pass in which an item at this stage is worked on."""
    passes: dict[Stage, Pass] = {"first": "first", "third": "third", "closed": "audit"}
    return passes[now]


def settle(db: Connection, item: Row[Any], now: float) -> Stage:
    """Work out what the item waits for and tell the queue."""
    at = sitting(db, item.id)
    stands = stage(questions_of(item.questions), at.ballots)
    free = [place for place in PLACES[turn_of(stands)] if place not in at.seats]
    if stands == "first":
        rank = (FRESH if len(free) == 2 else BEGUN) if free else NOTHING
    elif stands == "third":
        rank = THIRD if free else NOTHING
    else:
        rank = AUDIT if free and _drawn(db, item, now) else NOTHING
    if item.stage == "closed" and stands != "closed":  # undone: it is drawn anew when it closes again
        db.execute(delete(audit_draws).where(audit_draws.c.item == item.id))
    alone = next(iter(at.seats.values())).annotator if rank == BEGUN else None
    db.execute(_WAITS, {"number": item.id, "stands": stands, "first": rank, "alone": alone})
    return stands


def give_back(store: Store, db: Connection, lease: int) -> None:
    """Free the place of a lease that is held; whoever held it may take it up again while it is free."""
    row = db.execute(select(leases.c.item).where(leases.c.id == lease)).one()
    item = lock_item(store, db, row.item)
    if item is not None and lapse_lease(db, LABELLING, leases.c.id == lease):
        settle(db, item, store.clock())


def lapse(store: Store) -> None:
    """Return the places of leases that have run out. Items somebody works on at this moment are left for later."""
    now = store.clock()
    due = select(leases.c.id, leases.c.item).where(leases.c.state == "held", leases.c.expires < now)
    due = due.order_by(leases.c.item).limit(_LAPSE_AT_ONCE)
    with store.read() as db:
        if db.execute(due.limit(1)).first() is None:
            return

    def work(db: Connection) -> None:
        for lease, number in db.execute(due).all():
            item = db.execute(store.locked(_ITEM, skip=True), {"number": number}).first()
            due_still = (leases.c.id == lease) & (leases.c.expires < now)
            if item is not None and lapse_lease(db, LABELLING, due_still):
                settle(db, item, now)

    store.write(work)


def _drawn(db: Connection, item: Row[Any], now: float) -> bool:
    """Whether a closed item goes out again. The draw hangs on the seed and the item alone, not on when it closes."""
    if db.execute(select(audit_draws.c.item).where(audit_draws.c.item == item.id)).first() is not None:
        return True
    project = db.execute(select(projects.c.seed, projects.c.audit_share).where(projects.c.id == item.project)).one()
    digest = hashlib.sha256(f"audit\x1f{project.seed}\x1f{item.name}".encode()).digest()
    if int.from_bytes(digest[:8], "big") / 2**64 >= project.audit_share:
        return False
    db.execute(insert(audit_draws).values(item=item.id, at=now))
    return True
