from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chat.pseudo_terminal import COMPEER, Chat, PseudoTerminal
from tests.chat.supporter import Supporter, running


@pytest.fixture(scope="session")
def _server() -> Iterator[Supporter]:
    with running() as supporter:
        yield supporter


@pytest.fixture
def supporter(_server: Supporter) -> Supporter:
    _server.reset()
    return _server


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
