"""How far an arena is: for the coordinator all of it, for an annotator their own part and what is left of the whole."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, func, select

from compeer.annotation.effort import Own, efforts, own
from compeer.annotation.effort import PersonProgress as Effort
from compeer.annotation.lease import COMPARING
from compeer.annotation.people import Person
from compeer.annotation.shelf import OnShelf, line_up
from compeer.annotation.store import Store
from compeer.annotation.store.arena_tables import arena_cases, arena_leases, arena_models, arena_slots, arena_votes
from compeer.annotation.store.tables import annotators
from compeer.arena.project import Arena, arena, arenas_of


class PersonProgress(Effort, frozen=True):
    """What one person has done. `lean`: the most that one model stood on one side of them more often than the other."""

    lean: int


class Progress(msgspec.Struct, frozen=True):
    """An arena at one moment. `comparisons` are slots: what there is to vote on."""

    arena: Arena
    models: int
    cases: int
    comparisons: int
    done: int
    held: int
    people: list[PersonProgress]

    @property
    def complete(self) -> bool:
        return self.done == self.comparisons


class Mine(Own, frozen=True):
    """An annotator's own counts, and how many comparisons the whole arena still waits for."""

    comparisons: int
    left: int
    closed: bool

    @property
    def over(self) -> bool:
        """Whether the results are out: every vote is there, or the coordinator has closed the arena."""
        return self.closed or self.left == 0


def progress(store: Store, number: int) -> Progress:
    """The whole arena, counted now."""
    about = arena(store, number)
    newest = (arena_votes.c.lease == arena_leases.c.id) & (arena_votes.c.revision == arena_leases.c.revision)
    taken = select(arena_leases.c.annotator, func.avg(arena_votes.c.seconds)).join(arena_votes, newest)
    taken = taken.where(arena_leases.c.state == "done").group_by(arena_leases.c.annotator)
    with store.read() as db:
        models, cases, slots = (
            db.execute(select(func.count()).where(table.c.project == number)).scalar_one()
            for table in (arena_models, arena_cases, arena_slots)
        )
        everybody, leans = efforts(db, COMPARING, number, taken), _leans(db, number)
    people = [PersonProgress(**msgspec.structs.asdict(one), lean=leans.get(one.id, 0)) for one in everybody]
    return Progress(
        arena=about,
        models=models,
        cases=cases,
        comparisons=slots,
        done=sum(one.done for one in people),
        held=sum(one.held for one in people),
        people=people,
    )


def mine(store: Store, person: Person) -> Mine:
    """A person's own counts."""
    slots = select(func.count()).where(arena_slots.c.project == person.project)
    with store.read() as db:
        counts = own(db, COMPARING, person, store.clock())
        total = db.execute(slots).scalar_one()
        voted = db.execute(_voted().where(annotators.c.project == person.project)).first()
    closed = arena(store, person.project).closed is not None
    left = total - (voted[1] if voted else 0)
    return Mine(counts.done, counts.today, counts.skipped, total, left, closed)


def shelf(store: Store) -> list[OnShelf]:
    """All arenas, the newest first."""
    known = arenas_of(store)
    slots = select(arena_slots.c.project, func.count()).group_by(arena_slots.c.project)
    with store.read() as db:
        return line_up(db, known, slots, _voted(), {one.id for one in known if one.closed is not None})


def _voted() -> Select[Any]:
    """Arenas with the votes that they have."""
    query = select(annotators.c.project, func.count()).join_from(arena_leases, annotators)
    return query.where(arena_leases.c.state == "done").group_by(annotators.c.project)


def _leans(db: Connection, number: int) -> dict[int, int]:
    """How far each person has seen some model more on one side than on the other."""
    sides = select(arena_leases.c.annotator, arena_slots.c.one, arena_slots.c.two, arena_slots.c.one_left)
    sides = sides.join(arena_slots, arena_slots.c.id == arena_leases.c.slot).where(arena_leases.c.state == "done")
    lean: Counter[tuple[int, int]] = Counter()
    for who, one, two, one_left in db.execute(sides.where(arena_slots.c.project == number)):
        lean[who, one] += 1 if one_left else -1
        lean[who, two] -= 1 if one_left else -1
    most: dict[int, int] = {}
    for (who, _), step in lean.items():
        most[who] = max(most.get(who, 0), abs(step))
    return most
