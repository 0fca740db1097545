"""A labelling project: items in an order, the settings they are labelled under, and the folder of their pictures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, insert, select

from compeer.annotation import founding
from compeer.annotation.people import Person
from compeer.annotation.pictures import Album, inside, picture_in
from compeer.annotation.protocol import asked_of
from compeer.annotation.queue import not_yours
from compeer.annotation.seats import FRESH, is_number, lease_of
from compeer.annotation.store.arena_tables import arenas
from compeer.annotation.store.database import Store
from compeer.annotation.store.tables import items, projects
from compeer.cer.item import Item
from compeer.errors import UserError
from compeer.typed import from_json

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
    terms = founding.Terms(
        name=name, images=images, guideline=guideline, lease_minutes=lease_minutes, undo_minutes=undo_minutes,
        audit_share=audit_share, seed=seed,
    )  # fmt: skip
    founding.check(terms)
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
        number, _ = founding.found(db, terms, store.clock())
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
    return founding.called(projects_of(store), name, "project", "compeer annotate create")


def picture(store: Store, person: Person, item: int, number: int) -> Path:
    """The file of the item's picture `number`, for who was given this item; a coordinator may see all of theirs."""
    with store.read() as db:
        given = lease_of(db, item, person.id)
        query = select(items.c.name, items.c.images, projects.c.images.label("folder")).join(projects)
        asked = items.c.id == (item if is_number(item) else 0)
        row = db.execute(query.where(asked, items.c.project == person.project)).first()
    album = None
    if row is not None and (given is not None or person.role == "coordinator"):
        album = Album(row.name, from_json(row.images, list[str]), row.folder)
    return picture_in(store, person, album, number, not_yours(person, item))


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
