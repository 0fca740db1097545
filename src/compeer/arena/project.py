"""An arena in the store: cases, the models' replies to them, the slots of the plan, and the settings.

Only cases that every model has answered come in: a case without one of the replies would make pairs unequal. Numbers
of cases and models are given in a shuffled order, so that not even the database's own numbers follow the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, insert, select, update

from compeer.annotation import founding
from compeer.annotation.pictures import inside
from compeer.annotation.store import Store
from compeer.annotation.store.arena_tables import arena_cases, arena_models, arena_replies, arena_slots, arenas
from compeer.annotation.store.tables import projects
from compeer.arena.cases import Case, unique
from compeer.arena.pairing import plan
from compeer.arena.replies import Reply
from compeer.errors import UserError

_AT_ONCE = 500
_MOST_MODELS = 40


class Arena(msgspec.Struct, frozen=True):
    """What an arena was made with; `closed` is when its coordinator ended it."""

    id: int
    name: str
    created: float
    seed: int
    lease_seconds: float
    undo_seconds: float
    images: str | None
    votes: int
    focus: str | None
    show_reasoning: bool
    closed: float | None


class Created(msgspec.Struct, frozen=True):
    """A new arena. `left_out`: cases that some model has not answered."""

    arena: Arena
    models: list[str]
    cases: int
    comparisons: int
    left_out: int


def create_arena(
    store: Store,
    name: str,
    cases: Sequence[Case],
    replies: Sequence[Reply],
    *,
    images: Path | None = None,
    votes: int = 1,
    focus: str | None = None,
    show_reasoning: bool = False,
    lease_minutes: float = 15.0,
    undo_minutes: float = 2.0,
    seed: int | None = None,
) -> Created:
    """Make an arena. `votes` people judge each comparison; with `focus` only pairs with that model are made.

    Without a seed one is drawn, and nobody can foretell sides and order.
    """
    terms = founding.Terms(
        name=name, images=images, lease_minutes=lease_minutes, undo_minutes=undo_minutes, seed=seed
    )  # fmt: skip
    founding.check(terms)
    if not 1 <= votes <= 100:
        raise UserError(f"Each comparison gets 1 to 100 votes; got {votes}.")
    models, usable, said = _fitting(cases, replies, focus)
    for case in usable:
        for path in case.images:
            if not inside(images, path, case.id).is_file():
                raise UserError(f"The picture {path} of case {case.id} is not in {images}; name its folder.")

    def work(db: Connection) -> tuple[int, int]:
        number, drawn = founding.found(db, terms, store.clock())
        about = {"project": number, "votes": votes, "focus": focus, "show_reasoning": show_reasoning}
        db.execute(insert(arenas).values(**about))
        mixed = Random(f"numbers {drawn}")
        model_ids = _numbered(db, arena_models, number, models, mixed, [{} for _ in models])
        contents = [{"content": msgspec.json.encode(case).decode()} for case in usable]
        case_ids = _numbered(db, arena_cases, number, [case.id for case in usable], mixed, contents)
        rows = [
            {"case": case_ids[i], "model": model_ids[j], "content": msgspec.json.encode(said[case.id, model]).decode()}
            for i, case in enumerate(usable)
            for j, model in enumerate(models)
        ]
        mixed.shuffle(rows)
        _insert(db, arena_replies, rows)
        at = models.index(focus) if focus else None
        slots = plan(len(usable), len(models), votes=votes, focus=at, seed=drawn)
        _insert(db, arena_slots, [
            {"project": number, "case": case_ids[slot.case], "one": model_ids[slot.one], "two": model_ids[slot.two],
             "place": slot.place, "one_left": slot.one_left, "position": position}
            for position, slot in enumerate(slots)
        ])  # fmt: skip
        return number, len(slots)

    number, slots = store.write(work)
    return Created(arena(store, number), models, len(usable), slots, len(cases) - len(usable))


def arenas_of(store: Store) -> list[Arena]:
    """All arenas of a database, oldest first."""
    with store.read() as db:
        return [_arena(row) for row in db.execute(_all().order_by(projects.c.id))]


def arena(store: Store, number: int) -> Arena:
    """An arena by its number."""
    with store.read() as db:
        return _arena(db.execute(_all().where(projects.c.id == number)).one())


def arena_named(store: Store, name: str | None) -> Arena:
    """An arena by name, or the only one."""
    return founding.called(arenas_of(store), name, "arena", "compeer arena create")


def models_of(store: Store, number: int) -> list[str]:
    """The models of an arena, in its own order."""
    query = select(arena_models.c.name).where(arena_models.c.project == number).order_by(arena_models.c.position)
    with store.read() as db:
        return list(db.execute(query).scalars())


def close(store: Store, number: int, closed: bool = True) -> None:
    """End an arena before every slot has its vote, or open it again. Nothing is lost; results count what is there."""
    at = store.clock() if closed else None
    store.write(lambda db: db.execute(update(arenas).where(arenas.c.project == number).values(closed=at)))


def _fitting(
    cases: Sequence[Case], replies: Sequence[Reply], focus: str | None
) -> tuple[list[str], list[Case], dict[tuple[str, str], Reply]]:
    """The models, the cases that all of them answered, and the replies."""
    models = list(dict.fromkeys(reply.model for reply in replies))
    if len(models) < 2:
        raise UserError(f"A comparison needs replies of at least two models; there are {len(models)}.")
    if len(models) > _MOST_MODELS:
        raise UserError(f"An arena has at most {_MOST_MODELS} models; these replies are of {len(models)}.")
    if focus is not None and focus not in models:
        raise UserError(f"There are no replies of {focus}; there are: {', '.join(models)}.")
    unique([case.id for case in cases], "The case {} is there twice; each must have an id of its own.")
    unique([f"{one.model}'s reply to {one.case}" for one in replies], "{} is there twice.")
    said = {(reply.case, reply.model): reply for reply in replies}
    usable = [case for case in cases if all((case.id, model) in said for model in models)]
    if not usable:
        raise UserError("No case has been answered by all models. Do the replies belong to these cases?")
    return models, usable, said


def _numbered(
    db: Connection, table: Any, project: int, names: Sequence[str], mixed: Random, more: Sequence[dict[str, Any]]
) -> list[int]:
    """Insert rows in a shuffled order; their numbers in the order given."""
    order = list(range(len(names)))
    mixed.shuffle(order)
    _insert(db, table, [{"project": project, "name": names[n], "position": n, **more[n]} for n in order])
    query = select(table.c.id).where(table.c.project == project).order_by(table.c.position)
    return [int(number) for number in db.execute(query).scalars()]


def _insert(db: Connection, table: Any, rows: list[dict[str, Any]]) -> None:
    for start in range(0, len(rows), _AT_ONCE):
        db.execute(insert(table), rows[start : start + _AT_ONCE])


def _all() -> Select[Any]:
    return select(projects, arenas.c.votes, arenas.c.focus, arenas.c.show_reasoning, arenas.c.closed).join(arenas)


def _arena(row: Row[Any]) -> Arena:
    return Arena(**{name: getattr(row, name) for name in Arena.__struct_fields__})
