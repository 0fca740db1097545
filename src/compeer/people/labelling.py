"""Labelling by the 2 + 1 protocol: projects of CER items, and the queue that gives items to people.

Who gets what: a disputed item that waits for a third vote comes first, then one that somebody has begun, then an audit,
then an untouched one. Nobody gets an item twice, an item has two first-pass places at most, and the third vote goes to
somebody who has never had the item before.

Answers come in as they were shown, "first" and "second", and are kept as reference and candidate. One's own answers can
be changed until the item closes, or until a third person has been given what the first two differ about: they must vote
on exactly that. `undo` works within some minutes even if it closed the item, as long as nobody has been given it since.

Every change of an item locks its row first and calls `settle` last. `settle` works out from votes and leases, by the
rules of `protocol`, what the item waits for, and writes it where the queue looks (`items.stage`, `items.rank`). It also
draws closed items for the audit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import msgspec
import sqlalchemy as sa

from compeer.cer.exchange import LabelTask, task_for
from compeer.cer.item import Item, Preference, Question
from compeer.errors import UserError
from compeer.people import projects as project_store
from compeer.people import protocol, tables
from compeer.people.guideline import stored_questions
from compeer.people.invitations import Person
from compeer.people.store import BadAnswers, Store
from compeer.people.tables import (
    NEWEST_VOTES,
    annotators,
    audit_draws,
    drafts,
    guidelines,
    items,
    leases,
    projects,
    votes,
)
from compeer.people.work_queue import HANDED_IN, Draft, WorkQueue, clean_note, clean_seconds, is_row_number
from compeer.reward.verdict import CHOICES, Choice, choice_of, preference_of
from compeer.typed import from_json

#: what the queue gives out first: a third vote, then items begun, then audits, then untouched items; 0: no free place
THIRD, BEGUN, AUDIT, UNTOUCHED, NOTHING = 4, 3, 2, 1, 0
#: the stages of items that get labels; the others have known answers (`known_items`)
STAGES: tuple[protocol.Stage, ...] = get_args(protocol.Stage)
#: the pass in which an item at a stage is worked on
TURNS: dict[protocol.Stage, protocol.Pass] = {"first": "first", "third": "third", "closed": "audit"}
_OPENING = 120  # characters
_NO_DRAFT = Draft()

# asked for every item again and again, so built once
_ITEM = sa.select(
    items.c.id, items.c.project, items.c.name, items.c.questions, items.c.stage, items.c.rank
).where(items.c.id == sa.bindparam("number"))  # fmt: skip
_LEASE = sa.select(leases).where(leases.c.item == sa.bindparam("number"), leases.c.annotator == sa.bindparam("person"))
_VALID = NEWEST_VOTES & (leases.c.state == "done")
_PLACES = (
    sa.select(leases, votes.c.question, votes.c.answer)
    .outerjoin(votes, _VALID)
    .where(leases.c.item == sa.bindparam("number"), leases.c.place.is_not(None))
    .order_by(leases.c.place)
)
_NEW: dict[str, Any] = {
    "stage": sa.bindparam("now_at"),
    "rank": sa.bindparam("new_rank"),
    "begun_by": sa.bindparam("alone"),
}
_UPDATE_ITEM = sa.update(items).where(items.c.id == sa.bindparam("number")).values(**_NEW)
_SEEN = sa.exists().where(leases.c.item == items.c.id, leases.c.annotator == sa.bindparam("person"))
#: the first item of a rank that a person has never had
_UNSEEN = (
    sa.select(items.c.id)
    .where(items.c.project == sa.bindparam("project"), items.c.rank == sa.bindparam("wanted"))
    .where(sa.or_(items.c.begun_by.is_(None), items.c.begun_by != sa.bindparam("person")), ~_SEEN)
    .where(items.c.language.in_(sa.bindparam("languages", expanding=True)))
    .order_by(items.c.position)
    .limit(1)
)


class CreatedProject(msgspec.Struct, frozen=True):
    """A new project; `left_out` counts items without a candidate, which have nothing to judge."""

    project: project_store.Project
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
    audit_share: float = 0.05,
    seed: int | None = None,
) -> CreatedProject:
    """Make a project from CER items, in their order. `images` is the folder of their pictures.

    The seed decides the order of replies and the audit draw; without one it is drawn.
    """
    given = list(source)
    usable = [item for item in given if item.candidate is not None]
    if not usable:
        raise UserError(
            f"None of the {len(given)} items has a candidate to judge; compeer cer reason gives them one."
            if given else "There are no items in this file."
        )  # fmt: skip
    project_store.check_unique(
        (item.id for item in usable), "The item {} is there twice; each must have an id of its own."
    )
    for item in usable:
        for path in _picture_paths(item):
            project_store.picture_file(images, path, item.id)

    def work(db: sa.Connection) -> int:
        number, _ = project_store.insert_project(
            store, db, name, images=images, guideline=guideline, lease_minutes=lease_minutes, audit_share=audit_share,
            seed=seed,
        )  # fmt: skip
        db.execute(sa.insert(items), [item_row(number, position, item) for position, item in enumerate(usable)])
        return number

    made = project_store.project_by_number(store, store.write(work))
    return CreatedProject(made, len(usable), len(given) - len(usable))


def item_row(project: int, position: int, item: Item, own: Iterable[str] = ()) -> dict[str, Any]:
    """A row of `items` that nobody has been given yet. `own`: the questions of the project's own."""
    return {
        "project": project,
        "name": item.id,
        "position": position,
        "questions": ",".join([*protocol.questions_for(item), *own]),
        "content": msgspec.json.encode(item).decode(),
        "images": msgspec.json.encode(_picture_paths(item)).decode(),
        "stage": "first",
        "rank": UNTOUCHED,
        "language": item.language,
    }


