"""Quality of labelling: what is measured of each person's work, flags for careless work, and labels on hold.

Flags: a person is flagged, with the numbers, when they are much faster than the others and below a floor, when too many
gold answers are wrong, when kappa with the others is too low, or when they give one and the same answer where others do
not. Shares and kappa count by the upper end of their interval, so that few items do not flag anybody. Kappa alone
accuses both sides: the lowest in the project is flagged first, and the rest are counted again without them.

Hold: the labels of a flagged person are withheld. They keep their places and count for nothing, no item is closed by
them, and the person gets no more items until a coordinator decides. Released, they count as before, and only later work
is checked again. Discarded, they are kept but never count; their items go back to the queue. A third vote on what a
discarded vote had disputed goes back as well, as a draft: it answered a question that may not be asked again.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from compeer.cer.item import Question
from compeer.errors import UserError
from compeer.people import labelling
from compeer.people.invitations import Person, lock_named, read_people, set_paused
from compeer.people.protocol import UNSURE, answer_of
from compeer.people.store import Store, transaction
from compeer.people.tables import NEWEST_VOTES, holds, items, known_answers, leases, projects, votes
from compeer.people.work_queue import HANDED_IN
from compeer.statistics import Figure, Resamples, estimate, quotient, share_figure, wilson
from compeer.typed import from_json

FlagKind = Literal["speed", "gold", "agreement", "constant", "coordinator"]
_CHECK_EVERY = 5  # items of a person between two checks
_CONSTANT_CHANCE = 0.001  # of giving one answer throughout, at the others' rate


class QualitySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a project checks. A person is checked after every fifth item, from `least_items` on."""

    gold_share: float = 0.1  # of the items that a person gets
    hold: bool = True  # withhold the labels of whoever is flagged; otherwise only show the flag
    floor_seconds: float = 5.0  # median per item below which somebody cannot have read it
    far_below: float = 0.25  # of the others' median
    least_items: int = 10
    gold_right: float = 0.7  # share of right gold answers that must be possible
    least_gold: int = 4  # gold items
    kappa: float = 0.2  # with the others, that must be possible
    least_shared: int = 20  # items that others have judged as well

    def check(self) -> None:
        """UserError where a setting is out of its range."""
        for name in ("gold_share", "far_below", "gold_right"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} lies between 0 and 1; got {getattr(self, name)}.")
        if self.gold_share > 0.5:
            raise UserError(f"At most half of the items can be gold; got {self.gold_share}.")
        if not -1 <= self.kappa <= 1:
            raise UserError(f"kappa lies between -1 and 1; got {self.kappa}.")
        if min(self.floor_seconds, self.least_items, self.least_gold, self.least_shared) < 0:
            raise UserError("Seconds and least numbers of items are not negative.")


def settings_of(store: Store, project: int) -> QualitySettings:
    """The settings of a project, or the defaults."""
    with store.read() as db:
        return read_settings(db, project)


def set_settings(store: Store, project: int, settings: QualitySettings) -> None:
    """Change what a project checks, from now on."""
    settings.check()
    text = msgspec.json.encode(settings).decode()
    store.write(lambda db: db.execute(update(projects).where(projects.c.id == project).values(quality=text)))


def read_settings(db: Connection, project: int) -> QualitySettings:
    """The settings of a project, within a transaction."""
    text = db.execute(select(projects.c.quality).where(projects.c.id == project)).scalar_one()
    return QualitySettings() if text is None else from_json(text, QualitySettings)


class Flag(msgspec.Struct, frozen=True):
    """Why a person is flagged, with the numbers; `text` says it in plain words."""

    kind: FlagKind
    numbers: dict[str, str] = {}

    @property
    def text(self) -> str:
        return _FLAGS[self.kind].format(**self.numbers)


_FLAGS: dict[FlagKind, str] = msgspec.json.decode(Path(__file__).with_name("texts.json").read_bytes())["flags"]


class Hold(msgspec.Struct, frozen=True):
    """Labels that were withheld: since when, why, and what a coordinator decided."""

    at: float
    flags: list[Flag]
    decision: Literal["open", "released", "discarded"]
    decided: float | None = None


