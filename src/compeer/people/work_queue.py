"""The work of one person, the same for labelling and arena: next, hand in, undo, skip, drafts, pictures, progress.

A lease is a person's one relation to one thing to judge. Somebody who asks gets what they hold already, then what they
had begun and nobody has taken over, then something new. A lease lasts some minutes and is renewed while they read. One
that has expired gives its place back; until somebody takes it, the person who had it may still hand in, or continue.
Votes are never overwritten: to change one is to add a revision.

`WorkQueue` holds these rules. `labelling.LabellingQueue` (2 + 1 people per item) and `arena.ArenaQueue` (slots of a
plan) say what a place is, which one comes next, what an answer is and when it is final. All methods block on the
database, so an async handler calls them in a thread. What is refused raises `Refused`, is logged, and changes nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
from sqlalchemy import Connection, Row, Select, Table, case, func, insert, or_, select, update

from compeer.errors import UserError
from compeer.people.invitations import Person, lock_person, read_people
from compeer.people.projects import PROJECTS, Project, picture_file
from compeer.people.store import BadAnswers, Refused, Store, refuse, transaction
from compeer.people.tables import annotators, projects

Key = TypeVar("Key", int, str)
Work = TypeVar("Work")

LONGEST_NOTE = 10_000
_LONGEST_REASON = 2000
_MOST_SECONDS = 86400.0
_EXPIRED_AT_ONCE = 50
_REMINDERS: dict[str, Any] = msgspec.json.decode(Path(__file__).with_name("texts.json").read_bytes())["reminders"]
#: states of a lease that was handed in, whether or not its votes count
HANDED_IN = ("done", "withheld", "discarded")


class Draft(msgspec.Struct, frozen=True):
    """What was filled in so far, as shown: first and second, not reference and candidate."""

    answers: Mapping[Any, Any] = {}
    note: str = ""
    seconds: float = 0.0


class OwnProgress(msgspec.Struct, frozen=True):
    """A person's own counts (today by UTC), and how much there is to judge in all."""

    done: int
    today: int
    skipped: int
    total: int


class PersonProgress(Person, frozen=True, kw_only=True):
    """What one person has done, for the coordinator."""

    done: int
    held: int
    skipped: int
    distressed: int
    seconds: float | None  # mean per thing judged
    withheld: int  # handed in, and not counted until the coordinator decides
    discarded: int


