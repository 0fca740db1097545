"""Items with known answers: gold, mixed in blind, and practice, explained before a person's first item.

Gold: items with known answers, mixed in so that nobody can tell (`CheckedQueue`). At 10 %, one of every ten items of a
person is gold, at a random place among the ten; nobody gets one twice. Gold answers are compared (`quality`) and never
become labels.

Practice: a few items whose right answers are explained after each answer. They come before a person's first item, are
no labels, and can be repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, select, update

from compeer.cer.item import Item, Question
from compeer.errors import UserError
from compeer.people import labelling
from compeer.people.invitations import Person
from compeer.people.protocol import UNSURE, answer_of, answer_text
from compeer.people.quality import check_person, read_settings
from compeer.people.store import Store
from compeer.people.tables import items, known_answers, leases, practice_answers, projects
from compeer.people.work_queue import HANDED_IN

Use = Literal["gold", "practice", "off"]


class KnownItem(msgspec.Struct, frozen=True):
    """An item whose answers are known. `answered` counts the people who have answered it."""

    number: int
    name: str
    use: Use
    answers: dict[Question, str]
    explanation: str
    answered: int = 0


def add_known(store: Store, project: int, given: Iterable[Item], use: Use) -> int:
    """Make items that carry labels gold or practice items; returns how many.

    An item of the project is taken out of the labelling, which is possible while nobody has been given it. Others are
    added. The explanation is what the item's trace says under `explanation`.
    """
    wanted = list(given)
    for one in wanted:
        if one.candidate is None or not label_texts(one):
            raise UserError(f"The item {one.id} has no candidate or no label, so its answers are not known.")

    def work(db: Connection) -> None:
        query = select(items.c.name, items.c.id).where(items.c.project == project)
        there = {row.name: row.id for row in db.execute(query)}
        last = db.execute(select(func.max(items.c.position)).where(items.c.project == project)).scalar() or 0
        new = [one for one in wanted if one.id not in there]
        own = labelling.own_answers(db.execute(select(projects).where(projects.c.id == project)).one())
        if new:
            rows = [labelling.item_row(project, last + n, one, own) for n, one in enumerate(new, start=1)]
            db.execute(insert(items), rows)
        there |= {row.name: row.id for row in db.execute(query)}
        for one in wanted:
            _set_known(db, project, there[one.id], use, label_texts(one), str(one.trace.get("explanation", "")))

    store.write(work)
    return len(wanted)


def set_known(
    store: Store, project: int, number: int, use: Use, answers: Mapping[str, Any], explanation: str = ""
) -> None:
    """Use one item of the project as gold or practice, change its known answers, or use it no more.

    An item that nobody has been given goes back to the labelling when it is no longer used.
    """
    texts = {name: value if isinstance(value, str) else answer_text(value) for name, value in answers.items()}
    store.write(lambda db: _set_known(db, project, number, use, texts, explanation))


def _set_known(
    db: Connection, project: int, number: int, use: Use, answers: Mapping[Any, str], explanation: str
) -> None:
    row = db.execute(select(items).where(items.c.id == number, items.c.project == project)).first()
    if row is None:
        raise UserError("There is no such item in this project.")
    asked = labelling.questions_of(row.questions)
    known = {name: answer for name, answer in answers.items() if name in asked and answer != UNSURE}
    for name, answer in known.items():
        try:
            answer_of(name, answer)
        except (KeyError, ValueError):
            raise UserError(f"{answer[:50]!r} is no answer to {name}.") from None
    if not known and use != "off":
        raise UserError(f"The item {row.name} needs at least one known answer.")
    given_out = db.execute(select(leases.c.id).where(leases.c.item == number).limit(1)).first() is not None
    if row.stage in labelling.STAGES and given_out:
        raise UserError(f"The item {row.name} has been given to somebody already, so it stays in the labelling.")
    db.execute(delete(known_answers).where(known_answers.c.item == number))
    stage, rank = ("first", labelling.UNTOUCHED) if use == "off" and not given_out else (use, labelling.NOTHING)
    if stage not in labelling.STAGES:
        text = msgspec.json.encode(known).decode()
        db.execute(insert(known_answers).values(item=number, answers=text, explanation=explanation.strip()))
    db.execute(update(items).where(items.c.id == number).values(stage=stage, rank=rank))


def label_texts(item: Item) -> dict[Question, str]:
    """The labels that an item carries, as answers are kept."""
    given = {name: getattr(item.labels, name) for name in get_args(Question)}
    return {name: answer_text(value) for name, value in given.items() if value is not None}


def known_items(store: Store, project: int) -> list[KnownItem]:
    """The gold and practice items of a project, in order."""
    query = select(items.c.id, items.c.name, items.c.stage, known_answers).join(
        known_answers, known_answers.c.item == items.c.id
    )
    count = func.count(leases.c.annotator.distinct())
    with store.read() as db:
        rows = db.execute(query.where(items.c.project == project).order_by(items.c.position)).all()
        done = select(leases.c.item, count).where(leases.c.state.in_(HANDED_IN)).group_by(leases.c.item)
        people = select(practice_answers.c.item, func.count(practice_answers.c.annotator.distinct()))
        answered = {row[0]: int(row[1]) for row in db.execute(done.where(leases.c.item.in_([one.id for one in rows])))}
        practised = {row[0]: int(row[1]) for row in db.execute(people.group_by(practice_answers.c.item))}
    return [
        KnownItem(
            row.id,
            row.name,
            row.stage,
            msgspec.json.decode(row.answers),
            row.explanation,
            practised.get(row.id, 0) if row.stage == "practice" else answered.get(row.id, 0),
        )
        for row in rows
    ]


class Explained(NamedTuple):
    """One practice question: what was answered and what is right, as shown; None where no answer is known."""

    question: Question
    given: Any
    right: Any


class PracticeItem(msgspec.Struct, frozen=True):
    """A practice item as one person sees it, with what they answered last."""

    work: labelling.AssignedItem
    number: int  # of how many
    total: int
    explained: list[Explained]
    explanation: str
    after: int | None  # the next one that is not answered yet
    candidate_first: bool


class CheckedQueue(labelling.LabellingQueue):
    """The queue of a project with its checks: gold mixed in, practice before the first item, flags after some items."""

    def submit(
        self, person: Person, key: int, answers: Any, *, seconds: float | None = None, note: str = "", form: str = ""
    ) -> None:
        super().submit(person, key, answers, seconds=seconds, note=note, form=form)
        check_person(self.store, person)

    def practice_due(self, person: Person) -> bool:
        """Whether this person has to practise before their first item."""
        with self.store.read() as db:
            begun = db.execute(select(leases.c.id).where(leases.c.annotator == person.id).limit(1)).first()
            answered = _practised(db, person)
            return begun is None and any(number not in answered for number in _known(db, person, "practice"))

    def practice(self, person: Person, number: int | None = None) -> PracticeItem | None:
        """One practice item: this one, or the first that is not answered yet, else the first; None: there is none."""
        with self.store.read() as db:
            every, answered = _known(db, person, "practice"), _practised(db, person)
            left = [one for one in every if one not in answered]
            chosen = number if number is not None else next(iter([*left, *every]), None)
            if chosen is None:
                return None
            if chosen not in every:
                raise self._not_yours(person, chosen)
            query = select(items, projects.c.seed, known_answers.c.answers, known_answers.c.explanation)
            query = query.join(projects, projects.c.id == items.c.project)
            row = db.execute(query.join(known_answers).where(items.c.id == chosen)).one()
        asked, said = labelling.questions_of(row.questions), answered.get(chosen)
        first = labelling.candidate_comes_first(row.seed, person.id, row.name) if said is None else said.candidate_first
        right = msgspec.json.decode(row.answers)
        given = {} if said is None else msgspec.json.decode(said.answers)

        def shown(question: Question, text: str | None) -> Any:
            return None if text is None else labelling.as_shown(answer_of(question, text), first)

        return PracticeItem(
            labelling.assigned(chosen, row.content, row.questions, first),
            every.index(chosen) + 1,
            len(every),
            [Explained(one, shown(one, given.get(one)), shown(one, right.get(one))) for one in asked] if given else [],
            row.explanation,
            next((one for one in left if one != chosen), None),
            first,
        )

    def answer_practice(self, person: Person, number: int, answers: Any) -> None:
        """Note what somebody answered in the practice round. It is no vote."""
        found = self.practice(person, number)
        if found is None:
            raise self._not_yours(person, number)
        with self.store.read() as db:
            own = labelling.own_answers(db.execute(select(projects).where(projects.c.id == person.project)).one())
        values = labelling.read_answers(found.work.task.questions, answers, found.candidate_first, own)
        text = msgspec.json.encode({name: answer_text(value) for name, value in values.items()}).decode()
        row = {"annotator": person.id, "item": number, "answers": text, "candidate_first": found.candidate_first}
        self.store.write(lambda db: db.execute(insert(practice_answers).values(**row, at=self.store.clock())))

    def _assign(self, db: Connection, me: Person, project: Row[Any], now: float) -> int | None:
        share = read_settings(db, me.project).gold_share
        if share and _gold_is_due(db, me, project.seed, share) and (number := _unseen_gold(db, me, project.seed)):
            item = db.execute(select(items).where(items.c.id == number)).one()
            first = labelling.candidate_comes_first(project.seed, me.id, item.name)
            about = {"item": number, "turn": "gold", "place": None, "questions": item.questions}
            return self._take(db, me, project, now, candidate_first=first, **about)
        return super()._assign(db, me, project, now)

    def _resume(self, db: Connection, lease: Row[Any], project: Row[Any], now: float) -> bool:
        if lease.turn != "gold":
            return super()._resume(db, lease, project, now)
        self._change(db, lease.id, state="held", opened=now, expires=now + project.lease_seconds)
        return True

    def _why_final(self, db: Connection, lease: Row[Any], project: Row[Any], *, undo: bool) -> str:
        if lease.turn != "gold":
            return super()._why_final(db, lease, project, undo=undo)
        late = self.store.clock() - (lease.finished or 0.0) > project.undo_seconds
        return "" if undo and not late else "This item is closed and can no longer be changed."  # as any that closed


def _known(db: Connection, person: Person, use: Use) -> list[int]:
    """The gold or practice items in a person's languages."""
    mine = items.c.language.in_((*person.languages, ""))
    query = select(items.c.id).where(items.c.project == person.project, items.c.stage == use, mine)
    return [int(number) for number in db.execute(query.order_by(items.c.position)).scalars()]


