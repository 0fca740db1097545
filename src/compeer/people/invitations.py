"""The people of a project or an arena: coordinators and annotators, their personal links, pausing, signing in, forms.

A personal link holds a random token of 256 bits. Only its SHA-256 is kept, which is right for something nobody could
guess (slow hashes are for passwords). A new link makes the old one worthless, and the session that was begun with it:
a session holds the person's number and `key`, a part of the token's hash.

Each form of a page carries a random name, which is recorded in the same transaction as what the form does. So a form
either did its work or may be sent again, and never works twice.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, delete, insert, select, update

from compeer.errors import UserError
from compeer.people.refusal import Refused, refuse
from compeer.people.store import Store
from compeer.people.tables import annotators, arena_leases, forms, leases

Role = Literal["coordinator", "annotator"]
_FORMS_KEPT = 7 * 86400.0  # seconds; a page's forms must end sooner than this


class Person(msgspec.Struct, frozen=True):
    """A member of one project. `key` changes with every new link and is empty without a link."""

    id: int
    project: int
    name: str
    role: Role
    paused: bool
    key: str


class Invitation(NamedTuple):
    """A person and the token of their link. The token is shown once and not stored."""

    person: Person
    token: str


def is_valid_name(name: str) -> bool:
    """Whether a person, a project or an arena can have this name."""
    return 0 < len(name) <= 100 and name.isprintable()


def invite(store: Store, project: int, name: str, role: Role = "annotator") -> Invitation:
    """Add a person to a project, with a personal link."""
    name = name.strip()
    if not is_valid_name(name):
        raise UserError(f"A name has 1 to 100 printable characters; got {name[:120]!r}.")
    token = secrets.token_urlsafe(32)

    def work(db: Connection) -> Person:
        known = db.execute(select(annotators).where(annotators.c.project == project, annotators.c.name == name)).first()
        if known is not None and known.token is not None:
            raise UserError(f"{name} has a link already. To replace one that was lost: invite --new-link")
        if known is not None:  # imported with their votes, or revoked: the link is new, the person is not
            db.execute(update(annotators).where(annotators.c.id == known.id).values(token=_hash(token), role=role))
            return _read(db, known.id)
        return _read(db, add_person(db, project, name, role, store.clock(), _hash(token)))

    return Invitation(store.write(work), token)


def new_link(store: Store, project: int, name: str) -> Invitation:
    """Another link for a person; the old one and its sessions end."""
    token = secrets.token_urlsafe(32)
    return Invitation(_change(store, project, name, token=_hash(token)), token)


def revoke(store: Store, project: int, name: str) -> Person:
    """End a person's access. Their votes stay; what they hold goes back to the queue."""
    return _change(store, project, name, token=None)


def pause(store: Store, project: int, name: str, paused: bool = True) -> Person:
    """Give a person no more work for now, or resume. What they hold goes back to the queue."""
    return _change(store, project, name, paused=paused)


def sign_in(store: Store, token: str, address: str = "") -> Person:
    """The person of a token. An unknown token is refused and logged, without the token."""
    found = find_by_token(store, token)
    if found is None:
        refusal = Refused("token", "This link is not valid, or no longer valid. Ask your coordinator for a new one.")
        store.log(refusal, address)
        raise refusal
    return found


def find_by_token(store: Store, token: str) -> Person | None:
    """The person of a token, or None, without refusing anything."""
    with store.read() as db:
        row = db.execute(select(annotators).where(annotators.c.token == _hash(token))).first()
    return None if row is None else _person(row)


def find_by_session(store: Store, number: int, key: str) -> Person | None:
    """The person of a session, or None when their link was replaced or revoked since."""
    with store.read() as db:
        row = db.execute(select(annotators).where(annotators.c.id == number)).first()
    if row is None or row.token is None or not hmac.compare_digest(_session_key(row.token).encode(), key.encode()):
        return None
    return _person(row)


def require_coordinator(person: Person) -> Person:
    """The same person, if they are a coordinator; otherwise refused. Log it with `store.log`."""
    if person.role != "coordinator":
        raise refuse(person, "role", "This page is for the coordinator.")
    return person


def people_of(store: Store, project: int) -> list[Person]:
    """All people of a project, in the order they were added."""
    with store.read() as db:
        rows = db.execute(select(annotators).where(annotators.c.project == project).order_by(annotators.c.id))
        return [_person(row) for row in rows]


def add_person(db: Connection, project: int, name: str, role: Role, now: float, token: str | None) -> int:
    """Insert a person; returns their number."""
    row = {"project": project, "name": name, "role": role, "token": token, "paused": False, "created": now}
    return int(db.execute(insert(annotators).values(**row).returning(annotators.c.id)).scalar_one())


def lock_person(store: Store, db: Connection, person: Person, form: str = "") -> Person:
    """The person as they are now, locked, so that two windows of one person take turns.

    A `form` is used up: refused when it was sent before. Commands have no forms, so without a name there is no check.
    """
    row = db.execute(store.locked(select(annotators).where(annotators.c.id == person.id))).first()
    if row is None or row.token is None:
        raise refuse(person, "token", "Your access has ended.")
    if form:
        name, now = hashlib.sha256(form.encode("utf-8", "replace")).hexdigest(), store.clock()
        if db.execute(select(forms.c.form).where(forms.c.form == name)).first() is not None:
            raise refuse(person, "form", "This form was sent before; nothing was changed this time.")
        db.execute(delete(forms).where(forms.c.at < now - _FORMS_KEPT))
        db.execute(insert(forms).values(form=name, annotator=person.id, at=now))
    return _person(row)


def _change(store: Store, project: int, name: str, **values: Any) -> Person:
    def work(db: Connection) -> Person:
        query = select(annotators).where(annotators.c.project == project, annotators.c.name == name)
        row = db.execute(store.locked(query)).first()
        if row is None:
            raise UserError(f"There is no {name} in this project. The command status lists its people.")
        db.execute(update(annotators).where(annotators.c.id == row.id).values(**values))
        if values.get("paused") or ("token" in values and values["token"] is None):
            for table in (leases, arena_leases):  # they expire at once, and the queue gives their places to others
                held = update(table).where(table.c.annotator == row.id, table.c.state == "held")
                db.execute(held.values(expires=0.0))
        return _read(db, row.id)

    return store.write(work)


def _read(db: Connection, number: int) -> Person:
    return _person(db.execute(select(annotators).where(annotators.c.id == number)).one())


def _person(row: Row[Any]) -> Person:
    key = _session_key(row.token) if row.token else ""
    return Person(row.id, row.project, row.name, row.role, row.paused, key)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _session_key(token_hash: str) -> str:
    return hashlib.sha256(b"session " + token_hash.encode()).hexdigest()[:32]