class WorkQueue(ABC, Generic[Key, Work]):
    """What people do with the leases of one kind. `Key` is what a page knows a lease by, `Work` what it shows."""

    leases: ClassVar[Table]
    votes: ClassVar[Table]
    skips: ClassVar[Table]
    place: ClassVar[str]  # column that is empty while a lease takes no place
    key: ClassVar[str]  # column that a page knows a lease by
    about: ClassVar[str]  # column with the item or the case that is judged
    thing: ClassVar[str]  # for messages
    viewable: ClassVar[tuple[str, ...]]  # states in which a lease can be looked at

    def __init__(self, store: Store) -> None:
        self.store, self.write = store, store.write

    def next(self, person: Person) -> Work | None:
        """The next thing for this person, leased to them; None when there is nothing for them now."""
        self.return_expired()
        return self._shown(self._next(person))

    @transaction
    def _next(self, db: Connection, person: Person) -> int | None:
        me = lock_person(self.store, db, person)
        project = self._project(db, me)
        if me.paused or me.role != "annotator" or project.closed is not None:
            return None
        now = self.store.clock()
        if (held := db.execute(self._in_state(me, "held")).first()) is not None:
            self._change(db, held.id, expires=now + project.lease_seconds)
            return int(held.id)
        for lease in db.execute(self._resumable(me)).all():
            if self._resume(db, lease, project, now):
                return int(lease.id)
        return self._assign(db, me, project, now) if self._within_quota(db, me, project) else None

    def view(self, person: Person, key: Key) -> Work:
        """Something that was given to this person; anything else is refused."""
        with self.store.read() as db:
            lease = self._find(db, person, key)
            if lease is not None and lease.state in self.viewable:
                return self._show(db, lease)
        raise self._logged(self._not_yours(person, key))

    @transaction
    def submit(
        self,
        db: Connection,
        person: Person,
        key: Key,
        answers: Any,
        *,
        seconds: float | None = None,
        note: str = "",
        form: str = "",
    ) -> None:
        """Hand in the answers, or change them while that is possible. When this returns they are on the disk."""
        me, lease, project = self._open(db, person, key, form)
        now, note = self.store.clock(), clean_note(note)
        if me.paused:
            raise refuse(me, "paused", "Your coordinator has paused your work. Your draft is kept.")
        if lease.state == "lapsed":
            if not self._resume(db, lease, project, now):
                message = f"You were away for a long time, and somebody else has this {self.thing} now."
                raise refuse(me, "lapsed", message, f"{self.thing} {key}")
            lease = self._lease(db, lease.id)
        elif lease.state == "done" and (why := self._why_final(db, lease, project, undo=False)):
            raise refuse(me, "closed", why, f"{self.thing} {key}")
        revision = int(lease.revision) + 1
        row = {"lease": lease.id, "revision": revision, "at": now, "seconds": clean_seconds(seconds)}
        self._record(db, lease, project, answers, row)
        self._change(db, lease.id, state="done", revision=revision, finished=now, note=note)
        self._settle(db, lease, now)

    def undo(self, person: Person, *, form: str = "") -> Work | None:
        """Take back what this person handed in last; it is theirs again, with their answers. None: there is nothing."""
        self.return_expired()
        return self._shown(self._take_back(person, form))

    @transaction
    def _take_back(self, db: Connection, person: Person, form: str) -> int | None:
        last = db.execute(self._in_state(person, "done")).first()
        if last is None:
            return None
        me, lease, project = self._open(db, person, getattr(last, self.key), form)
        if me.paused:
            raise refuse(me, "paused", "Your coordinator has paused your work.")
        why = self._why_final(db, lease, project, undo=True)
        if lease.state != "done" or why:
            message = why or "This was taken back already."
            raise refuse(me, "closed", message, f"undo of {self.thing} {getattr(lease, self.key)}")
        now = self.store.clock()
        self._keep_answers(db, lease, now)
        until = now + project.lease_seconds
        self._change(db, lease.id, state="held", opened=now, expires=until, finished=None)
        self._settle(db, lease, now)
        return int(lease.id)

    @transaction
    def skip(
        self, db: Connection, person: Person, key: Key, reason: str, *, distress: bool = False, form: str = ""
    ) -> None:
        """Give something back for good, with a reason; `distress` when it was too hard to read. Others get it."""
        me, lease, _ = self._open(db, person, key, form)
        if lease.state not in ("held", "lapsed"):
            raise refuse(me, "closed", f"This {self.thing} was handed in already.", f"{self.thing} {key}")
        now = self.store.clock()
        self._change(db, lease.id, state="skipped", finished=now, **{self.place: None})
        said = reason.replace("\x00", "").strip()[:_LONGEST_REASON]
        db.execute(insert(self.skips).values(lease=lease.id, at=now, reason=said, distress=distress))
        self._settle(db, lease, now)

    @transaction
    def keep(self, db: Connection, person: Person, key: Key, draft: Draft | None = None) -> bool:
        """Renew the lease of somebody who is still at it, and save the draft. False: the lease has expired."""
        me = lock_person(self.store, db, person)
        lease = self._find(db, me, key)
        if lease is None or lease.state == "skipped":
            raise self._not_yours(me, key)
        if me.paused or lease.state == "done":
            return False
        now = self.store.clock()
        if draft is not None:
            self._save_draft(db, lease, draft, now)
        held = update(self.leases).where(self.leases.c.id == lease.id, self.leases.c.state == "held")
        return bool(db.execute(held.values(expires=now + self._project(db, me).lease_seconds)).rowcount)

    def picture(self, person: Person, key: Key, number: int) -> Path:
        """The file of a picture (0 is the first) of something that was given to this person."""
        with self.store.read() as db:
            lease = self._find(db, person, key)
        if lease is None:
            raise self._logged(self._not_yours(person, key))
        return self.picture_of(person.project, getattr(lease, self.about), number, annotator=person.id)

    def picture_of(self, project: int, thing: int, number: int, *, annotator: int | None = None) -> Path:
        """The same by the number of an item or a case, for whoever may see all of a project."""
        message, detail = "There is no such picture.", f"picture {number} of {thing}"
        with self.store.read() as db:
            found = self._pictures(db, project, thing) if is_row_number(thing) else None
            folder = db.execute(select(projects.c.images).where(projects.c.id == project)).scalar()
        if found is not None and folder is not None and 0 <= number < len(found[1]):
            try:
                return picture_file(Path(folder), found[1][number], found[0])
            except UserError as error:
                detail = str(error)
        raise self._logged(Refused("path", message, annotator=annotator, project=project, detail=detail))

    def holder(self, members: Sequence[Person], key: Key) -> Person | None:
        """Which of these people, who are one person in several projects, this was given to."""
        fits = isinstance(key, str) or is_row_number(key)
        theirs = self.leases.c.annotator.in_([one.id for one in members])
        with self.store.read() as db:
            query = select(self.leases.c.annotator).where(self.leases.c[self.key] == key, theirs)
            found = db.execute(query).scalar() if fits else None
        return next((one for one in members if one.id == found), None)

    def own_progress(self, person: Person) -> OwnProgress:
        """What this person has done; nothing of the others' work."""
        now = datetime.fromtimestamp(self.store.clock(), UTC)
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        leases = self.leases.c
        done = leases.state.in_(HANDED_IN)
        counts = select(
            func.count(case((done, 1))),
            func.count(case((done & (leases.finished >= midnight), 1))),
            func.count(case((leases.state == "skipped", 1))),
        ).where(leases.annotator == person.id)
        with self.store.read() as db:
            return OwnProgress(*db.execute(counts).one(), total=db.execute(self._total(person.project)).scalar_one())

    def people_progress(self, db: Connection, project: int) -> list[PersonProgress]:
        """Everybody in the order in which they were added."""
        leases, skips = self.leases.c, self.skips.c
        here = leases.annotator.in_(select(annotators.c.id).where(annotators.c.project == project))
        current = or_(leases.state != "held", leases.expires >= self.store.clock())
        states = select(leases.annotator, leases.state, func.count()).where(here, current)
        counts = {(who, state): n for who, state, n in db.execute(states.group_by(leases.annotator, leases.state))}
        hurt = select(leases.annotator, func.count()).join_from(self.skips, self.leases, skips.lease == leases.id)
        hurt = hurt.where(here, skips.distress).group_by(leases.annotator)
        distressed: dict[int, int] = {row[0]: row[1] for row in db.execute(hurt)}
        seconds: dict[int, float | None] = {row[0]: row[1] for row in db.execute(self._mean_seconds(project))}
        return [
            PersonProgress(
                **msgspec.structs.asdict(person),
                **{state: counts.get((person.id, state), 0) for state in ("done", "held", "skipped", *HANDED_IN[1:])},
                distressed=distressed.get(person.id, 0),
                seconds=seconds.get(person.id),
            )
            for person in read_people(db, project)
        ]

    def return_expired(self) -> None:
        """Free the places of leases that have expired. Things somebody changes at this moment are left for later."""
        leases, now = self.leases.c, self.store.clock()
        due = select(self.leases).where(leases.state == "held", leases.expires < now)
        due = due.order_by(leases[self.key]).limit(_EXPIRED_AT_ONCE)
        with self.store.read() as db:
            if db.execute(due.limit(1)).first() is None:
                return

        def work(db: Connection) -> None:
            for lease in db.execute(due).all():
                if self._lock_thing(db, lease):
                    self._release(db, lease, now)

        self.store.write(work)

    # what differs between labelling and arena

    @abstractmethod
    def _find(self, db: Connection, person: Person, key: Key, *, lock: bool = False) -> Row[Any] | None:
        """A person's lease by its key; with `lock`, nobody else changes it until the transaction ends."""

    @abstractmethod
    def _assign(self, db: Connection, me: Person, project: Row[Any], now: float) -> int | None:
        """Lease something new to a person; the number of the lease."""

    @abstractmethod
    def _resume(self, db: Connection, lease: Row[Any], project: Row[Any], now: float) -> bool:
        """Let a person continue with a lapsed lease, if a place is still free."""

    @abstractmethod
    def _show(self, db: Connection, lease: Row[Any]) -> Work:
        """What the person sees."""

    @abstractmethod
    def _record(self, db: Connection, lease: Row[Any], project: Row[Any], answers: Any, row: dict[str, Any]) -> None:
        """Check the answers and insert the votes; `row` is what a row of votes has in both kinds of work."""

    @abstractmethod
    def _why_final(self, db: Connection, lease: Row[Any], project: Row[Any], *, undo: bool) -> str:
        """Why something handed in can no longer be changed, or undone; empty when it can."""

    @abstractmethod
    def _pictures(self, db: Connection, project: int, thing: int) -> tuple[str, list[str]] | None:
        """The name of an item or a case of a project, and the paths of its pictures."""

    @abstractmethod
    def _total(self, project: int) -> Select[Any]:
        """How much there is to judge in a project."""

    @abstractmethod
    def _mean_seconds(self, project: int) -> Select[Any]:
        """People with their mean seconds."""

    def _resumable(self, me: Person) -> Select[Any]:
        """Lapsed leases that may be resumed."""
        return self._in_state(me, "lapsed")

    def _lock_thing(self, db: Connection, lease: Row[Any]) -> bool:
        """Lock what a lease is about; False when somebody else has locked it."""
        return True

    def _settle(self, db: Connection, lease: Row[Any], now: float) -> None:
        """Called after every change of a lease."""

    def _save_draft(self, db: Connection, lease: Row[Any], draft: Draft, now: float) -> None:
        """Keep what was filled in so far."""

    def _keep_answers(self, db: Connection, lease: Row[Any], now: float) -> None:
        """Keep what was handed in as a draft, before it is taken back."""

    # shared pieces

    def _project(self, db: Connection, person: Person) -> Row[Any]:
        return db.execute(PROJECTS.where(projects.c.id == person.project)).one()

    def _open(self, db: Connection, person: Person, key: Key, form: str) -> tuple[Person, Row[Any], Row[Any]]:
        """Person, lease and project for a change: locked and checked."""
        me = lock_person(self.store, db, person, form)
        lease = self._find(db, me, key, lock=True)
        if lease is None:
            raise self._not_yours(me, key)
        project = self._project(db, me)
        if project.closed is not None:
            raise refuse(me, "closed", "The arena has been closed, so nothing more is counted.")
        if lease.state == "skipped":
            raise refuse(me, "closed", f"You skipped this {self.thing}.", f"{self.thing} {key}")
        if lease.state in ("withheld", "discarded"):
            raise refuse(me, "closed", f"This {self.thing} can no longer be changed.", f"{self.thing} {key}")
        return me, lease, project

    def _within_quota(self, db: Connection, me: Person, project: Row[Any]) -> bool:
        """Whether a person may get something new: they have done less than the most that they should do."""
        most = project.quota if me.quota is None else me.quota
        done = select(func.count()).where(self.leases.c.annotator == me.id, self.leases.c.state.in_(HANDED_IN))
        return most is None or db.execute(done).scalar_one() < most

    def _in_state(self, person: Person, state: str) -> Select[Any]:
        """A person's leases in a state, the newest first."""
        leases = self.leases.c
        newest = leases.finished if state == "done" else leases.opened
        query = select(self.leases).where(leases.annotator == person.id, leases.state == state)
        return query.order_by(newest.desc(), leases.id.desc())

    def _lease(self, db: Connection, number: int) -> Row[Any]:
        return db.execute(select(self.leases).where(self.leases.c.id == number)).one()

    def _take(self, db: Connection, me: Person, project: Row[Any], now: float, **what: Any) -> int:
        """Lease something to a person; the number of the lease."""
        until = now + project.lease_seconds
        row = {"annotator": me.id, "state": "held", "opened": now, "expires": until, "revision": 0, "note": "", **what}
        return int(db.execute(insert(self.leases).values(**row).returning(self.leases.c.id)).scalar_one())

    def _change(self, db: Connection, lease: int, **values: Any) -> None:
        db.execute(update(self.leases).where(self.leases.c.id == lease).values(**values))

    def _release(self, db: Connection, lease: Row[Any], now: float) -> None:
        """Free the place of an expired lease; who had it may take it up again while it is free."""
        leases = self.leases.c
        expired = update(self.leases).where(leases.id == lease.id, leases.state == "held", leases.expires < now)
        if db.execute(expired.values(state="lapsed", **{self.place: None})).rowcount:
            self._settle(db, lease, now)

    def _shown(self, lease: int | None) -> Work | None:
        if lease is None:
            return None
        with self.store.read() as db:
            return self._show(db, self._lease(db, lease))

    def _not_yours(self, person: Person, key: Key) -> Refused:
        message = f"This {self.thing} was not given to you. Your page of work has the next one that is."
        return refuse(person, "not-yours", message, f"{self.thing} {key}"[:200])

    def _logged(self, refusal: Refused) -> Refused:
        self.store.log(refusal)
        return refusal


