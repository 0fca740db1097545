"""A labelling project: items in an order, the settings they are labelled under, and the folder of their pictures."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, insert, select

from compeer.annotation.people import Person
from compeer.annotation.protocol import asked_of
from compeer.annotation.queue import not_yours
from compeer.annotation.refusal import Refused
from compeer.annotation.seats import FRESH, is_number, lease_of
from compeer.annotation.store.arena_tables import arenas
from compeer.annotation.store.database import Store
from compeer.annotation.store.tables import items, projects
from compeer.cer.item import Item
from compeer.errors import UserError

_AT_ONCE = 500


class Project(msgspec.Struct, frozen=True):
    """What a project was made with."""

    id: int
    name: str
    created: float
    seed: int
    guideline: str
    lease_seconds: float
    undo_seconds: float
    audit_share: float
    images: str | None


class Created(msgspec.Struct, frozen=True):
    """A new project; `left_out` counts items without a candidate, which have nothing to judge."""

    project: Project
    items: int
    left_out: int


def create_project(
    store: Store,
    name: str,
    source: Iterable[Item],
    *,
    images: Path | None = None,
    guideline: str = "1",
    lease_minutes: float = 15.0,
    undo_minutes: float = 2.0,
    audit_share: float = 0.05,
    seed: int | None = None,
) -> Created:
    """Make a project from CER items, in their order. `images` is the folder that their pictures lie in.

    The seed decides the order of replies and the audit draw; without one it is drawn, and nobody can foretell them.
    """
    name = name.strip()
    if not name or len(name) > 100 or not name.isprintable():
        raise UserError(f"A project's name has 1 to 100 printable characters; got {name[:120]!r}.")
    if not 0 <= audit_share <= 1:
        raise UserError(f"The share of the audit lies between 0 and 1; got {audit_share}.")
    if lease_minutes <= 0 or undo_minutes < 0:
        raise UserError("A lease lasts more than 0 minutes, and the time to undo is not negative.")
    given = list(source)
    usable = [item for item in given if item.candidate is not None]
    if not usable:
        raise UserError(
            f"None of the {len(given)} items has a candidate to judge; compeer cer reason gives them one."
            if given else "There are no items in this file."
        )  # fmt: skip
    names: set[str] = set()
    for item in usable:
        if item.id in names:
            raise UserError(f"The item {item.id} is there twice; each must have an id of its own.")
        names.add(item.id)
        for path in _pictures(item):
            inside(images, path, item.id)

    def work(db: Connection) -> int:
        if db.execute(select(projects.c.id).where(projects.c.name == name)).first() is not None:
            raise UserError(f"There is a project {name} in this database already; choose another --name.")
        settings = {
            "name": name,
            "created": store.clock(),
            "seed": secrets.randbits(31) if seed is None else seed,
            "guideline": guideline,
            "lease_seconds": 60 * lease_minutes,
            "undo_seconds": 60 * undo_minutes,
            "audit_share": audit_share,
            "images": str(images.resolve()) if images else None,
        }
        number = int(db.execute(insert(projects).values(**settings).returning(projects.c.id)).scalar_one())
        for start in range(0, len(usable), _AT_ONCE):
            chunk = usable[start : start + _AT_ONCE]
            db.execute(insert(items), [_row(number, start + n, item) for n, item in enumerate(chunk)])
        return number

    return Created(project(store, store.write(work)), len(usable), len(given) - len(usable))


def projects_of(store: Store) -> list[Project]:
    """All labelling projects of a database, oldest first. Arenas have people too, but are no labelling."""
    labelling = select(projects).where(projects.c.id.not_in(select(arenas.c.project)))
    with store.read() as db:
        return [_project(row) for row in db.execute(labelling.order_by(projects.c.id))]


def project(store: Store, number: int) -> Project:
    """A project by its number."""
    with store.read() as db:
        return _project(db.execute(select(projects).where(projects.c.id == number)).one())


def project_named(store: Store, name: str | None) -> Project:
    """A project by name, or the only one."""
    known = projects_of(store)
    found = [one for one in known if name is None or one.name == name]
    if len(found) == 1:
        return found[0]
    if not known:
        raise UserError("There is no project in this database yet; compeer annotate create makes one.")
    names = ", ".join(one.name for one in known)
    raise UserError(f"Which project? Name it with --name; there are: {names}." if name is None
                    else f"There is no project {name}; there are: {names}.")  # fmt: skip


def picture(store: Store, person: Person, item: int, number: int) -> Path:
    """The file of the item's picture `number` (0 is the first of the history), for who was given this item.

    A coordinator may see all of their project. The page asks by number, so a name never comes from outside.
    """
    with store.read() as db:
        given = lease_of(db, item, person.id)
        query = select(items.c.name, items.c.images, projects.c.images.label("folder")).join(projects)
        asked = items.c.id == (item if is_number(item) else 0)
        row = db.execute(query.where(asked, items.c.project == person.project)).first()
    try:
        if row is None or (given is None and person.role != "coordinator"):
            raise not_yours(person, item)
        paths: list[str] = msgspec.json.decode(row.images)
        if not 0 <= number < len(paths) or row.folder is None:
            raise Refused("path", "There is no such picture.", annotator=person.id, project=person.project,
                          detail=f"picture {number} of item {item}")  # fmt: skip
        try:
            file = inside(Path(row.folder), paths[number], row.name)
        except UserError as error:
            raise Refused("path", "There is no such picture.", annotator=person.id, project=person.project,
                          detail=str(error)) from error  # fmt: skip
    except Refused as refusal:
        store.log(refusal)
        raise
    return file


def inside(folder: Path | None, path: str, item: str) -> Path:
    """The picture's file, which must lie in the project's folder, links followed."""
    if folder is None:
        raise UserError(f"The item {item} has pictures; say in which folder they lie with --images.")
    root = folder.resolve()
    try:
        file = (root / path).resolve()
    except (OSError, ValueError, RuntimeError):
        file = Path("/")
    if not file.is_relative_to(root):
        raise UserError(f"The picture {path[:200]!r} of item {item} lies outside {root}; pictures must lie inside it.")
    return file


def _row(number: int, position: int, item: Item) -> dict[str, Any]:
    return {
        "project": number,
        "name": item.id,
        "position": position,
        "questions": ",".join(asked_of(item)),
        "content": msgspec.json.encode(item).decode(),
        "images": msgspec.json.encode(_pictures(item)).decode(),
        "stage": "first",
        "rank": FRESH,
    }


def _pictures(item: Item) -> list[str]:
    return [path for turn in item.history for path in turn.images]


def _project(row: Row[Any]) -> Project:
    return Project(**{name: getattr(row, name) for name in Project.__struct_fields__})
