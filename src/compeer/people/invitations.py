"""The people of a labelling project or an arena: coordinators and annotators, their invitations, pausing, coming in.

An invitation is a personal link with a random token of 256 bits. Only its SHA-256 is kept, which is right for
something nobody could guess (slow hashes are for passwords). A new link makes the old one worthless, and the session
that was begun with it: a session holds the person's number and `key`, a part of the token's hash.

Forms that were sent before: each page carries a random name, and what is done with it is done once.

The name is noted in the same transaction as what the form does, so a form either did its work or may be sent again,
and never works twice.

What people have done, counted from their leases: each person for the coordinator, one's own part for oneself.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, Select, case, delete, func, insert, select, update

from compeer.errors import UserError
from compeer.people.leases import COMPARING, Book, give_back, lapse_lease
from compeer.people.refusal import Refused, refuse
from compeer.people.store.database import Store
from compeer.people.store.tables import annotators, forms, leases

Role = Literal["coordinator", "annotator"]


class Person(msgspec.Struct, frozen=True):
    """Somebody in one project. `key` changes with every new link and is empty for who has none."""

    id: int
    project: int
    name: str
    role: Role
    paused: bool
    key: str


class Invitation(NamedTuple):
    """A person and the token of their link. The token is shown once and kept nowhere."""

    person: Person
    token: str


def fit_name(name: str) -> bool:
    """Whether somebody or something can be called this."""
    return 0 < len(name) <= 100 and name.isprintable()


def invite(store: Store, project: int, name: str, role: Role = "annotator") -> Invitation:
    """Add a person to a project, with a link of their own."""
    name = name.strip()
    if not fit_name(name):
        raise UserError(f"A name has 1 to 100 printable characters; got {name[:120]!r}.")
    token = secrets.token_urlsafe(32)

    def work(db: Connection) -> Person:
        known = db.execute(select(annotators).where(annotators.c.project == project, annotators.c.name == name)).first()
        if known is not None and known.token is not None:
            raise UserError(f"{name} has a link already. To replace one that was lost: invite --new-link")
        if known is not None:  # imported with their votes, or revoked: the link is new, the person is not
            db.execute(update(annotators).where(annotators.c.id == known.id).values(token=_hash(token), role=role))
            return _fresh(db, known.id)
        return _fresh(db, add(db, project, name, role, store.clock(), _hash(token)))

    return Invitation(store.write(work), token)


def new_link(store: Store, project: int, name: str) -> Invitation:
    """Another link for somebody; the old one and its sessions end."""
    token = secrets.token_urlsafe(32)
    return Invitation(_change(store, project, name, token=_hash(token)), token)


def revoke(store: Store, project: int, name: str) -> Person:
    """End somebody's access. Their votes stay; what they hold goes back to the queue."""
    return _change(store, project, name, token=None)


def pause(store: Store, project: int, name: str, paused: bool = True) -> Person:
    """Give somebody nothing more for the time being, or go on. What they hold goes back to the queue."""
    return _change(store, project, name, paused=paused)


def come_in(store: Store, token: str, address: str = "") -> Person:
    """Whose token this is. What is no token of ours is refused and noted, without the token."""
    found = whose(store, token)
    if found is None:
        refusal = Refused("token", "This link is not valid, or not any more. Ask your coordinator for a new one.")
        store.log(refusal, address)
        raise refusal
    return found


def whose(store: Store, token: str) -> Person | None:
    """The same as a question, without refusing anything."""
    with store.read() as db:
        row = db.execute(select(annotators).where(annotators.c.token == _hash(token))).first()
    return None if row is None else _person(row)


def returning(store: Store, number: int, key: str) -> Person | None:
    """The person of a session, or None when their link was replaced or revoked since."""
    with store.read() as db:
        row = db.execute(select(annotators).where(annotators.c.id == number)).first()
    if row is None or row.token is None or not hmac.compare_digest(_key(row.token).encode(), key.encode()):
        return None
    return _person(row)


def coordinator(person: Person) -> Person:
    """The same person, if they are a coordinator; else refused. Log it with `store.log`."""
    if person.role != "coordinator":
        raise refuse(person, "role", "This page is for the coordinator.")
    return person


def everybody(store: Store, project: int) -> list[Person]:
    """All people of a project, in the order they were added."""
    with store.read() as db:
        rows = db.execute(select(annotators).where(annotators.c.project == project).order_by(annotators.c.id))
        return [_person(row) for row in rows]


def add(db: Connection, project: int, name: str, role: Role, now: float, token: str | None) -> int:
    """Insert a person; returns their number."""
    row = {"project": project, "name": name, "role": role, "token": token, "paused": False, "created": now}
    return int(db.execute(insert(annotators).values(**row).returning(annotators.c.id)).scalar_one())


def locked(store: Store, db: Connection, person: Person) -> Person:
    """The person as they are now, locked: two windows of one person take turns."""
    row = db.execute(store.locked(select(annotators).where(annotators.c.id == person.id))).first()
    if row is None or row.token is None:
        raise refuse(person, "token", "Your access has ended.")
    return _person(row)


def _change(store: Store, project: int, name: str, **values: Any) -> Person:
    def work(db: Connection) -> Person:
        query = select(annotators).where(annotators.c.project == project, annotators.c.name == name)
        row = db.execute(store.locked(query)).first()
        if row is None:
            raise UserError(f"Nobody called {name} is here. The status shows who is.")
        db.execute(update(annotators).where(annotators.c.id == row.id).values(**values))
        if values.get("paused") or ("token" in values and values["token"] is None):
            query = select(leases.c.id).where(leases.c.annotator == row.id, leases.c.state == "held")
            for lease in db.execute(query.order_by(leases.c.item)).scalars().all():
                give_back(store, db, lease)
            lapse_lease(db, COMPARING, COMPARING.leases.c.annotator == row.id)
        return _fresh(db, row.id)

    return store.write(work)


def _fresh(db: Connection, number: int) -> Person:
    return _person(db.execute(select(annotators).where(annotators.c.id == number)).one())


def _person(row: Row[Any]) -> Person:
    key = _key(row.token) if row.token else ""
    return Person(row.id, row.project, row.name, row.role, row.paused, key)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _key(token_hash: str) -> str:
    return hashlib.sha256(b"session " + token_hash.encode()).hexdigest()[:32]


_KEPT = 7 * 86400.0  # seconds; a page's forms must end sooner than this


def acting(store: Store, db: Connection, person: Person, form: str) -> Person:
    """The person as they are now, locked, and their form used: how everything that changes something begins."""
    me = locked(store, db, person)
    use(store, db, me, form)
    return me


def use(store: Store, db: Connection, person: Person, form: str) -> None:
    """Note that a form was used; refused when it was before. No name, no check: commands have no forms."""
    if not form:
        return
    name, now = hashlib.sha256(form.encode("utf-8", "replace")).hexdigest(), store.clock()
    if db.execute(select(forms.c.form).where(forms.c.form == name)).first() is not None:
        raise refuse(person, "form", "This was sent before and has been dealt with; nothing was changed this time.")
    db.execute(delete(forms).where(forms.c.at < now - _KEPT))
    db.execute(insert(forms).values(form=name, annotator=person.id, at=now))


def use_form(store: Store, person: Person, form: str) -> None:
    """The same for what a page does besides voting, such as a coordinator's invitations."""
    store.write(lambda db: use(store, db, person, form))


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
