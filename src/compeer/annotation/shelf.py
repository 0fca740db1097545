"""All projects of a database with what a list shows of them, counted without looking at votes."""

from __future__ import annotations

import msgspec
from sqlalchemy import case, func, select

from compeer.annotation.project import Project, projects_of
from compeer.annotation.store.database import Store
from compeer.annotation.store.tables import annotators, items


class OnShelf(msgspec.Struct, frozen=True):
    """One project: items, how many are closed, how many people are in it."""

    project: Project
    items: int
    closed: int
    people: int


def shelf(store: Store) -> list[OnShelf]:
    """The newest first."""
    closed = func.count(case((items.c.stage == "closed", 1)))
    with store.read() as db:
        counted = db.execute(select(items.c.project, func.count(), closed).group_by(items.c.project)).all()
        present = db.execute(select(annotators.c.project, func.count()).group_by(annotators.c.project)).all()
    found = {row[0]: (row[1], row[2]) for row in counted}
    people: dict[int, int] = {row[0]: row[1] for row in present}
    return [OnShelf(one, *found.get(one.id, (0, 0)), people.get(one.id, 0)) for one in reversed(projects_of(store))]
