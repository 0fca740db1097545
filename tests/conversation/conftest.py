from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conversation.pseudo_terminal import COMPEER, Chat, PseudoTerminal
from tests.conversation.serving import Server, serving
from tests.conversation.supporter import Supporter, running


@pytest.fixture(scope="session")
def _server() -> Iterator[Supporter]:
    with running() as supporter:
        yield supporter


@pytest.fixture
def supporter(_server: Supporter) -> Iterator[Supporter]:
    """The scripted model, well behaved unless a test says otherwise."""
    _server.reset()
    yield _server
    _server.manner = "contract"  # one that hangs lets go


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENAI_", "COMPEER_", "COLUMNS", "LINES"))
    }
    return kept | {"HOME": str(tmp_path), "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def chat(supporter: Supporter, environment: dict[str, str], tmp_path: Path) -> Chat:
    def start(*options: str, columns: int = 80) -> PseudoTerminal:
        command = [COMPEER, "chat", "--model", "openai:kind-7b", "--base-url", supporter.base_url, *options]
        return PseudoTerminal(command, environment, str(tmp_path), columns)

    return start


@pytest.fixture(scope="module")
def _front(_server: Supporter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve")
    words = ("--model=openai:kind-7b", f"--base-url={_server.base_url}", "--first-token=2", "--timeout=4")
    with serving(folder, *words, "--no-notice-because=tests of other things") as server:
        yield server


@pytest.fixture
def server(_front: Server, supporter: Supporter) -> Server:
    """`compeer serve` in front of the scripted model; impatient, so that a test of its patience is short."""
    return _front
