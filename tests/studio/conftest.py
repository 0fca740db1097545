"""A browser, started once for a module, and a studio with runs, for tests that change nothing in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.studio.browsing import browser
from tests.studio.material import example_runs
from tests.studio.serving import runs_studio


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    """A browser to open windows in; of a module, since other modules need an event loop of their own."""
    with browser() as found:
        yield found


@pytest.fixture(scope="session")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return example_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def address(runs_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with runs_studio(tmp_path_factory.mktemp("data"), runs=(runs_folder,)) as found:
        yield found
