"""config.yaml as a typed object. With `tiny` the part of that name is laid over the rest, level by level; its recipes
and means stand in the place of the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from compeer.config import convert, read_yaml

CONFIG = Path(__file__).with_name("config.yaml")


class Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How corpora become items."""

    dialogues: int | None
    evaluation_share: float
    failed_held_out: int
    turns: int
    shortest: int
    longest: int
    own_turns: tuple[int, ...]
    own_languages: tuple[str, ...]
    sft_items: int | None
    prompts: int
    moments: int
    test: int | None
    elsewhere: int
    per_dialogue: int | None


class Judges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all judges share, as `compeer.reward.train.JudgeTraining` has it, and the epochs of each."""

    plan: dict[str, Any]
    epochs: dict[str, int]


class Recipe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A setting of GRPO from which a supporter may come: what it changes, and its seeds."""

    seeds: tuple[int, ...]
    grpo: dict[str, Any]


class Sample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    temperature: float
    max_tokens: int
    batch: int


class Studies(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    timing_items: int
    timing_batch: int
    timing_rounds: int
    tau: tuple[float, ...]
    classifier_utterances: int


class Measure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rounds: int
    batch: int


class MiniatureSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything. `sft` and `grpo` are settings of the package's own trainers."""

    seed: int
    device: str
    embedder: str | None
    data: Data
    choice: int
    confirm: int
    draws: int
    sft: dict[str, Any]
    judges: Judges
    grpo: dict[str, Any]
    variants: dict[str, dict[str, Any]]
    seeds: tuple[int, ...]
    recipes: dict[str, Recipe]
    means: dict[str, tuple[str, ...]]
    sample: Sample
    studies: Studies
    measure: Measure
    minutes: dict[str, float]

    @property
    def candidates(self) -> tuple[str, ...]:
        """The models from which the supporter is chosen: runs of the recipes, and means of runs."""
        runs = [f"{name}-{seed}" for name, recipe in self.recipes.items() for seed in recipe.seeds]
        return (*runs, *self.means)


def load(*, tiny: bool = False, path: Path = CONFIG) -> MiniatureSettings:
    """The settings of a file; a name that does not exist is refused."""
    raw = read_yaml(path)
    smaller = raw.pop("tiny", {})
    if tiny:
        raw = over({name: value for name, value in raw.items() if name not in ("recipes", "means")}, smaller)
    raw["embedder"] = os.environ.get("COMPEER_EMBEDDER") or raw.get("embedder")
    return convert(raw, MiniatureSettings, path)


def over(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """`other` laid over `one`.

    >>> over({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}})
    {'a': {'b': 1, 'c': 3}}
    """
    made = dict(one)
    for name, value in other.items():
        below = made.get(name)
        made[name] = over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return made
