"""What labelling projects and arenas have in common: a name of their own, the settings that people work under.

Both are rows of `projects`. They are made here, inside the transaction that adds what they consist of, and found again
by name.

Pictures of what people judge: asked for by number, read only from the folder of the project, links followed.

A page asks for "the second picture of this item", so a name never comes from outside. What is refused is noted.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from sqlalchemy import Connection, insert, select

from compeer.errors import UserError
from compeer.people.invitations import Person, fit_name
from compeer.people.refusal import Refused, refuse
from compeer.people.store.database import Store
from compeer.people.store.tables import projects


class Founded(Protocol):
    """A labelling project or an arena."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...


Kind = TypeVar("Kind", bound=Founded)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What people work under; `images` is the folder that pictures may come from.

    Without a seed one is drawn, and nobody can foretell what hangs on it: orders, sides, the audit.
    """

    name: str
    images: Path | None
    lease_minutes: float
    undo_minutes: float
    seed: int | None
    guideline: str = "1"
    audit_share: float = 0.0


def check(terms: Terms) -> None:
    """UserError where they cannot be."""
    if not fit_name(terms.name.strip()):
        raise UserError(f"A name has 1 to 100 printable characters; got {terms.name[:120]!r}.")
    if not 0 <= terms.audit_share <= 1:
        raise UserError(f"The share of the audit lies between 0 and 1; got {terms.audit_share}.")
    if terms.lease_minutes <= 0 or terms.undo_minutes < 0:
        raise UserError("A lease lasts more than 0 minutes, and the time to undo is not negative.")


def found(db: Connection, terms: Terms, now: float) -> tuple[int, int]:
    """The number of the new row, and its seed."""
    name = terms.name.strip()
    if db.execute(select(projects.c.id).where(projects.c.name == name)).first() is not None:
        raise UserError(f"There is a project or an arena {name} in this database already; choose another name.")
    seed = secrets.randbits(31) if terms.seed is None else terms.seed
    row: dict[str, Any] = {
        "name": name,
        "created": now,
        "seed": seed,
        "guideline": terms.guideline,
        "lease_seconds": 60 * terms.lease_minutes,
        "undo_seconds": 60 * terms.undo_minutes,
        "audit_share": terms.audit_share,
        "images": str(terms.images.resolve()) if terms.images else None,
    }
    return int(db.execute(insert(projects).values(**row).returning(projects.c.id)).scalar_one()), seed


def taken(store: Store, name: str) -> bool:
    """Whether a project or an arena has this name."""
    with store.read() as db:
        return db.execute(select(projects.c.id).where(projects.c.name == name.strip())).first() is not None


def called(known: Sequence[Kind], name: str | None, what: str, command: str) -> Kind:
    """The one of this name, or the only one; `what` they are and the `command` that makes one, for the messages."""
    fitting = [one for one in known if name is None or one.name == name]
    if len(fitting) == 1:
        return fitting[0]
    if not known:
        raise UserError(f"There is no {what} in this database yet; {command} makes one.")
    names = ", ".join(one.name for one in known)
    raise UserError(f"Which {what}? Name it with --name; there are: {names}." if name is None
                    else f"There is no {what} {name}; there are: {names}.")  # fmt: skip


class Album(NamedTuple):
    """The pictures of one item or case, by its name, and the folder that they may lie in."""

    of: str
    paths: Sequence[str]
    folder: str | None


def picture_in(store: Store, person: Person, album: Album | None, number: int, otherwise: Refused) -> Path:
    """The file of a picture (0 is the first). `otherwise` is raised when this person has no album to look into."""
    try:
        if album is None:
            raise otherwise
        if not 0 <= number < len(album.paths) or album.folder is None:
            raise refuse(person, "path", "There is no such picture.", f"picture {number} of {album.of}")
        try:
            return inside(Path(album.folder), album.paths[number], album.of)
        except UserError as error:
            raise refuse(person, "path", "There is no such picture.", str(error)) from error
    except Refused as refusal:
        store.log(refusal)
        raise


def inside(folder: Path | None, path: str, of: str) -> Path:
    """The picture's file, which must lie in the project's folder, links followed."""
    if folder is None:
        raise UserError(f"The item {of} has pictures; say in which folder they lie with --images.")
    root = folder.resolve()
    try:
        file = (root / path).resolve()
    except (OSError, ValueError, RuntimeError):
        file = Path("/")
    if not file.is_relative_to(root):
        raise UserError(f"The picture {path[:200]!r} of item {of} lies outside {root}; pictures must lie inside it.")
    return file
