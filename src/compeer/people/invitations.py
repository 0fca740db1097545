"""People: one account and one personal link per person, what they take part in, pausing, signing in, forms.

An account is a person of this database. Its link opens everything that the person was invited to: each project or arena
has a row for them (`Person`), to which their votes belong. Whoever is invited under a name that an account has already
gets no second link. A coordinator's account is apart from an annotator's, even under the same name.

A personal link holds a random token of 256 bits. Only its SHA-256 is kept, which is right for something nobody could
guess (slow hashes are for passwords). A new link makes the old one worthless, and the session that was begun with it:
a session holds the account's number and `key`, a part of the token's hash.

Each form of a page carries a random name, which is recorded in the same transaction as what the form does. So a form
either did its work or may be sent again, and never works twice.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, update

from compeer.errors import UserError
from compeer.people.store import Refused, Store, refuse, transaction
from compeer.people.tables import accounts, annotators, arena_leases, forms, holds, leases
from compeer.reasoning.ontology import LANGUAGES, Language

Role = Literal["coordinator", "annotator"]
_FORMS_KEPT = 7 * 86400.0  # seconds; a page's forms must end sooner than this
_PEOPLE = select(annotators, accounts.c.languages).outerjoin(accounts, accounts.c.id == annotators.c.account)


class Person(msgspec.Struct, frozen=True):
    """A member of one project or arena. They get only what is in their `languages`, and `quota` items at most."""

    id: int
    project: int
    name: str
    role: Role
    paused: bool = False
    invited: bool = False  # can come in
    languages: tuple[Language, ...] = LANGUAGES
    quota: int | None = None  # None: the project's


class Account(msgspec.Struct, frozen=True):
    """A person and what they take part in. `key` changes with every new link."""

    id: int
    name: str
    role: Role
    key: str
    people: tuple[Person, ...]


class Invitation(NamedTuple):
    """A person and the token of their link, which is shown once and not stored. None: they use the link they have."""

    person: Person
    token: str | None


def is_valid_name(name: str) -> bool:
    """Whether a person, a project or an arena can have this name."""
    return 0 < len(name) <= 100 and name.isprintable()


def check_quota(quota: int | None) -> None:
    """UserError where this cannot be the most that one person gets."""
    if quota is not None and quota < 1:
        raise UserError(f"The most that one person gets is at least 1; got {quota}.")


@transaction
def invite(
    store: Store, db: Connection, project: int, name: str, role: Role = "annotator", languages: Iterable[Language] = ()
) -> Invitation:
    """Add a person to a project, with a personal link unless they have one. `languages`: none given means all."""
    name = name.strip()
    if not is_valid_name(name):
        raise UserError(f"A name has 1 to 100 printable characters; got {name[:120]!r}.")
    known = db.execute(select(annotators).where(annotators.c.project == project, annotators.c.name == name)).first()
    if known is not None and known.token is not None:
        raise UserError(f"{name} has a link already. To replace one that was lost: invite --new-link")
    same = select(accounts.c.id).where(accounts.c.name == name, accounts.c.role == role).order_by(accounts.c.id)
    account, token = db.execute(same).scalar(), None
    if account is None:
        token = secrets.token_urlsafe(32)
        row = {"name": name, "role": role, "token": _hash(token), "languages": _join(languages)}
        account = db.execute(insert(accounts).values(**row, created=store.clock()).returning(accounts.c.id)).scalar()
    # who was imported with their votes, or revoked, is there: the access is new, the person is not
    number = add_person(db, project, name, role, store.clock()) if known is None else int(known.id)
    here = {"account": account, "token": secrets.token_hex(32), "role": role}
    db.execute(update(annotators).where(annotators.c.id == number).values(**here))
    return Invitation(_read(db, number), token)


def new_link(store: Store, project: int, name: str) -> Invitation:
    """Another link for a person, wherever they take part; the old one and its sessions end."""
    known = next((one for one in people_of(store, project) if one.name == name), None)
    if known is not None and not known.invited:  # imported with their votes, or revoked
        return invite(store, project, name, known.role)
    return _replace_token(store, project, name)


@transaction
def _replace_token(store: Store, db: Connection, project: int, name: str) -> Invitation:
    row, token = lock_named(store, db, project, name), secrets.token_urlsafe(32)
    db.execute(update(accounts).where(accounts.c.id == row.account).values(token=_hash(token)))
    return Invitation(_read(db, row.id), token)


@transaction
def revoke(store: Store, db: Connection, project: int, name: str) -> Person:
    """End a person's access to one project. Their votes stay; what they hold goes back to the queue."""
    row = lock_named(store, db, project, name)
    db.execute(update(annotators).where(annotators.c.id == row.id).values(token=None, account=None))
    elsewhere = select(annotators.c.id).where(annotators.c.account == row.account)
    if row.account is not None and db.execute(elsewhere).first() is None:
        db.execute(delete(accounts).where(accounts.c.id == row.account))
    give_back(db, row.id)
    return _read(db, row.id)


