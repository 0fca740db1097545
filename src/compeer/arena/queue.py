"""What a person compares next, handing in, taking back, putting away.

What they hold comes first, then what lapsed and nobody took over, then of the next slots in the plan the one that suits
their record (`pairing.choose`). Nobody gets a comparison twice; coordinators and paused people get nothing; a closed
arena gives out nothing. A slot that is held by somebody who was paused or whose link ended goes back.

Everything is refused in the way of labelling (`compeer.annotation.refusal`), under the random name of a lease.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, insert, select

from compeer.annotation.forms import use
from compeer.annotation.people import Person, locked
from compeer.annotation.project import inside
from compeer.annotation.refusal import BadAnswers, Refused
from compeer.annotation.store import Store
from compeer.annotation.store.arena_tables import (
    arena_cases,
    arena_leases,
    arena_replies,
    arena_skips,
    arena_slots,
    arena_votes,
    arenas,
)
from compeer.annotation.store.tables import projects
from compeer.annotation.voting import LONGEST_NOTE
from compeer.arena.cases import Case
from compeer.arena.replies import Reply
from compeer.arena.seats import change, is_complete, lapse, seat, slot_of, take_up
from compeer.cer.item import Said
from compeer.errors import UserError
from compeer.reasoning import STEPS, render_step
from compeer.reasoning.ontology import Language
from compeer.reward.verdict import CHOICES, Choice

_MOST_SECONDS = 86400.0
_LONGEST_REASON = 2000


class Comparison(msgspec.Struct, frozen=True):
    """Two replies as one person sees them. Nothing in it tells whose they are.

    `thoughts` are the steps of both, where the arena shows them and both have them. `choice` is what the person had
    chosen, after taking it back.
    """

    name: str
    language: Language
    history: tuple[Said, ...]
    first: str
    second: str
    thoughts: tuple[dict[str, str], dict[str, str]] | None = None
    choice: Choice | None = None
    note: str = ""
    seconds: float = 0.0


def next_comparison(store: Store, person: Person) -> Comparison | None:
    """The next comparison for this person, leased to them; None when there is nothing for them now."""

    def work(db: Connection) -> str | None:
        me = locked(store, db, person)
        arena = _arena(db, me.project)
        if me.paused or me.role != "annotator" or arena.closed is not None:
            return None
        now = store.clock()
        lapse(db, me.project, now)
        mine = select(arena_leases).where(arena_leases.c.annotator == me.id)
        held = db.execute(mine.where(arena_leases.c.state == "held").order_by(arena_leases.c.opened.desc())).first()
        if held is not None:
            change(db, held.id, expires=now + arena.lease_seconds)
            return str(held.name)
        lapsed = mine.where(arena_leases.c.state == "lapsed").order_by(arena_leases.c.opened.desc())
        for row in db.execute(lapsed).all():
            if take_up(db, row, now + arena.lease_seconds):
                return str(row.name)
        return seat(db, me, now, now + arena.lease_seconds)

    name = store.write(work)
    return None if name is None else view(store, person, name)


def view(store: Store, person: Person, name: str) -> Comparison:
    """A comparison that this person holds; any other is refused."""
    with store.read() as db:
        lease = db.execute(_mine(person, name)).first()
        if lease is not None and lease.state in ("held", "lapsed"):
            return _comparison(db, lease)
    refusal = not_yours(person)
    store.log(refusal)
    raise refusal


def submit(
    store: Store,
    person: Person,
    name: str,
    choice: str,
    *,
    seconds: float | None = None,
    note: str = "",
    form: str = "",
) -> None:
    """Hand in which reply is better: first, second, both or neither. When this returns it is on the disk."""
    if choice not in CHOICES:
        raise BadAnswers(f"The answer is {', '.join(CHOICES)}; got {choice[:50]!r}.")
    note = note.replace("\x00", "").strip()
    if len(note) > LONGEST_NOTE:
        raise BadAnswers(f"A note has at most {LONGEST_NOTE:,} characters; this one has {len(note):,}.")

    def work(db: Connection) -> None:
        lease, arena = _begin(store, db, person, name, form)
        now = store.clock()
        if lease.state == "lapsed" and not take_up(db, lease, now + arena.lease_seconds):
            raise _refused("lapsed", "You were away for long, and somebody else has this comparison now.", person)
        one_left = db.execute(select(arena_slots.c.one_left).where(arena_slots.c.id == lease.slot)).scalar_one()
        row = {"lease": lease.id, "revision": lease.revision + 1, "choice": choice, "one_left": one_left, "at": now}
        db.execute(insert(arena_votes).values(**row, seconds=_seconds(seconds)))
        change(db, lease.id, state="done", revision=lease.revision + 1, finished=now, note=note)

    store.write(work)


def undo(store: Store, person: Person, *, form: str = "") -> Comparison | None:
    """Take back what this person handed in last, for some minutes and until the results are out. None: nothing."""

    def work(db: Connection) -> str | None:
        done = select(arena_leases).where(arena_leases.c.annotator == person.id, arena_leases.c.state == "done")
        last = db.execute(done.order_by(arena_leases.c.finished.desc(), arena_leases.c.id.desc())).first()
        if last is None:
            return None
        lease, arena = _begin(store, db, person, last.name, form, state="done")
        now = store.clock()
        if is_complete(db, person.project):
            raise _refused("closed", "Every comparison has its vote, and the results are out.", person)
        if now - (lease.finished or 0.0) > arena.undo_seconds:
            raise _refused("closed", "This was handed in a while ago and stays as it is.", person)
        change(db, lease.id, state="held", opened=now, expires=now + arena.lease_seconds, finished=None)
        return str(lease.name)

    found = store.write(work)
    return None if found is None else view(store, person, found)


def skip(store: Store, person: Person, name: str, reason: str, *, distress: bool = False, form: str = "") -> None:
    """Give a comparison back for good, with a reason; `distress` when it was too hard to read. Others get it."""
    said = reason.replace("\x00", "").strip()[:_LONGEST_REASON]

    def work(db: Connection) -> None:
        lease, _ = _begin(store, db, person, name, form)
        now = store.clock()
        change(db, lease.id, state="skipped", seat=None, finished=now)
        db.execute(insert(arena_skips).values(lease=lease.id, at=now, reason=said, distress=distress))

    store.write(work)


def keep(store: Store, person: Person, name: str) -> bool:
    """Somebody is still reading: renew the lease. False when it has run out."""

    def work(db: Connection) -> bool:
        me = locked(store, db, person)
        lease = db.execute(_mine(me, name)).first()
        if lease is None or lease.state != "held" or me.paused:
            return False
        change(db, lease.id, expires=store.clock() + _arena(db, me.project).lease_seconds)
        return True

    return store.write(work)


def picture(store: Store, person: Person, name: str, number: int) -> Path:
    """The n-th picture of a comparison that was given to this person."""
    with store.read() as db:
        lease = db.execute(_mine(person, name)).first()
        content = folder = None
        if lease is not None:
            content = db.execute(select(arena_cases.c.content).where(arena_cases.c.id == lease.case)).scalar_one()
            folder = db.execute(select(projects.c.images).where(projects.c.id == person.project)).scalar_one()
    try:
        if content is None:
            raise not_yours(person)
        case = msgspec.json.decode(content, type=Case)
        if not 0 <= number < len(case.images) or folder is None:
            raise _refused("path", "There is no such picture.", person)
        try:
            return inside(Path(folder), case.images[number], case.id)
        except UserError:
            raise _refused("path", "There is no such picture.", person) from None
    except Refused as refusal:
        store.log(refusal)
        raise


def not_yours(person: Person) -> Refused:
    return _refused("not-yours", "This comparison was not given to you.", person)


def _begin(
    store: Store, db: Connection, person: Person, name: str, form: str, *, state: str = "held"
) -> tuple[Row[Any], Row[Any]]:
    """The lease and the arena, when this person may change it now."""
    me = locked(store, db, person)
    use(store, db, me, form)
    lease = db.execute(_mine(me, name)).first()
    if lease is None:
        raise not_yours(me)
    if me.paused:
        raise _refused("paused", "Your coordinator has paused your work.", me)
    arena = _arena(db, me.project)
    if arena.closed is not None:
        raise _refused("closed", "The arena has been closed, so nothing more is counted.", me)
    if lease.state != state and not (state == "held" and lease.state == "lapsed"):
        raise _refused("closed", "This was handed in or put away already.", me)
    return lease, arena


def _comparison(db: Connection, lease: Row[Any]) -> Comparison:
    content = db.execute(select(arena_cases.c.content).where(arena_cases.c.id == lease.case)).scalar_one()
    case = msgspec.json.decode(content, type=Case)
    query = select(arena_replies.c.model, arena_replies.c.content).where(arena_replies.c.case == lease.case)
    said = {row.model: msgspec.json.decode(row.content, type=Reply) for row in db.execute(query)}
    slot = slot_of(db.execute(select(arena_slots).where(arena_slots.c.id == lease.slot)).one())
    left, right = said[slot.left], said[slot.right]
    shown = select(arenas.c.show_reasoning).where(arenas.c.project == select(arena_slots.c.project)
                                                  .where(arena_slots.c.id == lease.slot).scalar_subquery())  # fmt: skip
    thoughts = None
    if left.reasoning and right.reasoning and db.execute(shown).scalar_one():
        steps = [{step: render_step(one, step) for step in STEPS} for one in (left.reasoning, right.reasoning)]
        thoughts = (steps[0], steps[1])
    last = db.execute(
        select(arena_votes).where(arena_votes.c.lease == lease.id, arena_votes.c.revision == lease.revision)
    ).first()
    return Comparison(
        lease.name, case.language, case.history, left.response, right.response, thoughts,
        choice=last.choice if last else None, note=lease.note, seconds=(last.seconds or 0.0) if last else 0.0,
    )  # fmt: skip


def _mine(person: Person, name: str) -> Any:
    return select(arena_leases).where(arena_leases.c.name == name[:64], arena_leases.c.annotator == person.id)


def _arena(db: Connection, project: int) -> Row[Any]:
    settings = (projects.c.lease_seconds, projects.c.undo_seconds, arenas.c.closed)
    query: Select[Any] = select(*settings).join(arenas)
    return db.execute(query.where(projects.c.id == project)).one()


def _refused(kind: Any, message: str, person: Person) -> Refused:
    return Refused(kind, message, annotator=person.id, project=person.project)


def _seconds(given: float | None) -> float | None:
    return None if given is None or not math.isfinite(given) else min(max(float(given), 0.0), _MOST_SECONDS)
