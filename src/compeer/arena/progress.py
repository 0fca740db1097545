"""How far an arena is: for the coordinator all of it, for an annotator their own part and what is left of the whole."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import case, func, select

from compeer.annotation.people import Person, Role
from compeer.annotation.store import Store
from compeer.annotation.store.arena_tables import (
    arena_cases,
    arena_leases,
    arena_models,
    arena_skips,
    arena_slots,
    arena_votes,
)
from compeer.annotation.store.tables import annotators
from compeer.arena.project import Arena, arena, arenas_of


class PersonProgress(msgspec.Struct, frozen=True):
    """What one person has done. `lean`: the most that one model stood on one side of them more often than the other."""

    id: int
    name: str
    role: Role
    paused: bool
    invited: bool
    done: int
    held: int
    skipped: int
    distressed: int
    seconds: float | None  # mean for a comparison
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


class Mine(msgspec.Struct, frozen=True):
    """An annotator's own counts, and how many comparisons the whole arena still waits for."""

    done: int
    today: int
    skipped: int
    comparisons: int
    left: int
    closed: bool

    @property
    def over(self) -> bool:
        """Whether the results are out: every vote is there, or the coordinator has closed the arena."""
        return self.closed or self.left == 0


class OnShelf(msgspec.Struct, frozen=True):
    """An arena in a list."""

    arena: Arena
    comparisons: int
    done: int
    people: int


def progress(store: Store, number: int) -> Progress:
    """The whole arena, counted now."""
    about = arena(store, number)
    with store.read() as db:
        models, cases, slots = (
            db.execute(select(func.count()).where(table.c.project == number)).scalar_one()
            for table in (arena_models, arena_cases, arena_slots)
        )
        states = _states().where(annotators.c.project == number)
        kept = {(row[0], row[1]): row[2] for row in db.execute(states)}
        hurt = select(arena_leases.c.annotator, func.count()).join(arena_skips).where(arena_skips.c.distress)
        distressed: dict[int, int] = {row[0]: row[1] for row in db.execute(hurt.group_by(arena_leases.c.annotator))}
        taken = select(arena_leases.c.annotator, func.avg(arena_votes.c.seconds)).join(
            arena_votes,
            (arena_votes.c.lease == arena_leases.c.id) & (arena_votes.c.revision == arena_leases.c.revision),
        )
        taken = taken.where(arena_leases.c.state == "done").group_by(arena_leases.c.annotator)
        seconds = {row[0]: row[1] for row in db.execute(taken)}
        rows = db.execute(select(annotators).where(annotators.c.project == number).order_by(annotators.c.id)).all()
        sides = select(arena_leases.c.annotator, arena_slots.c.one, arena_slots.c.two, arena_slots.c.one_left)
        sides = sides.join(arena_slots, arena_slots.c.id == arena_leases.c.slot).where(arena_leases.c.state == "done")
        lean: dict[tuple[int, int], int] = {}
        for who, one, two, one_left in db.execute(sides.where(arena_slots.c.project == number)):
            step = 1 if one_left else -1
            lean[who, one] = lean.get((who, one), 0) + step
            lean[who, two] = lean.get((who, two), 0) - step
    people = [
        PersonProgress(
            row.id, row.name, row.role, row.paused, row.token is not None,
            kept.get((row.id, "done"), 0), kept.get((row.id, "held"), 0), kept.get((row.id, "skipped"), 0),
            distressed.get(row.id, 0), seconds.get(row.id),
            max((abs(most) for (who, _), most in lean.items() if who == row.id), default=0),
        )
        for row in rows
    ]  # fmt: skip
    done, held = (sum(n for (_, state), n in kept.items() if state == wanted) for wanted in ("done", "held"))
    return Progress(about, models, cases, slots, done, held, people)


def mine(store: Store, person: Person) -> Mine:
    """A person's own counts."""
    midnight = datetime.fromtimestamp(store.clock(), UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
    own = arena_leases.c.annotator == person.id
    with store.read() as db:
        state = arena_leases.c.state
        counted = select(
            func.count(case((state == "done", 1))),
            func.count(case(((state == "done") & (arena_leases.c.finished >= midnight), 1))),
            func.count(case((state == "skipped", 1))),
        ).where(own)
        done, today, skipped = db.execute(counted).one()
        slots = db.execute(select(func.count()).where(arena_slots.c.project == person.project)).scalar_one()
        all_done = select(func.count()).join_from(arena_leases, arena_slots, arena_leases.c.seat == arena_slots.c.id)
        all_done = all_done.where(arena_slots.c.project == person.project, state == "done")
        voted = db.execute(all_done).scalar_one()
    closed = arena(store, person.project).closed is not None
    return Mine(done, today, skipped, slots, slots - voted, closed)


def shelf(store: Store) -> list[OnShelf]:
    """All arenas, the newest first."""
    with store.read() as db:
        slots = select(arena_slots.c.project, func.count()).group_by(arena_slots.c.project)
        there: dict[int, int] = {row[0]: row[1] for row in db.execute(slots)}
        states = select(annotators.c.project, func.count()).join_from(arena_leases, annotators)
        states = states.where(arena_leases.c.state == "done").group_by(annotators.c.project)
        done: dict[int, int] = {row[0]: row[1] for row in db.execute(states)}
        present = select(annotators.c.project, func.count()).group_by(annotators.c.project)
        people: dict[int, int] = {row[0]: row[1] for row in db.execute(present)}
    return [
        OnShelf(one, there.get(one.id, 0), done.get(one.id, 0), people.get(one.id, 0))
        for one in reversed(arenas_of(store))
    ]


def _states() -> Any:
    query = select(arena_leases.c.annotator, arena_leases.c.state, func.count()).join(annotators)
    return query.group_by(arena_leases.c.annotator, arena_leases.c.state)
