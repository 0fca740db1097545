"""Real corpora from COMPEER_DATA (default: ../shared/data beside the repository), and small files made here."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compeer.corpora import Rejected
from compeer.dialogue import Dialogue

_DEFAULT = Path(__file__).resolve().parents[3] / "shared" / "data"


class Outcomes(msgspec.Struct):
    dialogues: list[Dialogue]
    rejected: list[Rejected]


@pytest.fixture(scope="session")
def data() -> Path:
    folder = Path(os.environ.get("COMPEER_DATA", _DEFAULT))
    if not folder.is_dir():
        pytest.skip(f"the corpora are not at {folder}; set COMPEER_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def outcomes() -> Callable[[Iterable[Dialogue | Rejected]], Outcomes]:
    """Dialogues and rejections apart; every dialogue is checked to survive being written and read."""

    def sort_out(stream: Iterable[Dialogue | Rejected]) -> Outcomes:
        found = Outcomes([], [])
        for one in stream:
            if isinstance(one, Rejected):
                found.rejected.append(one)
                continue
            assert msgspec.json.decode(msgspec.json.encode(one), type=Dialogue) == one
            found.dialogues.append(one)
        ids = [one.id for one in found.dialogues]
        assert len(set(ids)) == len(ids)
        return found

    return sort_out


@pytest.fixture
def put(tmp_path: Path) -> Callable[..., Path]:
    """Write a file: rows as JSON lines, or (as_list=True) as a list; a str or bytes as it is."""

    def write(name: str, content: Any, as_list: bool = False) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        elif as_list:
            path.write_text(json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8")
        else:
            path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in content), encoding="utf-8")
        return path

    return write
