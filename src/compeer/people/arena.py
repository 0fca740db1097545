"""An arena (Figure 6 of the paper): people compare two models' replies to the same conversation, blind.

An arena is a project in the store: cases, the models' replies to them, and the slots of a plan. Only cases that every
model has answered come in: a case without one of the replies would make pairs unequal. Cases and models are numbered in
a shuffled order, so that not even the database's own numbers follow the files.

**The plan** is made once, by `plan`: which two models on which case, on which sides, in which order. Every case gets
every pair (or every pair with one model, as in the paper), for as many people as should judge each. Sides: the slots of
a pair are shuffled, and every other one has its first model on the left, so over the whole arena the two counts of a
pair differ by at most one, whoever comes and goes. Order: the slots are dealt out in rounds of one slot per pair, each
from another case, so that an arena that is stopped halfway is balanced too.

**Who gets which slot** is decided by `choose` when somebody asks. Of the next slots of the plan they get the one that
keeps their own record most even: cases they have not read, sides on which they have seen each model less, pairs they
have had less of. Nobody gets a comparison twice, and a closed arena gives out nothing. A comparison is known by the
random name of its lease. People, personal links and leases are those of labelling (`invitations`, `work_queue`).
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, Table, exists, func, insert, select, update

from compeer.cer.item import PastTurn
from compeer.errors import UserError
from compeer.people import projects, tables
from compeer.people.arena_cases import Case, Reply
from compeer.people.invitations import Person
from compeer.people.store import BadAnswers, Store
from compeer.people.tables import (
    NEWEST_ARENA_VOTES,
    annotators,
    arena_cases,
    arena_leases,
    arena_models,
    arena_replies,
    arena_slots,
    arena_votes,
    arenas,
)
from compeer.people.work_queue import OwnProgress, PersonProgress, WorkQueue
from compeer.reasoning import STEPS, render_step
from compeer.reasoning.ontology import Language
from compeer.reward.verdict import CHOICES, Choice
from compeer.typed import from_json

_MOST_MODELS = 40
DEFAULT_VOTES = 3  # per comparison: two of three tell more than one, and few people are needed
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


class SeenSlots:
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
    seen = SeenSlots(had)
    return min(range(len(ahead)), key=lambda place: (seen.unevenness(ahead[place]), place))


class CreatedArena(msgspec.Struct, frozen=True):
    """A new arena. `left_out`: cases that some model has not answered."""

    arena: projects.Project
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
    votes: int = DEFAULT_VOTES,
    quota: int | None = None,
    focus: str | None = None,
    show_reasoning: bool = False,
    lease_minutes: float = 15.0,
    seed: int | None = None,
) -> CreatedArena:
    """Make an arena. `votes` people judge each comparison, each person `quota` at most; with `focus` only pairs with
    that model are made.

    The seed decides sides and order; without one it is drawn.
    """
    if not 1 <= votes <= 100:
        raise UserError(f"Each comparison gets 1 to 100 votes; got {votes}.")
    models, usable, said = _answered_by_all(cases, replies, focus)
    for case in usable:
        for path in case.images:
            if not projects.picture_file(images, path, case.id).is_file():
                raise UserError(f"The picture {path} of case {case.id} is not in {images}; name its folder.")

    def work(db: Connection) -> tuple[int, int]:
        number, drawn = projects.insert_project(
            store, db, name, images=images, lease_minutes=lease_minutes, seed=seed, quota=quota
        )
        about = {"project": number, "votes": votes, "focus": focus, "show_reasoning": show_reasoning}
        db.execute(insert(arenas).values(**about))
        shuffled = Random(f"numbers {drawn}")
        model_ids = _insert_shuffled(db, arena_models, number, models, shuffled, [{} for _ in models])
        contents = [{"content": msgspec.json.encode(case).decode(), "language": case.language} for case in usable]
        case_ids = _insert_shuffled(db, arena_cases, number, [case.id for case in usable], shuffled, contents)
        rows = [
            {"case": case_ids[i], "model": model_ids[j], "content": msgspec.json.encode(said[case.id, model]).decode()}
            for i, case in enumerate(usable)
            for j, model in enumerate(models)
        ]
        shuffled.shuffle(rows)
        db.execute(insert(arena_replies), rows)
        at = models.index(focus) if focus else None
        slots = plan(len(usable), len(models), votes=votes, focus=at, seed=drawn)
        db.execute(insert(arena_slots), [
            {"project": number, "case": case_ids[slot.case], "one": model_ids[slot.one], "two": model_ids[slot.two],
             "place": slot.place, "one_left": slot.one_left, "position": position}
            for position, slot in enumerate(slots)
        ])  # fmt: skip
        return number, len(slots)

    number, slots = store.write(work)
    return CreatedArena(projects.project_by_number(store, number), models, len(usable), slots, len(cases) - len(usable))


def models_of(store: Store, number: int) -> list[str]:
    """The models of an arena, in its own order."""
    query = select(arena_models.c.name).where(arena_models.c.project == number).order_by(arena_models.c.position)
    with store.read() as db:
        return list(db.execute(query).scalars())


def close_arena(store: Store, number: int, closed: bool = True) -> None:
    """End an arena before every slot has its vote, or open it again. Nothing is lost; results count what is there."""
    at = store.clock() if closed else None
    store.write(lambda db: db.execute(update(arenas).where(arenas.c.project == number).values(closed=at)))


def _answered_by_all(
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
    projects.check_unique([case.id for case in cases], "The case {} is there twice; each must have an id of its own.")
    names = [f"{one.model}'s reply to {one.case}" for one in replies]
    projects.check_unique(names, "{} is there twice; give each model's replies once.")
    said = {(reply.case, reply.model): reply for reply in replies}
    usable = [case for case in cases if all((case.id, model) in said for model in models)]
    if not usable:
        raise UserError("No case has been answered by all models. Do the replies belong to these cases?")
    return models, usable, said


def _insert_shuffled(
    db: Connection, table: Table, project: int, names: Sequence[str], shuffled: Random, more: Sequence[dict[str, Any]]
) -> list[int]:
    """Insert rows in a shuffled order; their numbers in the order given."""
    order = list(range(len(names)))
    shuffled.shuffle(order)
    db.execute(insert(table), [{"project": project, "name": names[n], "position": n, **more[n]} for n in order])
    query = select(table.c.id).where(table.c.project == project).order_by(table.c.position)
    return [int(number) for number in db.execute(query).scalars()]


class Comparison(msgspec.Struct, frozen=True):
    """Two replies as one person sees them. Nothing in it tells whose they are.

    `thoughts` are the steps of both, where the arena shows them and both have them. `choice` is what the person had
    chosen, after undoing it.
    """

    name: str
    language: Language
    history: tuple[PastTurn, ...]
    first: str
    second: str
    thoughts: tuple[dict[str, str], dict[str, str]] | None = None
    choice: Choice | None = None
    note: str = ""
    seconds: float = 0.0


class OwnArenaProgress(OwnProgress, frozen=True):
    """A person's own counts, and how many comparisons the whole arena still waits for."""

    left: int
    closed: bool

    @property
    def over(self) -> bool:
        """Whether the results are out: every vote is there, or the coordinator has closed the arena."""
        return self.closed or self.left == 0


