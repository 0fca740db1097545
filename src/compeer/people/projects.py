"""What labelling projects and arenas have in common: a name, the settings that people work under, their pictures.

Both are rows of `projects`. They are made here, inside the transaction that adds what they consist of, and found again
by name. A page asks for "the second picture of this item", so the name of a file never comes from outside; pictures are
read only from the project's folder, links followed.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, Select, Table, func, insert, select, update

from compeer.errors import UserError
from compeer.people.invitations import is_valid_name
from compeer.people.store import Store
from compeer.people.tables import annotators, arena_leases, arena_slots, arenas, items, projects

_ROWS_AT_ONCE = 500


ProjectKind = Literal["labelling", "arena"]
#: how a project is called in messages, and the command that makes one
_WORDS: dict[ProjectKind, tuple[str, str]] = {
    "labelling": ("project", "compeer annotate create"), "arena": ("arena", "compeer arena create"),
}  # fmt: skip
#: every project, with an arena's own settings where it is one
PROJECTS: Select[Any] = select(projects, *arenas.c["votes", "focus", "show_reasoning", "closed"]).outerjoin(arenas)


class Project(msgspec.Struct, frozen=True):
    """What a labelling project or an arena was made with. `votes` and what follows belong to arenas."""

    id: int
    name: str
    created: float
    seed: int
    guideline: str
    lease_seconds: float
    undo_seconds: float
    audit_share: float
    images: str | None
    quota: int | None = None  # most items, or comparisons, per person
    votes: int | None = None  # people per comparison
    focus: str | None = None  # the model that all others are compared with
    show_reasoning: bool | None = None
    closed: float | None = None  # when the coordinator ended it


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What people work under; `images` is the folder that pictures may come from.

    Without a seed one is drawn, so that nobody can predict what depends on it: orders, sides, the audit.
    """

    name: str
    images: Path | None
    lease_minutes: float
    undo_minutes: float
    seed: int | None
    guideline: str = "1"
    audit_share: float = 0.0
    quota: int | None = None

    def check(self) -> None:
        """UserError where a setting is out of its range."""
        if not is_valid_name(self.name.strip()):
            raise UserError(f"A name has 1 to 100 printable characters; got {self.name[:120]!r}.")
        if not 0 <= self.audit_share <= 1:
            raise UserError(f"The audit share lies between 0 and 1; got {self.audit_share}.")
        if self.lease_minutes <= 0 or self.undo_minutes < 0:
            raise UserError("A lease lasts more than 0 minutes, and the time to undo is not negative.")
        check_quota(self.quota)


def check_quota(quota: int | None) -> None:
    if quota is not None and quota < 1:
        raise UserError(f"The most that one person gets is at least 1; got {quota}.")


def insert_project(db: Connection, settings: ProjectSettings, now: float) -> tuple[int, int]:
    """The number of the new project, and its seed."""
    name = settings.name.strip()
    if db.execute(select(projects.c.id).where(projects.c.name == name)).first() is not None:
        raise UserError(f"There is a project or an arena {name} in this database already; choose another name.")
    seed = secrets.randbits(31) if settings.seed is None else settings.seed
    row: dict[str, Any] = {
        "name": name,
        "created": now,
        "seed": seed,
        "guideline": settings.guideline,
        "lease_seconds": 60 * settings.lease_minutes,
        "undo_seconds": 60 * settings.undo_minutes,
        "audit_share": settings.audit_share,
        "images": str(settings.images.resolve()) if settings.images else None,
        "quota": settings.quota,
    }
    return int(db.execute(insert(projects).values(**row).returning(projects.c.id)).scalar_one()), seed


