"""What labelling projects and arenas have in common: a name, the settings that people work under, their pictures.

Both are rows of `projects`, made inside the transaction that adds what they consist of, and found again by name. A page
asks for "the second picture of this item", so the name of a file never comes from outside; pictures are read only from
the project's folder, links followed.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, Select, func, insert, select, update

from compeer.errors import UserError
from compeer.people.invitations import check_quota, is_valid_name
from compeer.people.store import Store
from compeer.people.tables import annotators, arena_leases, arena_slots, arenas, items, projects

_UNDO_SECONDS = 120.0
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


def insert_project(
    store: Store,
    db: Connection,
    name: str,
    *,
    images: Path | None,
    lease_minutes: float,
    seed: int | None,
    guideline: str = "1",
    audit_share: float = 0.0,
    quota: int | None = None,
) -> tuple[int, int]:
    """The number of a new project, and its seed; `images` is the folder that pictures may come from.

    Without a seed one is drawn, so that nobody can predict what depends on it: orders, sides, the audit.
    """
    name, seed = name.strip(), secrets.randbits(31) if seed is None else seed
    if not is_valid_name(name):
        raise UserError(f"A name has 1 to 100 printable characters; got {name[:120]!r}.")
    if not 0 <= audit_share <= 1:
        raise UserError(f"The audit share lies between 0 and 1; got {audit_share}.")
    if lease_minutes <= 0:
        raise UserError(f"A lease lasts more than 0 minutes; got {lease_minutes}.")
    check_quota(quota)
    if db.execute(select(projects.c.id).where(projects.c.name == name)).first() is not None:
        raise UserError(f"There is a project or an arena {name} in this database already; choose another name.")
    made = insert(projects).values(
        name=name, created=store.clock(), seed=seed, guideline=guideline, audit_share=audit_share, quota=quota,
        lease_seconds=60 * lease_minutes, undo_seconds=_UNDO_SECONDS,
        images=str(images.resolve()) if images else None,
    )  # fmt: skip
    return int(db.execute(made.returning(projects.c.id)).scalar_one()), seed


def check_unique(names: Iterable[str], message: str) -> None:
    """UserError with the first name that occurs twice, which `message` has a place for."""
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError(message.format(name))


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
        totals, finished, members = (dict(map(tuple, db.execute(query))) for query in (total, done, people))
    return [
        ProjectSummary(
            one.id, one.name, totals.get(one.id, 0), finished.get(one.id, 0), members.get(one.id, 0),
            ended=one.closed is not None,
        )
        for one in reversed(known)
    ]  # fmt: skip


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