class ArenaQueue(WorkQueue[str, Comparison]):
    """Comparisons for people. The answer is first, second, both or neither."""

    leases, votes, skips = tables.arena_leases, tables.arena_votes, tables.arena_skips
    place, key, about, thing = "seat", "name", "case", "comparison"
    viewable = ("held", "lapsed")

    def own_progress(self, person: Person) -> OwnArenaProgress:
        counts = super().own_progress(person)
        with self.store.read() as db:
            voted = db.execute(projects.VOTES_BY_ARENA.where(annotators.c.project == person.project)).first()
            closed = self._project(db, person).closed is not None
        left = counts.total - (voted[1] if voted else 0)
        return OwnArenaProgress(**msgspec.structs.asdict(counts), left=left, closed=closed)

    def _find(self, db: Connection, person: Person, key: str, *, lock: bool = False) -> Row[Any] | None:
        query = select(arena_leases).where(arena_leases.c.name == key[:64], arena_leases.c.annotator == person.id)
        return db.execute(self.store.locked(query) if lock else query).first()

    def _resume(self, db: Connection, lease: Row[Any], project: Row[Any], now: float) -> bool:
        if db.execute(select(arena_leases.c.id).where(arena_leases.c.seat == lease.slot)).first() is not None:
            return False
        self._change(db, lease.id, state="held", seat=lease.slot, expires=now + project.lease_seconds)
        return True

    def _assign(self, db: Connection, me: Person, project: Row[Any], now: float) -> int | None:
        slots, leases = arena_slots.c, arena_leases.c
        taken = exists().where(leases.seat == slots.id)
        had = exists().where(
            leases.annotator == me.id, leases.case == slots.case, leases.one == slots.one, leases.two == slots.two
        )
        mine = select(arena_slots).join(arena_leases, leases.slot == slots.id).where(leases.annotator == me.id)
        before = [_slot(row) for row in db.execute(mine.where(leases.state == "done"))]
        pairs = select(slots.one, slots.two).where(slots.project == me.project).distinct().subquery()
        ahead = WINDOW * db.execute(select(func.count()).select_from(pairs)).scalar_one()
        reads = slots.case.in_(select(arena_cases.c.id).where(arena_cases.c.language.in_(me.languages)))
        free = select(arena_slots).where(slots.project == me.project, reads, ~taken, ~had).order_by(slots.position)
        found = db.execute(free.limit(ahead)).all()
        if not found:
            return None
        chosen = found[choose([_slot(row) for row in found], before)]
        pair = {"case": chosen.case, "one": chosen.one, "two": chosen.two}
        name = secrets.token_urlsafe(12)  # random: it tells nothing about what is compared
        return self._take(db, me, project, now, name=name, slot=chosen.id, seat=chosen.id, **pair)

    def _show(self, db: Connection, lease: Row[Any]) -> Comparison:
        query = select(arena_cases.c.content, arenas.c.show_reasoning)
        query = query.join(arenas, arenas.c.project == arena_cases.c.project).where(arena_cases.c.id == lease.case)
        content, show_reasoning = db.execute(query).one()
        case = from_json(content, Case)
        replies = select(arena_replies.c.model, arena_replies.c.content).where(arena_replies.c.case == lease.case)
        said = {row.model: from_json(row.content, Reply) for row in db.execute(replies)}
        slot = _slot(db.execute(select(arena_slots).where(arena_slots.c.id == lease.slot)).one())
        left, right = said[slot.left], said[slot.right]
        thoughts = None
        if show_reasoning and left.reasoning and right.reasoning:
            steps = [{step: render_step(one, step) for step in STEPS} for one in (left.reasoning, right.reasoning)]
            thoughts = (steps[0], steps[1])
        newest = select(arena_votes).join(arena_leases, NEWEST_ARENA_VOTES)
        last = db.execute(newest.where(arena_leases.c.id == lease.id)).first()
        return Comparison(
            lease.name, case.language, case.history, left.response, right.response, thoughts,
            choice=last.choice if last else None, note=lease.note, seconds=(last.seconds or 0.0) if last else 0.0,
        )  # fmt: skip

    def _record(self, db: Connection, lease: Row[Any], project: Row[Any], answers: Any, row: dict[str, Any]) -> None:
        if answers not in CHOICES:
            raise BadAnswers(f"The answer is {', '.join(CHOICES)}; got {str(answers)[:50]!r}.")
        one_left = db.execute(select(arena_slots.c.one_left).where(arena_slots.c.id == lease.slot)).scalar_one()
        db.execute(insert(arena_votes).values(**row, choice=answers, one_left=one_left))

    def _why_final(self, db: Connection, lease: Row[Any], project: Row[Any], *, undo: bool) -> str:
        if not undo:
            return "This comparison was handed in already; take it back with undo to change it."
        total = db.execute(self._total(project.id)).scalar_one()
        voted = db.execute(projects.VOTES_BY_ARENA.where(annotators.c.project == project.id)).first()
        if voted is not None and voted[1] == total:
            return "Every comparison has its vote, and the results are out."
        if self.store.clock() - (lease.finished or 0.0) > project.undo_seconds:
            return "This was handed in a while ago and can no longer be changed."
        return ""

    def _pictures(self, db: Connection, project: int, thing: int) -> tuple[str, list[str]] | None:
        query = select(arena_cases.c.content).where(arena_cases.c.id == thing, arena_cases.c.project == project)
        if (content := db.execute(query).scalar()) is None:
            return None
        case = from_json(content, Case)
        return case.id, case.images

    def _total(self, project: int) -> Select[Any]:
        return select(func.count()).where(arena_slots.c.project == project)

    def _mean_seconds(self, project: int) -> Select[Any]:
        seconds = select(arena_leases.c.annotator, func.avg(arena_votes.c.seconds)).join(
            arena_votes, NEWEST_ARENA_VOTES
        )
        return seconds.where(arena_leases.c.state == "done").group_by(arena_leases.c.annotator)