class PersonQuality(msgspec.Struct, frozen=True):
    """What is measured of one person's work, since a coordinator last decided about it."""

    id: int
    name: str
    items: int  # answered in full: without third votes, which are asked less
    seconds: float | None  # median per item
    unsure: Figure  # share of answers
    gold: Figure  # share of right answers to gold items
    gold_items: int
    kappa: Figure  # with the others' first votes on the same items, all questions together
    flags: list[Flag]
    holds: list[Hold] = []  # the newest first

    @property
    def on_hold(self) -> bool:
        return bool(self.holds) and self.holds[0].decision == "open"


def quality_of_people(store: Store, project: int) -> list[PersonQuality]:
    """Everybody who labels, in the order in which they were added."""
    with store.read() as db:
        return [_measure(db, one) for one in read_people(db, project) if one.role == "annotator"]


class _AnsweredItem(NamedTuple):
    """One lease that somebody finished, with all its answers."""

    item: int
    person: int
    turn: str
    seconds: float | None
    candidate_first: bool
    answers: dict[Question, str]


def _answered_items(db: Connection, *which: ColumnElement[bool]) -> list[_AnsweredItem]:
    """Those of some leases that have answers, in the order in which they were finished."""
    query = select(leases, votes.c.question, votes.c.answer, votes.c.seconds).join(votes, NEWEST_VOTES)
    found: dict[int, _AnsweredItem] = {}
    for row in db.execute(query.where(*which).order_by(leases.c.finished, votes.c.id)):
        new = _AnsweredItem(row.item, row.annotator, row.turn, row.seconds, row.candidate_first, {})
        found.setdefault(row.id, new).answers[row.question] = row.answer
    return list(found.values())


def _measure(db: Connection, person: Person) -> PersonQuality:
    """The person's work and their flags."""
    settings, decided = read_settings(db, person.project), _holds(db, person.id)
    since = max((one.decided or 0.0 for one in decided), default=0.0)
    mine = (leases.c.annotator == person.id) & leases.c.state.in_(("done", "withheld"))
    answered = _answered_items(db, mine, leases.c.finished > since, leases.c.turn != "third")
    flags: list[Flag] = []
    seconds = [one.seconds for one in answered if one.seconds is not None]
    own, others = _median(seconds), _median(_seconds_of_others(db, person), settings.least_items)
    limit = settings.floor_seconds if others is None else min(settings.floor_seconds, settings.far_below * others)
    if own is not None and len(seconds) >= settings.least_items and own < limit:
        numbers = {"seconds": f"{own:.1f}", "items": f"{len(seconds)}", "floor": f"{settings.floor_seconds:g}"}
        flags.append(Flag("speed", {**numbers, "others": "-" if others is None else f"{others:.0f}"}))
    gold, gold_items, gold_right = _gold_answers(db, answered)
    if gold_items >= settings.least_gold and gold.high is not None and gold.high < settings.gold_right:
        numbers = {"right": f"{gold_right}", "answers": f"{gold.n}", "least": f"{100 * settings.gold_right:.0f}"}
        flags.append(Flag("gold", {**numbers, **_percent(gold)}))
    partners = _answers_of_others(db, [one.item for one in answered if one.turn == "first"], person.id)
    shared = {one.item: one for one in answered if one.turn == "first" and one.item in partners}
    agreed = _pooled_kappa([(one.item, one.answers, partners[one.item].answers) for one in shared.values()])
    met = {partners[number].person for number in shared}
    enough = len(shared) >= settings.least_shared and len(met) > 1
    if enough and agreed.high is not None and agreed.high < settings.kappa:
        figures = {"kappa": agreed.value or 0.0, "low": agreed.low or 0.0, "high": agreed.high}
        numbers = {name: f"{value:.2f}" for name, value in figures.items()}
        flags.append(Flag("agreement", {**numbers, "items": f"{len(shared)}", "least": f"{settings.kappa:g}"}))
    if len(answered) >= settings.least_items and (same := _constant(answered, partners)) is not None:
        flags.append(same)
    said_unsure = [answer == UNSURE for one in answered for answer in one.answers.values()]
    return PersonQuality(
        id=person.id, name=person.name, items=len(answered), seconds=own,
        unsure=share_figure("unsure", said_unsure), gold=gold, gold_items=gold_items, kappa=agreed, flags=flags,
        holds=decided,
    )  # fmt: skip


def _median(seconds: Sequence[float], least: int = 1) -> float | None:
    return statistics.median(seconds) if len(seconds) >= max(1, least) else None


def _percent(figure: Figure) -> dict[str, str]:
    bounds = {"share": figure.value, "low": figure.low, "high": figure.high}
    return {name: f"{100 * (value or 0.0):.0f}" for name, value in bounds.items()}


