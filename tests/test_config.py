"""Settings from YAML files with overrides."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from compeer.config import load, override
from compeer.errors import UserError


class Lora(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    r: int = 8


class TrainingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    out: str
    learning_rate: float = 1e-4
    lora: Lora = Lora()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text("out: run\nlearning_rate: 1e-5\n", encoding="utf-8")
    return path


def test_file_and_overrides(file: Path) -> None:
    assert load(file, TrainingSettings, ["lora.r=16"]) == TrainingSettings("run", 1e-5, Lora(16))


def test_override_leaves_the_original_alone() -> None:
    values = {"lora": {"r": 8}}
    assert override(values, ["lora.r=16"]) == {"lora": {"r": 16}}
    assert values == {"lora": {"r": 8}}


@pytest.mark.parametrize(
    ("text", "overrides", "said"),
    [
        ("out: run\nrank: 8\n", [], "rank"),
        ("out: run\nlora: {r: many}\n", [], "lora.r"),
        ("out: run\n", ["lora.r=[1"], "lora.r"),
        ("out: run\n", ["lora.r"], "NAME=VALUE"),
        ("- a\n- b\n", [], "name: value"),
        ("out: [\n", [], "not usable"),
    ],
)
def test_an_error_names_the_file_or_the_field(tmp_path: Path, text: str, overrides: list[str], said: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=said.replace(".", r"\.")):
        load(path, TrainingSettings, overrides)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing\.yaml"):
        load(tmp_path / "missing.yaml", TrainingSettings)