def _picture_paths(item: Item) -> list[str]:
    return [path for turn in item.history for path in turn.images]


class AssignedItem(msgspec.Struct, frozen=True):
    """An item as one person sees it. `task.questions` are what they are asked; a third person may be asked fewer.

    Nothing in it tells which reply is whose, what others answered, or in which pass this is.
    """

    item: int
    task: LabelTask
    draft: Draft
    handed_in: bool = False


def assigned(
    number: int, content: str, questions: str, candidate_first: bool, draft: Draft = _NO_DRAFT, handed_in: bool = False
) -> AssignedItem:
    """An item as somebody sees it, from what the columns of its row hold."""
    item, asked_here = from_json(content, Item), questions_of(questions)
    task = task_for(item, candidate_first=candidate_first, name=str(number), questions=asked_here)
    return AssignedItem(number, task, draft, handed_in)


def preview_item(store: Store, project: int, at: int) -> tuple[AssignedItem, int]:
    """The n-th item of a project as somebody would see it, and how many there are; nobody is given it."""
    query = sa.select(items).where(items.c.project == project, items.c.stage.in_(STAGES)).order_by(items.c.position)
    with store.read() as db:
        rows = db.execute(query.offset(max(0, at - 1)).limit(1)).all() or db.execute(query.limit(1)).all()
        total = db.execute(LabellingQueue(store)._total(project)).scalar_one()
    if not rows:
        raise UserError("There are no items in this project.")
    return assigned(rows[0].id, rows[0].content, rows[0].questions, drawn(rows[0].name) < 0.5), total


class HandedIn(msgspec.Struct, frozen=True):
    """An item that a person handed in: its number, when, and how its last message begins.

    It does not say whether the item is closed: that would tell whether the others agree.
    """

    item: int
    finished: float
    opening: str