def _practised(db: Connection, person: Person) -> dict[int, Row[Any]]:
    """What a person answered last in the practice round, by item."""
    query = select(practice_answers).where(practice_answers.c.annotator == person.id).order_by(practice_answers.c.id)
    return {row.item: row for row in db.execute(query)}


def _gold_is_due(db: Connection, me: Person, seed: int, share: float) -> bool:
    """Whether the next item of this person is gold: one of every 1 / share, at a place that nobody can predict."""
    had = db.execute(select(func.count()).select_from(leases).where(leases.c.annotator == me.id)).scalar_one()
    every = max(2, round(1 / share))
    block, place = divmod(int(had), every)
    return int(labelling.drawn("gold place", seed, me.id, block) * every) == place


def _unseen_gold(db: Connection, me: Person, seed: int) -> int | None:
    seen = set(db.execute(select(leases.c.item).where(leases.c.annotator == me.id, leases.c.turn == "gold")).scalars())
    left = [number for number in _known(db, me, "gold") if number not in seen]
    return min(left, key=lambda number: labelling.drawn("gold item", seed, me.id, number), default=None)


class ItemAddresses:
    """Numbers of items as a page's address shows them, shuffled by the seed of the first project.

    Gold items are often added last, and their own numbers would tell them from the others.
    """

    def __init__(self, store: Store) -> None:
        self.store, self._key = store, b""

    def shown(self, number: int) -> int:
        """The number for an address."""
        left, right = number >> 16, number & 0xFFFF
        for step in range(4):
            left, right = right, left ^ self._mix(step, right)
        return left << 16 | right

    def number(self, shown: int) -> int:
        """The item's number; 0 for what cannot be one."""
        if not 0 <= shown < 2**32:
            return 0
        left, right = shown >> 16, shown & 0xFFFF
        for step in reversed(range(4)):
            left, right = right ^ self._mix(step, left), left
        return left << 16 | right

    def _mix(self, step: int, half: int) -> int:
        if not self._key:
            with self.store.read() as db:
                seed = db.execute(select(projects.c.seed).order_by(projects.c.id).limit(1)).scalar()
            if seed is None:
                return 0
            self._key = f"address\x1f{seed}\x1f".encode()
        return int.from_bytes(hashlib.sha256(self._key + bytes([step]) + half.to_bytes(2, "big")).digest()[:2], "big")
