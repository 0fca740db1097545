"""Bringing a database up to date when it is opened, step by step, by Alembic.

Steps run in one transaction: a database is either as it was or wholly new. Several processes that open an old one
together wait for each other. A database that knows a step we do not know was made by a newer COMPEER and is left
alone. To add a step: change `tables.py`, put a file with the next number into `migrations/versions`, and the test that
compares a migrated database with the tables says whether they fit.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from compeer.errors import UserError
from compeer.people.store import tables as arena_tables  # noqa: F401 its tables belong to the same metadata
from compeer.people.store.tables import metadata

NEWEST = "0002"  # the last step; a database that has had it is opened without loading Alembic
VERSIONS = "compeer_annotation_version"  # not Alembic's default: a PostgreSQL database may be shared
FOLDER = Path(__file__).with_name("migrations")
_ONE_AT_A_TIME = threading.Lock()  # Alembic's `op` belongs to the whole process
_KEY = 0x636F6D70  # of PostgreSQL's advisory lock


def migrate(connection: Connection, shown: str) -> None:
    """Run the steps that this database has not had. `shown` names it in messages."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _KEY})
    there = set(inspect(connection).get_table_names())
    current = None
    if VERSIONS in there:
        current = connection.execute(text(f"SELECT version_num FROM {VERSIONS}")).scalar()
    if current == NEWEST:
        return
    if current is not None and not list((FOLDER / "versions").glob(f"v{current}_*.py")):
        raise UserError(
            f"The database {shown} was made by a newer COMPEER (step {current}; this one knows {NEWEST}). "
            "Nothing was changed. Install that version, or choose another database with --db."
        )
    if current is None and (foreign := there & set(metadata.tables)):
        raise UserError(
            f"The database {shown} already holds tables of somebody else's named {', '.join(sorted(foreign))}. "
            "Give the labels a database of their own."
        )
    _upgrade(connection)


def _upgrade(connection: Connection) -> None:
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(FOLDER, version_locations=[FOLDER / "versions"])
    steps = EnvironmentContext(
        Config(), script, fn=lambda revision, _: script._upgrade_revs("head", revision), destination_rev="head"
    )
    with _ONE_AT_A_TIME, steps as environment:
        environment.configure(
            connection=connection, version_table=VERSIONS, transactional_ddl=True, target_metadata=metadata
        )
        environment.run_migrations()
