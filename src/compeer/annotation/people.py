"""The people of a labelling project or an arena: coordinators and annotators, their invitations, pausing, coming in.

An invitation is a personal link with a random token of 256 bits. Only its SHA-256 is kept, which is right for
something nobody could guess (slow hashes are for passwords). A new link makes the old one worthless, and the session
that was begun with it: a session holds the person's number and `key`, a part of the token's hash.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, insert, select, update

from compeer.annotation.lease import COMPARING, lapse
from compeer.annotation.refusal import Refused, refuse
from compeer.annotation.seats import give_back
from compeer.annotation.store.database import Store
from compeer.annotation.store.tables import annotators, leases
from compeer.errors import UserError

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
            lapse(db, COMPARING, COMPARING.leases.c.annotator == row.id)
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
