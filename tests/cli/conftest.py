from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conversation.supporter import Supporter, running


@pytest.fixture(scope="session")
def _server() -> Iterator[Supporter]:
    with running() as supporter:
        yield supporter


@pytest.fixture
def supporter(_server: Supporter) -> Supporter:
    _server.reset()
    return _server
