from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from tests.people import postgres
from tests.people.labelling import Clock

from compeer.people.store import Store, open_store


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Postgres]:
    """One PostgreSQL for all tests that ask for it."""
    if reason := postgres.why_not():
        pytest.skip(reason)
    with postgres.running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of each kind, as --db takes it."""
    if request.param == "sqlite":
        return str(tmp_path / "annotation.db")
    server: postgres.Postgres = request.getfixturevalue("postgres_server")
    return server.database()


@pytest.fixture
def told(app: typer.Typer, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """A command of the test's `app` in this process, for speed; what it printed."""

    def run(*words: str) -> str:
        app([*words], standalone_mode=False)
        return capsys.readouterr().out

    return run


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(database: str, clock: Clock) -> Iterator[Store]:
    """An open store of each kind, whose time stands still unless a test moves it."""
    opened = open_store(database, clock=clock)
    yield opened
    opened.close()
