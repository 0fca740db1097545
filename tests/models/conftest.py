"""The embedded model, loaded once for all tests of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from compeer.models.embedded import Embedded


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """The real weights."""
    model = Embedded()
    model.load()
    yield model
    asyncio.run(model.close())


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers started in this test run on one thread, which is the fastest for a tiny model."""
    monkeypatch.setenv("COMPEER_THREADS", "1")
