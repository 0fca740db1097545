"""Which two models on which case, on which sides, in which order, and to whom.

The plan is made once. Every case gets every pair (or every pair with one model, as in the paper), for as many people as
should judge each. Sides: the slots of a pair are shuffled, and every other one has its first model on the left, so over
the whole arena the two counts of a pair differ by at most one, whoever comes and goes. Order: the slots are dealt out
in rounds of one slot a pair, each from another case, so that an arena that is stopped halfway is balanced too.

To whom is decided when somebody asks. Of the next slots in the plan's order they get the one that keeps their own
record most even: cases they have not read, sides on which they have seen each model less, pairs they have had less of.

An arena in the store: cases, the models' replies to them, the slots of the plan, and the settings.

Only cases that every model has answered come in: a case without one of the replies would make pairs unequal. Numbers
of cases and models are given in a shuffled order, so that not even the database's own numbers follow the files.

How far an arena is: for the coordinator all of it, for an annotator their own part and what is left of the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, func, insert, select, update

from compeer.errors import UserError
from compeer.people import projects as founding
from compeer.people.arena_cases import Case, Reply, unique
from compeer.people.invitations import Own, Person, efforts, own
from compeer.people.invitations import PersonProgress as Effort
from compeer.people.labelling_project import OnShelf, line_up
from compeer.people.leases import COMPARING
from compeer.people.projects import inside
from compeer.people.store import Store
from compeer.people.store.tables import (
    annotators,
    arena_cases,
    arena_leases,
    arena_models,
    arena_replies,
    arena_slots,
    arena_votes,
    arenas,
    projects,
)

#: how many slots ahead in the plan somebody's next one is looked for, for each pair
WINDOW = 6


class Slot(msgspec.Struct, frozen=True):
    """A place for one vote. `one` and `two` are numbers of models, one < two; `case` the number of a case."""

    case: int
    one: int
    two: int
    place: int
    one_left: bool

    @property
    def left(self) -> int:
        return self.one if self.one_left else self.two

    @property
    def right(self) -> int:
        return self.two if self.one_left else self.one


def pairs_of(models: int, focus: int | None = None) -> list[tuple[int, int]]:
    """All pairs, or those with one model.

    >>> pairs_of(3), pairs_of(3, focus=1)
    ([(0, 1), (0, 2), (1, 2)], [(0, 1), (1, 2)])
    """
    return [pair for pair in combinations(range(models), 2) if focus is None or focus in pair]


def plan(cases: int, models: int, *, votes: int = 1, focus: int | None = None, seed: int = 0) -> list[Slot]:
    """All slots in the order in which they are given out."""
    if models < 2:
        raise UserError("A comparison needs replies of at least two models.")
    if votes < 1:
        raise UserError("Each comparison needs at least one vote.")
    rng, pairs = Random(f"arena {seed}"), pairs_of(models, focus)
    order = list(range(cases))
    rng.shuffle(order)
    dealt: list[list[Slot]] = []
    for number, (one, two) in enumerate(pairs):
        start = number * max(1, cases // len(pairs))  # pairs begin at different cases
        turned = [order[(start + place) % cases] for place in range(cases)]
        places = [(case, place) for place in range(1, votes + 1) for case in turned]
        sides = [bool((place + number) % 2) for place in range(len(places))]
        rng.shuffle(sides)
        given = zip(places, sides, strict=True)
        dealt.append([Slot(case, one, two, place, one_left) for (case, place), one_left in given])
    ordered: list[Slot] = []
    for together in zip(*dealt, strict=True):
        mixed = list(together)
        rng.shuffle(mixed)
        ordered += mixed
    return ordered


class Record:
    """What a person has compared so far, counted."""

    def __init__(self, had: Iterable[Slot] = ()) -> None:
        self.cases: Counter[int] = Counter()
        self.pairs: Counter[tuple[int, int]] = Counter()
        self.lean: Counter[int] = Counter()  # a model: times on the left less times on the right
        self.tilt: Counter[tuple[int, int]] = Counter()  # a pair: the same of its first model
        for slot in had:
            self.add(slot)

    def add(self, slot: Slot) -> None:
        pair = (slot.one, slot.two)
        self.cases[slot.case] += 1
        self.pairs[pair] += 1
        self.lean[slot.left] += 1
        self.lean[slot.right] -= 1
        self.tilt[pair] += 1 if slot.one_left else -1

    def unevenness(self, slot: Slot) -> int:
        """How uneven it would become with this slot; less is better."""
        pair = (slot.one, slot.two)
        lean = abs(self.lean[slot.left] + 1) + abs(self.lean[slot.right] - 1)
        lean -= abs(self.lean[slot.left]) + abs(self.lean[slot.right])
        tilt = abs(self.tilt[pair] + (1 if slot.one_left else -1)) - abs(self.tilt[pair])
        return 3 * self.cases[slot.case] + 2 * tilt + 2 * lean + self.pairs[pair]


def choose(ahead: Sequence[Slot], had: Iterable[Slot]) -> int:
    """Which of the slots ahead somebody gets who has had those; of equal ones the first."""
    record = Record(had)
    return min(range(len(ahead)), key=lambda place: (record.unevenness(ahead[place]), place))


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
