"""All projects of a database, or all arenas, with what a list shows of them, counted without looking at votes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, func, select

from compeer.annotation.founding import Founded
from compeer.annotation.project import projects_of
from compeer.annotation.store.database import Store
from compeer.annotation.store.tables import annotators, items


class OnShelf(msgspec.Struct, frozen=True):
    """One of them: how much there is to do, how much of it is done, how many people are in it."""

    id: int
    name: str
    total: int
    done: int
    people: int
    ended: bool = False


def shelf(store: Store) -> list[OnShelf]:
    """The labelling projects, the newest first."""
    known = projects_of(store)
    with store.read() as db:
        every = select(items.c.project, func.count()).group_by(items.c.project)
        return line_up(db, known, every, every.where(items.c.stage == "closed"))


def line_up(
    db: Connection,
    known: Iterable[Founded],
    total: Select[Any],
    done: Select[Any],
    ended: Collection[int] = (),
) -> list[OnShelf]:
    """The newest first; `total` and `done` select numbers of projects with counts."""
    heads = select(annotators.c.project, func.count()).group_by(annotators.c.project)
    counts: list[dict[int, int]] = [{row[0]: row[1] for row in db.execute(query)} for query in (total, done, heads)]
    every, finished, people = counts
    return [
        OnShelf(
            id=one.id,
            name=one.name,
            total=every.get(one.id, 0),
            done=finished.get(one.id, 0),
            people=people.get(one.id, 0),
            ended=one.id in ended,
        )
        for one in sorted(known, key=lambda one: -one.id)
    ]