def _slot(row: Row[Any]) -> Slot:
    return Slot(row.case, row.one, row.two, row.place, row.one_left)


class ArenaPersonProgress(PersonProgress, frozen=True, kw_only=True):
    """What one person has done. `lean`: the largest difference between a model's times on the left and on the right."""

    lean: int


class ArenaProgress(msgspec.Struct, frozen=True):
    """An arena at one moment. `comparisons` are slots: what there is to vote on."""

    arena: projects.Project
    models: int
    cases: int
    comparisons: int
    done: int
    held: int
    people: list[ArenaPersonProgress]

    @property
    def complete(self) -> bool:
        return self.done == self.comparisons


def arena_progress(store: Store, number: int) -> ArenaProgress:
    """The whole arena, counted now."""
    about = projects.project_by_number(store, number)
    with store.read() as db:
        models, cases, slots = (
            db.execute(select(func.count()).where(table.c.project == number)).scalar_one()
            for table in (arena_models, arena_cases, arena_slots)
        )
        everybody, leans = ArenaQueue(store).people_progress(db, number), _leans(db, number)
    people = [ArenaPersonProgress(**msgspec.structs.asdict(one), lean=leans.get(one.id, 0)) for one in everybody]
    return ArenaProgress(
        arena=about,
        models=models,
        cases=cases,
        comparisons=slots,
        done=sum(one.done for one in people),
        held=sum(one.held for one in people),
        people=people,
    )


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
