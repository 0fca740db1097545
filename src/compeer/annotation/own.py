"""What an annotator has handed in, to look at again and change while it is open; and whether all work is done."""

from __future__ import annotations

import msgspec
from sqlalchemy import func, select

from compeer.annotation.people import Person
from compeer.annotation.store.database import Store
from compeer.annotation.store.tables import items, leases
from compeer.cer.item import Item
from compeer.typed import from_json

_OPENING = 120  # characters


class HandedIn(msgspec.Struct, frozen=True):
    """One item that this person handed in: its number, when, and how its last message begins.

    It does not say whether the item is closed: that would tell whether the others agree.
    """

    item: int
    finished: float
    opening: str


def handed_in(store: Store, person: Person, *, limit: int = 50) -> list[HandedIn]:
    """The person's own items, the newest first."""
    query = (
        select(leases.c.item, leases.c.finished, items.c.content)
        .join(items, items.c.id == leases.c.item)
        .where(leases.c.annotator == person.id, leases.c.state == "done")
        .order_by(leases.c.finished.desc(), leases.c.id.desc())
        .limit(limit)
    )
    with store.read() as db:
        rows = db.execute(query).all()
    return [HandedIn(row.item, row.finished, _opening(row.content)) for row in rows]


def open_items(store: Store, project: int) -> int:
    """How many items are not closed yet."""
    query = select(func.count()).where(items.c.project == project, items.c.stage != "closed")
    with store.read() as db:
        return int(db.execute(query).scalar_one())


def _opening(content: str) -> str:
    history = from_json(content, Item).history
    text = " ".join(history[-1].text.split()) if history else ""
    return text if len(text) <= _OPENING else text[:_OPENING] + "…"
