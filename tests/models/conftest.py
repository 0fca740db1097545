"""The embedded model, loaded once for all tests of this folder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from compeer.models.embedded import Embedded


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """The real weights. On one thread: where other programs run, two that wait for one another are slower."""
    model = Embedded()
    with pytest.MonkeyPatch.context() as patch:
        if os.getloadavg()[0] > 1.5:
            patch.setattr(os, "sched_getaffinity", lambda _: {0})
        model.load()
    yield model
    asyncio.run(model.close())


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers started in this test run on one thread."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
