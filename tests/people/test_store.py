"""Opening databases: made, brought up to date, refused, and opened by many at once."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, text
from tests.people.labelling import ALL_TRUE, Clock, item, label_all, start

from compeer.errors import UserError
from compeer.people.arena import ArenaQueue
from compeer.people.invitations import invite, revoke, sign_in
from compeer.people.labelling import LabellingQueue, create_project
from compeer.people.labelling_results import labelling_progress
from compeer.people.store import NEWEST, VERSION_TABLE, open_store
from compeer.people.tables import metadata


def test_the_migrations_make_exactly_the_tables(database: str) -> None:
    store = open_store(database)
    with store.read() as db:
        context = MigrationContext.configure(db, opts={"version_table": VERSION_TABLE, "target_metadata": metadata})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == NEWEST
    store.close()


def test_a_database_of_the_first_step_is_brought_up_to_date(database: str) -> None:
    store = open_store(database)
    project, (anna, *_) = start(store, 2)
    label_all(store, anna, lambda _: {**ALL_TRUE, "preference": "both"})
    arena = [table for name, table in metadata.tables.items() if name.startswith("arena")]

    def back(db: Connection) -> None:
        metadata.drop_all(db, arena)
        db.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))

    store.write(back)
    store.close()
    store = open_store(database)
    with store.read() as db:
        context = MigrationContext.configure(db, opts={"version_table": VERSION_TABLE, "target_metadata": metadata})
        assert compare_metadata(context, metadata) == [] and context.get_current_revision() == NEWEST
    assert labelling_progress(store, project.id).people[0].done == 2  # what was there is still there
    store.close()


def test_a_database_of_the_landed_version_keeps_its_links_and_votes(tmp_path: Path) -> None:
    """landed.sql was written by the version before accounts: a project and an arena, with separate links for anna."""
    file = tmp_path / "annotation.db"
    with sqlite3.connect(file) as db:
        db.executescript((Path(__file__).parent / "landed.sql").read_text(encoding="utf-8"))
    db.close()
    store = open_store(file)
    with store.read() as db:
        context = MigrationContext.configure(db, opts={"version_table": VERSION_TABLE, "target_metadata": metadata})
        assert compare_metadata(context, metadata) == [] and context.get_current_revision() == NEWEST
    labels, arena, cora = (
        sign_in(store, f"{name}-link-of-the-landed-version") for name in ("anna-labels", "anna-arena", "cora-labels")
    )
    assert [(one.name, one.role, len(one.people)) for one in (labels, arena, cora)] == [
        ("anna", "annotator", 1), ("anna", "annotator", 1), ("cora", "coordinator", 1),
    ]  # fmt: skip
    project = labels.people[0].project
    assert [one.done for one in labelling_progress(store, project).people] == [1, 0, 0]
    more = LabellingQueue(store).next(labels.people[0])
    assert more is not None and more.task.language == "zh"  # what the items' language is was read from them
    assert ArenaQueue(store).next(arena.people[0]) is not None
    # the two are one person from when the coordinator invites anna anew
    revoke(store, arena.people[0].project, "anna")
    assert invite(store, arena.people[0].project, "anna").token is None
    assert len(sign_in(store, "anna-labels-link-of-the-landed-version").people) == 2
    store.close()


def test_a_postgresql_database_of_the_landed_version_is_brought_up_to_date(postgres_server: Any, clock: Clock) -> None:
    """The same on PostgreSQL, where what the landed version did not have can be taken away again."""
    database = postgres_server.database()
    store = open_store(database, clock=clock)
    project = create_project(store, "trial", [item(0), item(1, language="zh")], audit_share=0.0).project
    invited = invite(store, project.id, "anna")
    label_all(store, invited.person, lambda _: {**ALL_TRUE, "preference": "both"}, most=1)

    def back(db: Connection) -> None:
        db.execute(text("UPDATE annotators SET token = (SELECT token FROM accounts WHERE id = annotators.account)"))
        for name in ("account", "quota"):
            db.execute(text(f"ALTER TABLE annotators DROP COLUMN {name}"))
        for name in ("quota", "questions", "quality"):
            db.execute(text(f"ALTER TABLE projects DROP COLUMN {name}"))
        for name in ("items", "arena_cases"):
            db.execute(text(f"ALTER TABLE {name} DROP COLUMN language"))
        for name in ("accounts", "guidelines", "known_answers", "practice_answers", "holds"):
            db.execute(text(f"DROP TABLE {name}"))
        db.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0002'"))

    store.write(back)
    store.close()
    store = open_store(database, clock=clock)
    with store.read() as db:
        context = MigrationContext.configure(db, opts={"version_table": VERSION_TABLE, "target_metadata": metadata})
        assert compare_metadata(context, metadata) == [] and context.get_current_revision() == NEWEST
    anna = sign_in(store, invited.token or "").people[0]
    more = LabellingQueue(store).next(anna)
    assert more is not None and more.task.language == "zh" and labelling_progress(store, project.id).people[0].done == 1
    store.close()


def test_a_newer_database_is_left_alone(database: str) -> None:
    store = open_store(database)
    store.write(lambda db: db.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")))
    store.close()
    with pytest.raises(UserError, match=r"newer COMPEER \(step 9999.*Nothing was changed"):
        open_store(database)


def test_somebody_elses_tables_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    engine = create_engine(f"sqlite:///{file}")
    with engine.begin() as db:
        db.execute(text("CREATE TABLE items (price INTEGER)"))
    with pytest.raises(UserError, match="tables of another program named items"):
        open_store(file)
    with engine.begin() as db:
        assert db.execute(text("SELECT count(*) FROM sqlite_master")).scalar() == 1


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://root:geheim@localhost/x", "SQLite file or a PostgreSQL URL"),
        ("nonsense://x", "a file or a URL"),
        ("sqlite://", "SQLite file or a PostgreSQL URL"),
        ("/no/such/folder/a.db", "there is no folder"),
        ("postgresql://nobody:geheim@127.0.0.1:1/x", "cannot be opened"),
    ],
)
def test_what_cannot_be_opened_is_said_without_the_password(url: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        open_store(url)
    assert "geheim" not in str(error.value)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("These are my notes. " * 100)
    with pytest.raises(UserError, match="cannot be opened: file is not a database"):
        open_store(tmp_path / "a.db")


def test_a_file_is_not_made_by_only_looking(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="compeer annotate create makes one"):
        open_store(tmp_path / "a.db", create=False)
    assert list(tmp_path.iterdir()) == []


def _open(url: str) -> str:
    store = open_store(url)
    with store.read() as db:
        return str(db.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar())


def test_several_processes_may_open_a_new_database_at_once(database: str) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert len(set(pool.map(_open, [database] * 6, chunksize=1))) == 1