@transaction
def pause(store: Store, db: Connection, project: int, name: str, paused: bool = True) -> Person:
    """Give a person no more work for now, or resume. What they hold goes back to the queue."""
    row = lock_named(store, db, project, name)
    waiting = select(holds.c.id).where(holds.c.annotator == row.id, holds.c.decision == "open")
    if not paused and db.execute(waiting).first() is not None:
        raise UserError(f"The labels of {name} are on hold: release or discard them first.")
    set_paused(db, row.id, paused)
    return _read(db, row.id)


@transaction
def set_limits(
    store: Store,
    db: Connection,
    project: int,
    name: str,
    *,
    languages: Iterable[Language] | None = None,
    quota: int | None = None,
) -> Person:
    """Set which languages a person reads (everywhere; None: as before), and the most items they get in this project."""
    check_quota(quota)
    row = lock_named(store, db, project, name)
    db.execute(update(annotators).where(annotators.c.id == row.id).values(quota=quota))
    if languages is not None:
        db.execute(update(accounts).where(accounts.c.id == row.account).values(languages=_join(languages)))
    return _read(db, row.id)


def sign_in(store: Store, token: str) -> Account:
    """The account of a token. An unknown token is refused and logged, without the token."""
    found = find_by_token(store, token)
    if found is None:
        refusal = Refused("token", "This link is not valid, or no longer valid. Ask your coordinator for a new one.")
        store.log(refusal)
        raise refusal
    return found


def find_by_token(store: Store, token: str) -> Account | None:
    """The account of a token, or None, without refusing anything."""
    return _account(store, accounts.c.token == _hash(token))


def find_by_session(store: Store, number: int, key: str) -> Account | None:
    """The account of a session, or None when their link was replaced or revoked since."""
    found = _account(store, accounts.c.id == number)
    return found if found and hmac.compare_digest(found.key.encode(), key.encode()) else None


def account_of(store: Store, person: Person) -> Account | None:
    """The account that a member of a project belongs to."""
    return _account(store, accounts.c.id.in_(select(annotators.c.account).where(annotators.c.id == person.id)))


def people_of(store: Store, project: int) -> list[Person]:
    """All people of a project, in the order they were added."""
    with store.read() as db:
        return read_people(db, project)


def read_people(db: Connection, project: int) -> list[Person]:
    """All people of a project, within a transaction."""
    return list(map(_person, db.execute(_PEOPLE.where(annotators.c.project == project).order_by(annotators.c.id))))


def add_person(db: Connection, project: int, name: str, role: Role, now: float) -> int:
    """Insert a person without access; returns their number."""
    row = {"project": project, "name": name, "role": role, "paused": False, "created": now}
    return int(db.execute(insert(annotators).values(**row).returning(annotators.c.id)).scalar_one())


def lock_person(store: Store, db: Connection, person: Person, form: str = "") -> Person:
    """The person as they are now, locked, so that two windows of one person take turns.

    A `form` is used up: refused when it was sent before. Commands have no forms, so without a name there is no check.
    """
    row = db.execute(store.locked(select(annotators).where(annotators.c.id == person.id))).first()
    if row is None or row.token is None:
        raise refuse(person, "token", "Your access has ended.")
    if form:
        name, now = _hash(form), store.clock()
        if db.execute(select(forms.c.form).where(forms.c.form == name)).first() is not None:
            raise refuse(person, "form", "This form was sent before; nothing was changed this time.")
        db.execute(delete(forms).where(forms.c.at < now - _FORMS_KEPT))
        db.execute(insert(forms).values(form=name, annotator=person.id, at=now))
    return _read(db, row.id)


def lock_named(store: Store, db: Connection, project: int, name: str) -> Row[Any]:
    """A member of a project by name, locked."""
    query = select(annotators).where(annotators.c.project == project, annotators.c.name == name)
    row = db.execute(store.locked(query)).first()
    if row is None:
        raise UserError(f"There is no {name} in this project. The command status lists its people.")
    return row


def set_paused(db: Connection, number: int, paused: bool) -> None:
    db.execute(update(annotators).where(annotators.c.id == number).values(paused=paused))
    if paused:
        give_back(db, number)


def give_back(db: Connection, number: int) -> None:
    """Give what a person holds back to the queue."""
    for table in (leases, arena_leases):  # they expire at once, and the queue gives their places to others
        held = update(table).where(table.c.annotator == number, table.c.state == "held")
        db.execute(held.values(expires=0.0))


def _read(db: Connection, number: int) -> Person:
    return _person(db.execute(_PEOPLE.where(annotators.c.id == number)).one())


def _person(row: Row[Any]) -> Person:
    read = tuple(one for one in LANGUAGES if one in (row.languages or "").split(",")) or LANGUAGES
    return Person(row.id, row.project, row.name, row.role, row.paused, row.token is not None, read, row.quota)


def _account(store: Store, which: ColumnElement[bool]) -> Account | None:
    with store.read() as db:
        row = db.execute(select(accounts).where(which)).first()
        if row is None:
            return None
        members = db.execute(_PEOPLE.where(annotators.c.account == row.id).order_by(annotators.c.id))
        key = hashlib.sha256(b"session " + row.token.encode()).hexdigest()[:32]
        return Account(row.id, row.name, row.role, key, tuple(map(_person, members)))


def _join(languages: Iterable[Language]) -> str:
    return ",".join(one for one in LANGUAGES if one in set(languages))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
