from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.chat.supporter import Supporter, running
from tests.serve.server import Server, serving


@pytest.fixture(scope="module")
def _endpoint() -> Iterator[Supporter]:
    with running() as supporter:
        yield supporter


@pytest.fixture
def supporter(_endpoint: Supporter) -> Iterator[Supporter]:
    """The scripted model behind the server, well behaved unless a test says otherwise."""
    _endpoint.reset()
    yield _endpoint
    _endpoint.manner = "contract"  # one that hangs lets go


@pytest.fixture(scope="module")
def _front(_endpoint: Supporter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve")
    words = ("--model=openai:kind-7b", f"--base-url={_endpoint.base_url}", "--first-token=2", "--timeout=4")
    with serving(folder, *words) as server:
        yield server


@pytest.fixture
def server(_front: Server, supporter: Supporter) -> Server:
    """`compeer serve` in front of the scripted model; impatient, so that a test of its patience is short."""
    return _front
