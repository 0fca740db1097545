"""The texts of `prompts.yaml`: what the stages ask models, by stage and language."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from compeer.config import convert, read_yaml
from compeer.reasoning.ontology import Language


def prompts(stage: str) -> dict[Language, str]:
    """The prompts of a stage."""
    return _all()[stage]


@cache
def _all() -> dict[str, dict[Language, str]]:
    file = Path(__file__).with_name("prompts.yaml")
    return convert(read_yaml(file), dict[str, dict[Language, str]], file)