class Reminder(NamedTuple):
    """A text for a person who has not finished, ready to be sent by e-mail. Nothing is sent from here."""

    name: str
    subject: str
    text: str

    @property
    def mailto(self) -> str:
        """A link that opens the text in a mail program, to the person's address where the name is one."""
        to = quote(self.name) if "@" in self.name else ""
        return f"mailto:{to}?subject={quote(self.subject)}&body={quote(self.text.replace(chr(10), chr(13) + chr(10)))}"


def reminders(project: Project, counts: Iterable[PersonProgress], address: str) -> list[Reminder]:
    """Texts for the annotators who can come in and have something left to do; in Chinese for who reads only that."""
    found = []
    for one in counts:
        most = project.quota if one.quota is None else one.quota
        if one.role == "annotator" and one.invited and not one.paused and (most is None or one.done < most):
            words = _REMINDERS["zh" if one.languages == ("zh",) else "en"]
            done = words["counts"][most is not None].format(done=one.done, most=most)
            values = {"name": one.name, "project": project.name, "done": done, "address": address.rstrip("/")}
            text = "\n\n".join(words["text"]).format(**values)
            found.append(Reminder(one.name, words["subject"].format(**values), text))
    return found


def is_row_number(number: int) -> bool:
    """Whether this can be the number of a row at all; it may come from an address somebody typed."""
    return 0 < number < 2**31


def clean_note(note: str) -> str:
    """A note without what no database keeps; one that is too long is refused, not cut."""
    note = note.replace("\x00", "").strip()
    if len(note) > LONGEST_NOTE:
        raise BadAnswers(f"A note has at most {LONGEST_NOTE:,} characters; this one has {len(note):,}.")
    return note


def clean_seconds(seconds: float | None) -> float | None:
    """Seconds as a number that can be averaged.

    >>> clean_seconds(12.5), clean_seconds(-3), clean_seconds(float("nan")), clean_seconds(None)
    (12.5, 0.0, None, None)
    """
    if seconds is None or not math.isfinite(seconds):
        return None
    return min(max(float(seconds), 0.0), _MOST_SECONDS)