class LabellingQueue(WorkQueue[int, AssignedItem]):
    """Items for people. Answers: True or False per step; first, second, both or neither for the preference; unsure."""

    leases, votes, skips = tables.leases, tables.votes, tables.skips
    place, key, about, thing = "place", "item", "item", "item"
    viewable = ("held", "lapsed", *HANDED_IN)

    def handed_in(self, person: Person, *, limit: int = 50) -> list[HandedIn]:
        """The person's own items, the newest first."""
        query = (
            sa.select(leases.c.item, leases.c.finished, items.c.content)
            .join(items, items.c.id == leases.c.item)
            .where(leases.c.annotator == person.id, leases.c.state.in_(HANDED_IN))
            .order_by(leases.c.finished.desc(), leases.c.id.desc())
            .limit(limit)
        )
        with self.store.read() as db:
            rows = db.execute(query).all()
        return [HandedIn(row.item, row.finished, _opening(row.content)) for row in rows]

    def is_finished(self, project: int) -> bool:
        """Whether every item is closed."""
        query = sa.select(items.c.id).where(items.c.project == project, items.c.stage.in_(("first", "third"))).limit(1)
        with self.store.read() as db:
            return db.execute(query).first() is None

    def _find(self, db: sa.Connection, person: Person, key: int, *, lock: bool = False) -> sa.Row[Any] | None:
        if lock and lock_item(self.store, db, key) is None:
            return None
        return lease_of(db, key, person.id)

    def _resumable(self, me: Person) -> sa.Select[Any]:
        same_pass = sa.or_(*((leases.c.turn == turn) & (items.c.stage == one) for one, turn in TURNS.items()))
        begun = self._in_state(me, "lapsed").join(items, items.c.id == leases.c.item)
        return begun.where(sa.or_((items.c.rank > NOTHING) & same_pass, leases.c.turn == "gold"))

    def _resume(self, db: sa.Connection, lease: sa.Row[Any], project: sa.Row[Any], now: float) -> bool:
        item = lock_item(self.store, db, lease.item)
        if item is None:
            return False
        at = places_at(db, item)
        place = at.free
        if at.turn != lease.turn or place is None:
            return False
        back = {"state": "held", "place": place, "questions": ",".join(at.asked), "opened": now,
                "expires": now + project.lease_seconds}  # fmt: skip
        lapsed = sa.update(leases).where(leases.c.id == lease.id, leases.c.state == "lapsed")
        if not db.execute(lapsed.values(**back)).rowcount:
            return False
        settle(db, item, now)
        return True

    def _assign(self, db: sa.Connection, me: Person, project: sa.Row[Any], now: float) -> int | None:
        for skip_locked in (True,) if self.store.sqlite else (True, False):  # then wait for those others work on now
            for rank in (THIRD, BEGUN, AUDIT, UNTOUCHED):
                wanted = {"project": me.project, "wanted": rank, "person": me.id, "languages": me.languages}
                found = db.execute(self.store.locked(_UNSEEN, skip=skip_locked), wanted).scalar()
                if found is not None and (lease := self._take_place(db, found, me, project, now)) is not None:
                    return lease
        return None

    def _take_place(self, db: sa.Connection, number: int, me: Person, project: sa.Row[Any], now: float) -> int | None:
        """Give a person a free place at an item, after looking again with the item locked."""
        item = lock_item(self.store, db, number)
        assert item is not None
        at = places_at(db, item)
        place = at.free
        if place is None or lease_of(db, number, me.id) is not None or item.rank == NOTHING:
            return None
        lease = self._take(
            db, me, project, now, item=number, turn=at.turn, place=place, questions=",".join(at.asked),
            candidate_first=candidate_comes_first(project.seed, me.id, item.name),
        )  # fmt: skip
        settle(db, item, now)
        return lease

    def _show(self, db: sa.Connection, lease: sa.Row[Any]) -> AssignedItem:
        content = db.execute(sa.select(items.c.content).where(items.c.id == lease.item)).scalar_one()
        draft, done = _draft_of(db, lease), lease.state in HANDED_IN
        return assigned(lease.item, content, lease.questions, lease.candidate_first, draft, done)

    def _record(
        self, db: sa.Connection, lease: sa.Row[Any], project: sa.Row[Any], answers: Any, row: dict[str, Any]
    ) -> None:
        given = answers if isinstance(answers, GivenAnswers) else GivenAnswers(answers)
        values = read_answers(questions_of(lease.questions), given.answers, lease.candidate_first, own_answers(project))
        row |= {name: getattr(lease, name) for name in ("item", "annotator", "turn", "candidate_first")}
        shown = sa.select(guidelines.c.version).where(
            guidelines.c.project == project.id, guidelines.c.version == given.guideline
        )
        row["guideline"] = db.execute(shown).scalar() or project.guideline
        said = [{"question": name, "answer": protocol.answer_text(value)} for name, value in values.items()]
        db.execute(sa.insert(votes), [{**row, **one} for one in said])
        db.execute(sa.delete(drafts).where(drafts.c.lease == lease.id))

    def _why_final(self, db: sa.Connection, lease: sa.Row[Any], project: sa.Row[Any], *, undo: bool) -> str:
        now, item = self.store.clock(), _item(db, lease.item)
        taken = places_at(db, item).leases
        for place in {"first": (3, 4), "third": (4,), "audit": ()}[lease.turn]:
            if place in taken and taken[place].state == "held" and taken[place].expires < now:
                self._release(db, taken[place], now)
            elif place in taken:
                return "Somebody else has been given this item since, so it can no longer be changed."
        closed = item.stage == "closed"
        if closed and not (undo and now - (lease.finished or 0.0) <= project.undo_seconds):
            return "This item is closed and can no longer be changed."
        return ""

    def _save_draft(self, db: sa.Connection, lease: sa.Row[Any], draft: Draft, now: float) -> None:
        asked_here = questions_of(lease.questions)
        given = {name: value for name, value in draft.answers.items() if name in asked_here and value is not None}
        about = db.execute(sa.select(projects).join(items).where(items.c.id == lease.item)).one()
        for name, value in given.items():
            _check_answer(name, value, own_answers(about))
        row = {"answers": msgspec.json.encode(given).decode(), "note": clean_note(draft.note),
               "seconds": clean_seconds(draft.seconds) or 0.0, "at": now}  # fmt: skip
        if not db.execute(sa.update(drafts).where(drafts.c.lease == lease.id).values(**row)).rowcount:
            db.execute(sa.insert(drafts).values(lease=lease.id, **row))

    def _keep_answers(self, db: sa.Connection, lease: sa.Row[Any], now: float) -> None:
        self._save_draft(db, lease, _draft_of(db, lease), now)

    def give_back_third(self, db: sa.Connection, item: int, now: float) -> None:
        """Free the third place of an item; who had it may take it up again, with their answers, if it is disputed."""
        third = places_at(db, _item(db, item)).leases.get(3)
        if third is not None:
            if third.state in HANDED_IN:
                self._keep_answers(db, third, now)
            self._change(db, third.id, state="lapsed", place=None, finished=None)

    def _pictures(self, db: sa.Connection, project: int, thing: int) -> tuple[str, list[str]] | None:
        query = sa.select(items.c.name, items.c.images).where(items.c.id == thing, items.c.project == project)
        row = db.execute(query).first()
        return None if row is None else (row.name, from_json(row.images, list[str]))

    def _total(self, project: int) -> sa.Select[Any]:
        seen = items.c.stage.not_in(("practice", "off"))
        return sa.select(sa.func.count()).select_from(items).where(items.c.project == project, seen)

    def _mean_seconds(self, project: int) -> sa.Select[Any]:
        here = sa.select(annotators.c.id).where(annotators.c.project == project)
        seconds = sa.select(votes.c.annotator, sa.func.avg(votes.c.seconds)).where(votes.c.annotator.in_(here))
        return seconds.group_by(votes.c.annotator)  # by an index alone, in a large project

    def _lock_thing(self, db: sa.Connection, lease: sa.Row[Any]) -> bool:
        return db.execute(self.store.locked(_ITEM, skip=True), {"number": lease.item}).first() is not None

    def _settle(self, db: sa.Connection, lease: sa.Row[Any], now: float) -> None:
        settle(db, _item(db, lease.item), now)