def insert_rows(db: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert many rows, some hundreds at a time."""
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        db.execute(insert(table), rows[start : start + _ROWS_AT_ONCE])


def check_unique(names: Iterable[str], message: str) -> None:
    """UserError with the first name that occurs twice, which `message` has a place for."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UserError(message.format(name))
        seen.add(name)


def set_quota(store: Store, number: int, quota: int | None) -> None:
    """Set the most items, or comparisons, that one person gets; None: no limit."""
    check_quota(quota)
    store.write(lambda db: db.execute(update(projects).where(projects.c.id == number).values(quota=quota)))


def is_name_taken(store: Store, name: str) -> bool:
    """Whether a project or an arena has this name."""
    with store.read() as db:
        return db.execute(select(projects.c.id).where(projects.c.name == name.strip())).first() is not None


def all_projects(store: Store, kind: ProjectKind) -> list[Project]:
    """All labelling projects, or all arenas, of a database, oldest first."""
    wanted = arenas.c.project.is_(None) if kind == "labelling" else arenas.c.project.is_not(None)
    with store.read() as db:
        return [_project(row) for row in db.execute(PROJECTS.where(wanted).order_by(projects.c.id))]


def project_by_number(store: Store, number: int) -> Project:
    """A project or an arena by its number."""
    with store.read() as db:
        return _project(db.execute(PROJECTS.where(projects.c.id == number)).one())


def project_by_name(store: Store, kind: ProjectKind, name: str | None) -> Project:
    """The project of this name, or the only one."""
    known = all_projects(store, kind)
    fitting = [one for one in known if name is None or one.name == name]
    if len(fitting) == 1:
        return fitting[0]
    what, command = _WORDS[kind]
    if not known:
        raise UserError(f"There is no {what} in this database yet; {command} makes one.")
    names = ", ".join(one.name for one in known)
    raise UserError(f"Which {what}? Name it with --name; there are: {names}." if name is None
                    else f"There is no {what} {name}; there are: {names}.")  # fmt: skip


class ProjectSummary(msgspec.Struct, frozen=True):
    """A line of a list: how much there is to do, how much of it is done, how many people take part."""

    id: int
    name: str
    total: int
    done: int
    people: int
    ended: bool = False


def project_summaries(store: Store, kind: ProjectKind) -> list[ProjectSummary]:
    """All labelling projects, or all arenas, the newest first, counted without looking at votes."""
    known = all_projects(store, kind)
    if kind == "labelling":
        total = select(items.c.project, func.count()).group_by(items.c.project)
        total = total.where(items.c.stage.in_(("first", "third", "closed")))  # not those with known answers
        done = total.where(items.c.stage == "closed")
    else:
        total, done = select(arena_slots.c.project, func.count()).group_by(arena_slots.c.project), VOTES_BY_ARENA
    people = select(annotators.c.project, func.count()).group_by(annotators.c.project)
    with store.read() as db:
        counts = ({row[0]: int(row[1]) for row in db.execute(query)} for query in (total, done, people))
        totals, finished, members = counts
    return [
        ProjectSummary(
            id=one.id,
            name=one.name,
            total=totals.get(one.id, 0),
            done=finished.get(one.id, 0),
            people=members.get(one.id, 0),
            ended=one.closed is not None,
        )
        for one in reversed(known)
    ]


#: arenas with the number of votes that count
VOTES_BY_ARENA: Select[Any] = (
    select(annotators.c.project, func.count())
    .join_from(arena_leases, annotators)
    .where(arena_leases.c.state == "done")
    .group_by(annotators.c.project)
)


def _project(row: Any) -> Project:
    return Project(**{name: getattr(row, name) for name in Project.__struct_fields__})


def picture_file(folder: Path | None, path: str, of: str) -> Path:
    """The picture's file, which must lie in the project's folder, links followed."""
    if folder is None:
        raise UserError(f"The item {of} has pictures; name their folder with --images.")
    root = folder.resolve()
    try:
        file = (root / path).resolve()
    except (OSError, ValueError, RuntimeError):
        file = Path("/")
    if not file.is_relative_to(root):
        raise UserError(f"The picture {path[:200]!r} of item {of} lies outside {root}; pictures must lie inside it.")
    return file
