"""The store of labels and comparisons, SQLite in a file by default, PostgreSQL by URL; and what it refuses.

SQLite: write-ahead log, so that pages read while somebody writes. A write takes the file's one write lock at its
beginning (BEGIN IMMEDIATE), so what it has read stays true until it commits. Writers of this process queue at a lock
of their own instead of polling the file. Every commit is synced to the disk before it is acknowledged.

PostgreSQL: rows are locked before they are judged (`FOR UPDATE`), always the person first and then one item, so no
two transactions wait for each other. What still collides, a serialisation failure or a unique constraint, is tried
again from the beginning. A unit of work (`transaction`) must therefore do nothing but use its connection.

Refusals have a message for the person, a kind for the log and an HTTP status. A refused unit of work changes nothing
but the log of refusals.

Migration: a database is brought up to date when it is opened, all steps in one transaction. Processes that open an old
one together wait for each other. A database with a step we do not know was made by a newer COMPEER and is left alone.
To add a step: change tables.yaml, say in `_STEPS` what a database of the step before needs, and raise `NEWEST`; a test
compares a migrated database with the tables. New tables and new columns need no code of their own
(`_add_missing`).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, OperationalError
from sqlalchemy.schema import CreateColumn

from compeer.errors import UserError
from compeer.people.tables import accounts, annotators, arena_cases, items, metadata, refusals

if TYPE_CHECKING:
    from compeer.people.invitations import Person

Result = TypeVar("Result")
Given = ParamSpec("Given")
_BUSY = 60.0  # seconds to wait for other processes
_TRIES = 12
_AGAIN = {"40001", "40P01", "55P03"}  # serialisation failure, deadlock, lock not available

NEWEST = "0003"
VERSION_TABLE = "compeer_annotation_version"  # with a name of its own: a PostgreSQL database may be shared
_ADVISORY_LOCK = 0x636F6D70  # the number of PostgreSQL's lock for whoever migrates

RefusalKind = Literal[
    "token",  # forged, revoked or mistyped
    "role",  # only for coordinators
    "paused",
    "not-yours",  # an item or a picture that was never given to this person
    "lapsed",  # the lease ran out and somebody else has the place
    "closed",  # it can no longer be changed
    "form",  # a form that was sent before
    "path",  # a picture outside the project's folder
]
_STATUS = {"lapsed": 409, "closed": 409, "form": 409, "path": 404}  # others: 403


class Refused(UserError):
    """Not allowed, or no longer allowed. `detail` goes to the log only; it never holds a token."""

    def __init__(
        self,
        kind: RefusalKind,
        message: str,
        detail: str = "",
        annotator: int | None = None,
        project: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind, self.status, self.detail = kind, _STATUS.get(kind, 403), detail
        self.annotator, self.project = annotator, project


def refuse(person: Person, kind: RefusalKind, message: str, detail: str = "") -> Refused:
    """A refusal to a known person, to be raised."""
    return Refused(kind, message, detail, person.id, person.project)


class BadAnswers(UserError, ValueError):
    """Answers that do not fit the questions: one missing, one too many, or a value that does not exist."""


class Store:
    """An open database. Safe to share between threads; `clock` is the time, which tests may set."""

    def __init__(self, engine: sa.Engine, clock: Callable[[], float] = time.time) -> None:
        self.engine, self.clock = engine, clock
        self.sqlite = engine.dialect.name == "sqlite"
        self._writing = threading.Lock()

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A connection for reading: one consistent view, which no writer waits for."""
        with self.engine.connect() as connection:
            if not self.sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield connection

    def write(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Run a unit of work in one transaction, again if it collides; its result once it is committed."""
        for attempt in range(_TRIES):
            try:
                with self._writing if self.sqlite else nullcontext():
                    return self._once(work)
            except Refused as refusal:
                self.log(refusal)
                raise
            except (IntegrityError, OperationalError) as error:
                if attempt + 1 == _TRIES or not _collided(error):
                    raise
                time.sleep(random.uniform(0, 0.005 * 2 ** min(attempt, 5)))
        raise AssertionError("unreachable")

    def log(self, refusal: Refused, address: str = "") -> None:
        """Record a refusal. A page calls this for what it refuses itself; `write` does for all others."""
        row = {
            "project": refusal.project,
            "annotator": refusal.annotator,
            "at": self.clock(),
            "kind": refusal.kind,
            "detail": (refusal.detail or str(refusal))[:500],
            "address": address[:100],
        }
        with self._writing if self.sqlite else nullcontext():
            self._once(lambda db: db.execute(sa.insert(refusals), row))

    def locked(self, query: sa.Select[Any], *, skip: bool = False) -> sa.Select[Any]:
        """The query with its rows locked, where the database has locks for rows (SQLite has one for everything)."""
        return query if self.sqlite else query.with_for_update(skip_locked=skip)

    def close(self) -> None:
        self.engine.dispose()

    def _once(self, work: Callable[[sa.Connection], Result]) -> Result:
        with self.engine.connect() as connection:
            connection = connection.execution_options(compeer_write=True)
            with connection.begin():
                return work(connection)


class Writing(Protocol):
    """What runs units of work: a store, or a queue of one."""

    def write(self, work: Callable[[sa.Connection], Result]) -> Result: ...


Writer = TypeVar("Writer", bound=Writing)


def transaction(
    work: Callable[Concatenate[Writer, sa.Connection, Given], Result],
) -> Callable[Concatenate[Writer, Given], Result]:
    """Make a function of a store and a connection a unit of work, which gets its connection by itself."""

    @wraps(work)
    def run(writer: Writer, /, *given: Given.args, **named: Given.kwargs) -> Result:
        return writer.write(lambda db: work(writer, db, *given, **named))

    return run


def open_store(url: str | Path, *, create: bool = True, clock: Callable[[], float] = time.time) -> Store:
    """Open a database by path or URL and bring it up to date. With `create` a new file is made where there is none."""
    address = _parse_address(str(url))
    shown = address.render_as_string(hide_password=True)
    if address.get_backend_name() == "sqlite":
        file = Path(address.database or "")
        if not create and not file.is_file():
            raise UserError(
                f"There is no database {file} here. compeer annotate create makes one, and so does compeer arena "
                "create; or name it with --db."
            )
        if not file.parent.is_dir():
            raise UserError(f"{file} cannot be made: there is no folder {file.parent}.")
    try:
        engine = _engine(address)
        store = Store(engine, clock)
        store.write(lambda db: _migrate(db, shown))
    except ModuleNotFoundError as missing:
        raise UserError(f'{shown} needs the package {missing.name}: pip install "compeer-esc[postgres]"') from missing
    except (DBAPIError, OSError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise UserError(
            f"The database {shown} cannot be opened: {reason}. Is it the right one, and running?"
        ) from error
    return store


def _parse_address(address: str) -> sa.URL:
    if "://" not in address:
        return sa.URL.create("sqlite", database=address)
    try:
        url = sa.make_url(address)
        backend = url.get_backend_name()
        url.get_dialect()
    except (ArgumentError, NoSuchModuleError) as error:
        raise UserError(f"--db is a file or a URL such as postgresql://USER@HOST/NAME: {error}") from None
    except ModuleNotFoundError:  # postgresql:// alone stands for another driver than ours
        pass
    if backend == "postgresql" or url.drivername == "postgres":
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite" and url.database not in (None, "", ":memory:"):
        return url
    raise UserError(f"--db is a SQLite file or a PostgreSQL URL, not {url.render_as_string(hide_password=True)}.")


def _engine(address: sa.URL) -> sa.Engine:
    if address.get_backend_name() != "sqlite":
        return sa.create_engine(address, pool_size=10, max_overflow=30, pool_pre_ping=True)
    engine = sa.create_engine(address, pool_size=10, max_overflow=40, connect_args={"timeout": _BUSY})

    @sa.event.listens_for(engine, "connect")
    def _prepare(raw: Any, record: Any) -> None:
        raw.isolation_level = None  # SQLAlchemy's begin is the only begin
        _use_wal(raw)
        for setting in ("foreign_keys=ON", "synchronous=FULL", "cache_size=-16000"):
            raw.execute(f"PRAGMA {setting}")

    @sa.event.listens_for(engine, "begin")
    def _begin(connection: sa.Connection) -> None:
        writing = connection.get_execution_options().get("compeer_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _use_wal(raw: Any) -> None:
    """Several processes that open a new file together are refused here at once, busy timeout or not."""
    given_up = time.monotonic() + _BUSY
    while True:
        try:
            raw.execute("PRAGMA journal_mode=WAL")
            return
        except Exception as error:
            if "locked" not in str(error) or time.monotonic() > given_up:
                raise
            time.sleep(0.02)


def _collided(error: DBAPIError) -> bool:
    """Whether trying again may help: somebody else was quicker."""
    if isinstance(error, IntegrityError):
        return "unique" in str(error.orig).lower()
    return getattr(error.orig, "sqlstate", None) in _AGAIN


def _add_missing(connection: sa.Connection) -> None:
    """Tables and columns that this database does not have yet. Such a column is empty or has a default."""
    metadata.create_all(connection)
    known = sa.inspect(connection)
    for table in metadata.sorted_tables:
        there = {column["name"] for column in known.get_columns(table.name)}
        for column in table.columns:
            if column.name not in there:
                added = str(CreateColumn(column).compile(dialect=connection.dialect))
                for key in column.foreign_keys:
                    added += f" CONSTRAINT fk_{table.name}_{column.name} REFERENCES {key.column.table.name} (id)"
                connection.execute(sa.text(f"ALTER TABLE {table.name} ADD COLUMN {added}"))


def _add_accounts(connection: sa.Connection) -> None:
    """Step 0003: whoever has a link gets an account with it, so the link still works; items tell their language."""
    _add_missing(connection)
    for row in connection.execute(
        sa.select(annotators).where(annotators.c.token.is_not(None), annotators.c.account.is_(None))
    ).all():
        account = {"name": row.name, "role": row.role, "token": row.token, "languages": "", "created": row.created}
        number = connection.execute(sa.insert(accounts).values(**account).returning(accounts.c.id)).scalar_one()
        connection.execute(sa.update(annotators).where(annotators.c.id == row.id).values(account=number))
    read = "json_extract(content, '$.language')"
    if connection.dialect.name == "postgresql":
        read = "CAST(content AS json) ->> 'language'"
    for table in (items, arena_cases):
        connection.execute(sa.text(f"UPDATE {table.name} SET language = COALESCE({read}, 'en')"))


#: what takes a database from this step to the next; the first had no arenas, the second no accounts and no quality
_STEPS: dict[str, Callable[[sa.Connection], None]] = {"0001": metadata.create_all, "0002": _add_accounts}


def _migrate(connection: sa.Connection, shown: str) -> None:
    """Run the steps that this database has not had. `shown` names it in messages."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    there = set(sa.inspect(connection).get_table_names())
    current = None
    if VERSION_TABLE in there:
        current = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()
    if current == NEWEST:
        return
    if current is not None and current not in _STEPS:
        raise UserError(
            f"The database {shown} was made by a newer COMPEER (step {current}; this one knows {NEWEST}). "
            "Nothing was changed. Install that version, or choose another database with --db."
        )
    if current is None and (foreign := there & set(metadata.tables)):
        raise UserError(
            f"The database {shown} already holds tables of another program named {', '.join(sorted(foreign))}. "
            "Use a separate database for the labels."
        )
    if current is None:
        metadata.create_all(connection)
        connection.execute(sa.text(f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(sa.text(f"INSERT INTO {VERSION_TABLE} VALUES (:step)"), {"step": NEWEST})
        return
    for step in [one for one in _STEPS if one >= current]:
        _STEPS[step](connection)
    connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = :step"), {"step": NEWEST})