def drawn(*what: object) -> float:
    """A number from 0 to 1 (excluded) that depends on nothing but these values, the seed of a project among them."""
    digest = hashlib.sha256("\x1f".join(map(str, what)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def candidate_comes_first(seed: int, person: int, item: str) -> bool:
    """The order of the replies: drawn for each person and item, so that nobody can predict it."""
    return drawn(seed, person, item) < 0.5


class GivenAnswers(NamedTuple):
    """Answers as shown, and the version of the guideline that was shown beside them; empty: the current one."""

    answers: Mapping[str, Any]
    guideline: str = ""


OwnAnswers = Mapping[str, tuple[str, ...]]
_NONE_OWN: OwnAnswers = {}


def own_answers(project: sa.Row[Any]) -> OwnAnswers:
    """The answers to each question of the project's own."""
    return {one.id: one.values for one in stored_questions(project.questions)}


def read_answers(
    asked: Sequence[Question], given: Mapping[str, Any], candidate_first: bool, own: OwnAnswers = _NONE_OWN
) -> dict[Question, protocol.Answer]:
    """Answers as they are kept, or an error that says what is wrong with them. `own`: answers to own questions.

    >>> read_answers(["emotion", "preference"], {"emotion": True, "preference": "second"}, candidate_first=True)
    {'emotion': True, 'preference': 'reference'}
    """
    if missing := [question for question in asked if given.get(question) is None]:
        raise BadAnswers(f"Not answered yet: {', '.join(missing)}.")
    if extra := [name for name in given if name not in asked]:
        raise BadAnswers(f"Not asked here: {', '.join(map(str, extra))[:200]}. Nothing was saved.")
    for question in asked:
        _check_answer(question, given[question], own)
    by_place = [name for name in asked if name == "preference" and given[name] in CHOICES]
    return {**{name: given[name] for name in asked},
            **{name: preference_of(given[name], candidate_first) for name in by_place}}  # fmt: skip


def as_shown(answer: protocol.Answer, candidate_first: bool) -> bool | Choice | protocol.Unsure:
    """An answer the way the person gave it: by place."""
    by_place = answer in ("candidate", "reference")  # the others, and own answers, have the same name everywhere
    return choice_of(cast("Preference", answer), candidate_first) if by_place else cast("Choice", answer)


def _check_answer(question: str, value: Any, own: OwnAnswers) -> None:
    possible = own.get(question) or (CHOICES if question == "preference" else (True, False))
    if value != protocol.UNSURE and (value not in possible or type(value) is not type(possible[0])):
        raise BadAnswers(f"The answer to {question} is {', '.join(map(str, possible))}; got {str(value)[:50]!r}.")


def _draft_of(db: sa.Connection, lease: sa.Row[Any]) -> Draft:
    """What a person has filled in: the draft, or what they handed in, the way they saw it."""
    if lease.state in HANDED_IN:
        query = sa.select(votes).where(votes.c.lease == lease.id, votes.c.revision == lease.revision)
        rows = db.execute(query).all()
        answers = {
            row.question: as_shown(protocol.answer_of(row.question, row.answer), lease.candidate_first) for row in rows
        }
        return Draft(answers, lease.note, max((row.seconds or 0.0 for row in rows), default=0.0))
    draft = db.execute(sa.select(drafts).where(drafts.c.lease == lease.id)).first()
    if draft is None:
        return Draft(note=lease.note)
    given = msgspec.json.decode(draft.answers)
    answers = {question: given[question] for question in questions_of(lease.questions) if question in given}
    return Draft(answers, draft.note, draft.seconds)


def _opening(content: str) -> str:
    history = from_json(content, Item).history
    text = " ".join(history[-1].text.split()) if history else ""
    return text if len(text) <= _OPENING else text[:_OPENING] + "…"


class ItemPlaces(NamedTuple):
    """The places at an item: leases that are held or done by place, the valid ballots, and what follows from them."""

    leases: dict[int, Any]
    ballots: list[protocol.Ballot]
    questions: tuple[Question, ...]

    @property
    def stage(self) -> protocol.Stage:
        return protocol.stage(self.questions, self.ballots)

    @property
    def turn(self) -> protocol.Pass:
        """The pass in which the item is worked on now."""
        return TURNS[self.stage]

    @property
    def free(self) -> int | None:
        """A place that is free in this pass."""
        return next((place for place in protocol.PLACES[self.turn] if place not in self.leases), None)

    @property
    def asked(self) -> tuple[Question, ...]:
        """What a person in this pass is asked: the third exactly what is disputed, the others everything."""
        return protocol.disputed(self.questions, self.ballots) if self.turn == "third" else self.questions


def places_at(db: sa.Connection, item: sa.Row[Any]) -> ItemPlaces:
    """The places of one item with their ballots, in the order of the places."""
    rows = db.execute(_PLACES, {"number": item.id}).all()
    answers: dict[int, dict[Question, protocol.Answer]] = {}
    for row in rows:
        if row.question is not None:
            answers.setdefault(row.place, {})[row.question] = protocol.answer_of(row.question, row.answer)
    taken = {row.place: row for row in rows}
    ballots = [
        protocol.Ballot(str(taken[place].annotator), taken[place].turn, given) for place, given in answers.items()
    ]
    return ItemPlaces(taken, ballots, questions_of(item.questions))


def lock_item(store: Store, db: sa.Connection, item: int) -> sa.Row[Any] | None:
    """The item, locked until the transaction ends."""
    return db.execute(store.locked(_ITEM), {"number": item}).first() if is_row_number(item) else None


def lease_of(db: sa.Connection, item: int, annotator: int) -> sa.Row[Any] | None:
    """A person's lease of an item, if they have one."""
    return db.execute(_LEASE, {"number": item, "person": annotator}).first() if is_row_number(item) else None


def questions_of(text: str) -> tuple[Question, ...]:
    """Questions as they are kept in a column: the paper's, and then the project's own, which are handled alike."""
    return cast("tuple[Question, ...]", tuple(text.split(",")))


def settle(db: sa.Connection, item: sa.Row[Any], now: float) -> None:
    """Work out what the item waits for and tell the queue. An item with known answers waits for nothing."""
    if item.stage not in STAGES:
        return
    at = places_at(db, item)
    now_at, rank = at.stage, NOTHING
    if now_at == "closed":
        rank = AUDIT if 4 not in at.leases and _is_drawn(db, item, now) else NOTHING
    elif at.free:
        rank = THIRD if now_at == "third" else BEGUN if at.leases else UNTOUCHED
    if item.stage == "closed" and now_at != "closed":  # undone: it is drawn anew when it closes again
        db.execute(sa.delete(audit_draws).where(audit_draws.c.item == item.id))
    alone = next(iter(at.leases.values())).annotator if rank == BEGUN else None
    db.execute(_UPDATE_ITEM, {"number": item.id, "now_at": now_at, "new_rank": rank, "alone": alone})


def _item(db: sa.Connection, number: int) -> Any:
    return db.execute(_ITEM, {"number": number}).one()


def _is_drawn(db: sa.Connection, item: sa.Row[Any], now: float) -> bool:
    """Whether a closed item goes to the audit. The draw depends on the seed and the item, not on when it closes."""
    if db.execute(sa.select(audit_draws.c.item).where(audit_draws.c.item == item.id)).first() is not None:
        return True
    project = db.execute(sa.select(projects.c.seed, projects.c.audit_share).where(projects.c.id == item.project)).one()
    if drawn("audit", project.seed, item.name) >= project.audit_share:
        return False
    db.execute(sa.insert(audit_draws).values(item=item.id, at=now))
    return True