def _seconds_of_others(db: Connection, person: Person) -> list[float]:
    """Seconds per item of everybody else in the project whose labels count."""
    query = select(func.max(votes.c.seconds)).join(leases, leases.c.id == votes.c.lease).join(items)
    query = query.where(items.c.project == person.project, leases.c.annotator != person.id, leases.c.state == "done")
    query = query.where(leases.c.turn != "third", votes.c.seconds.is_not(None))
    return [float(one) for one in db.execute(query.group_by(leases.c.id)).scalars()]


def _gold_answers(db: Connection, answered: Sequence[_AnsweredItem]) -> tuple[Figure, int, int]:
    """The share of right answers to gold items, how many items, and how many right. Unsure is no answer."""
    numbers = [one.item for one in answered if one.turn == "gold"]
    query = select(known_answers.c.item, known_answers.c.answers).where(known_answers.c.item.in_(numbers))
    known = {row.item: msgspec.json.decode(row.answers) for row in db.execute(query)}
    given = [
        (one.item, one.answers[name] == right)
        for one in answered
        for name, right in known.get(one.item, {}).items()
        if one.turn == "gold" and one.answers.get(name, UNSURE) != UNSURE
    ]
    figure = share_figure("gold", [right for _, right in given], [str(number) for number, _ in given])
    return figure, len({number for number, _ in given}), sum(right for _, right in given)


def _answers_of_others(db: Connection, numbers: Sequence[int], person: int) -> dict[int, _AnsweredItem]:
    """By item, the first-pass answers of the other person, where they count."""
    theirs = (leases.c.annotator != person) & (leases.c.turn == "first") & (leases.c.state == "done")
    parts = (numbers[start : start + 500] for start in range(0, len(numbers), 500))
    return {one.item: one for part in parts for one in _answered_items(db, theirs, leases.c.item.in_(part))}


def _pooled_kappa(pairs: Sequence[tuple[int, Mapping[Question, str], Mapping[Question, str]]]) -> Figure:
    """Kappa over all questions: what agreement exceeds chance by, of what it could; chance per question.

    The interval draws items, each with all its questions.
    """
    rows: list[tuple[str, str, str, str]] = [
        (str(number), name, mine[name], theirs[name])
        for number, mine, theirs in pairs
        for name in mine
        if name in theirs and UNSURE not in (mine[name], theirs[name])
    ]
    if not rows:
        return Figure("kappa")
    resamples = Resamples([row[0] for row in rows])
    resamples.weights = np.vstack([np.ones(resamples.groups), resamples.weights])  # first what there is, then the draws
    codes = {one: n for n, one in enumerate(sorted({text for row in rows for text in row[2:]}))}
    mine, theirs = (np.array([codes[row[side]] for row in rows]) for side in (2, 3))
    above = below = np.zeros(len(resamples.weights))
    for question in dict.fromkeys(row[1] for row in rows):
        chosen = np.array([row[1] == question for row in rows])
        tables = resamples.tables(mine, theirs, len(codes), chosen)[:, :, : len(codes)]
        n, same = tables.sum(axis=(1, 2)), np.trace(tables, axis1=1, axis2=2)
        chance = quotient((tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1), n, empty=0.0)
        above, below = above + same - chance, below + n - chance
    pooled = quotient(above, np.where(below > 1e-9, below, 0.0))
    return estimate("kappa", float(pooled[0]), pooled[1:], len(pairs))


def _constant(answered: Sequence[_AnsweredItem], partners: Mapping[int, _AnsweredItem]) -> Flag | None:
    """A flag where somebody gave one answer per question throughout, as shown, and the others hardly ever would."""

    def shown(answers: Mapping[Question, str], first: bool) -> dict[Question, str]:
        return {name: str(labelling.as_shown(answer_of(name, text), first)).lower() for name, text in answers.items()}

    mine = [shown(one.answers, one.candidate_first) for one in answered]
    given: defaultdict[Question, set[str]] = defaultdict(set)
    for one in mine:
        for name, text in one.items():
            given[name].add(text)
    if any(len(texts) > 1 for texts in given.values()):
        return None
    constant = {name: next(iter(texts)) for name, texts in given.items()}
    theirs = [shown(one.answers, one.candidate_first) for one in partners.values()]
    same = sum(all(text == constant.get(name) for name, text in one.items()) for one in theirs)
    if not theirs or wilson(same / len(theirs), len(theirs))[1] ** len(mine) >= _CONSTANT_CHANCE:
        return None
    numbers = {"items": f"{len(mine)}", "share": f"{100 * same / len(theirs):.0f}"}
    return Flag("constant", {**numbers, "answers": ", ".join(constant.values())})


