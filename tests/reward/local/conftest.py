"""Tiny random models, a judge that encodes every turn from scratch, and a photograph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.reward.local.comparing import painted
from tests.reward.reference import Reference

from compeer.reward import local_scoring


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows at a time as on a GPU."""
    monkeypatch.setattr(local_scoring, "_CPU_ROWS", 64)


@pytest.fixture(params=["wide", "narrow"])
def either(request: pytest.FixtureRequest) -> None:
    """As on a GPU, then as on a CPU."""
    if request.param == "wide":
        request.getfixturevalue("wide")


@pytest.fixture(scope="module")
def reference(tiny_model_dir: Path) -> Reference:
    return Reference(str(tiny_model_dir))


@pytest.fixture(scope="module")
def seeing(tiny_vision_dir: Path) -> Reference:
    return Reference(str(tiny_vision_dir))


@pytest.fixture
def photo(tmp_path: Path) -> str:
    return painted(tmp_path / "face.png", (200, 120, 90), (84, 112))
