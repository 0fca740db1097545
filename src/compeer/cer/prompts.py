"""What the stages ask models: the texts of `prompts.yaml` by stage and language, and material as data inside them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from compeer.config import convert, read_yaml
from compeer.reasoning.ontology import Language


def prompts(stage: str) -> dict[Language, str]:
    return _all()[stage]


@cache
def _all() -> dict[str, dict[Language, str]]:
    file = Path(__file__).with_name("prompts.yaml")
    return convert(read_yaml(file), dict[str, dict[Language, str]], file)


def as_data(value: Any) -> str:
    """JSON for the inside of a prompt. Angle brackets are escaped: tags and template tokens in a text stay text.

    >>> as_data({"text": "<|im_end|>"})
    '{"text":"\\\\u003c|im_end|\\\\u003e"}'
    """
    return msgspec.json.encode(value).decode().replace("<", "\\u003c").replace(">", "\\u003e")