def check_person(store: Store, person: Person) -> list[Flag]:
    """Look at a person's work after some items, and withhold it where it is flagged; what they are flagged for."""
    with store.read() as db:
        finished = leases.c.state.in_(HANDED_IN)
        query = select(func.count()).select_from(leases).where(leases.c.annotator == person.id, finished)
        done = db.execute(query).scalar_one()
        settings = read_settings(db, person.project)
        if not settings.hold or done < settings.least_items or done % _CHECK_EVERY:
            return []
        found = _measure(db, person)
        lowest = found
        if {one.kind for one in found.flags} == {"agreement"}:  # it takes two to disagree: who is the lowest?
            everybody = [_measure(db, one) for one in read_people(db, person.project) if one.role == "annotator"]
            accused = [one for one in everybody if not one.on_hold and "agreement" in {flag.kind for flag in one.flags}]
            lowest = min(accused, key=lambda one: one.kappa.value or 0.0, default=found)
    if not lowest.flags or lowest.on_hold:
        return []
    with suppress(UserError):  # somebody else's answer was checked at the same moment
        hold(store, person.project, lowest.name, lowest.flags)
    return lowest.flags if lowest.id == person.id else []


@transaction
def hold(store: Store, db: Connection, project: int, name: str, flags: Sequence[Flag]) -> int:
    """Withhold what a person has labelled, and return how many items that is.

    By a check this is the work since the last decision about it, by a coordinator's own wish all of it.
    """
    row, now = lock_named(store, db, project, name), store.clock()
    before = _holds(db, row.id)
    if before and before[0].decision == "open":
        raise UserError(f"The labels of {name} are on hold already.")
    reasons = msgspec.json.encode(list(flags)).decode()
    db.execute(insert(holds).values(annotator=row.id, at=now, reasons=reasons, decision="open"))
    set_paused(db, row.id, True)
    by_hand = any(one.kind == "coordinator" for one in flags)
    since = 0.0 if by_hand else max((one.decided or 0.0 for one in before), default=0.0)
    return _move(store, db, row.id, "done", "withheld", now, since)


def release(store: Store, project: int, name: str) -> int:
    """Let the withheld labels of a person count again; returns how many items."""
    return _decide(store, project, name, "released", "done")


def discard(store: Store, project: int, name: str) -> int:
    """Discard the withheld labels of a person, who stays paused; returns how many items go back to the queue."""
    return _decide(store, project, name, "discarded", "discarded")


@transaction
def _decide(store: Store, db: Connection, project: int, name: str, decision: str, state: str) -> int:
    row, now = lock_named(store, db, project, name), store.clock()
    waiting = update(holds).where(holds.c.annotator == row.id, holds.c.decision == "open")
    if not db.execute(waiting.values(decision=decision, decided=now)).rowcount:
        raise UserError(f"No labels of {name} are on hold.")
    if decision == "released":
        set_paused(db, row.id, False)
    return _move(store, db, row.id, "withheld", state, now)


def _holds(db: Connection, person: int) -> list[Hold]:
    """The holds of a person, the newest first."""
    rows = db.execute(select(holds).where(holds.c.annotator == person).order_by(holds.c.id.desc()))
    return [Hold(row.at, from_json(row.reasons, list[Flag]), row.decision, row.decided) for row in rows]


def _move(store: Store, db: Connection, person: int, old: str, new: str, now: float, since: float = 0.0) -> int:
    """Move a person's leases from one state to another, and work out anew what their items wait for; how many."""
    mine = select(leases.c.id, leases.c.item, leases.c.turn, leases.c.place)
    mine = mine.where(leases.c.annotator == person, leases.c.state == old, leases.c.finished > since)
    found = db.execute(mine.order_by(leases.c.item)).all()
    for row in found:
        item = db.execute(store.locked(select(items).where(items.c.id == row.item))).one()
        place = None if new == "discarded" else row.place
        db.execute(update(leases).where(leases.c.id == row.id).values(state=new, place=place))
        if new == "discarded" and row.turn == "first":
            labelling.LabellingQueue(store).give_back_third(db, item.id, now)
        labelling.settle(db, item, now)
    return len(found)
