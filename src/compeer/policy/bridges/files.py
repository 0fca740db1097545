"""What the bridges share: prompts as rows for other trainers, and the reward that a configuration describes.

Rows hold what GRPO here would ask (`policy.prompts`), in the form that ms-swift and verl share: text with an `<image>`
for each picture, and the pictures' paths in a list beside it.

The reward is that of any configuration of `compeer policy grpo`; only `variant`, `reward`, `judge`, `embedder`,
`conversation` and `group` are read. The file is named by the caller or by the environment variable COMPEER_REWARD,
because most trainers make their reward functions without arguments. A process opens it once.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from compeer.config import read_yaml
from compeer.errors import UserError
from compeer.models.embedding import Embedder
from compeer.policy.composite import CompositeReward
from compeer.policy.grpo.arguments import find_start
from compeer.policy.grpo.config import GrpoConfig, config_of
from compeer.policy.prompts import encoded

PLACE = "<image>"


class BridgeRow(msgspec.Struct, frozen=True):
    """One prompt. `prompt_record` is the record that the reward needs, as JSON."""

    messages: list[dict[str, str]]
    images: list[str]
    prompt_record: str
    reference: str


def rows(config: GrpoConfig) -> Iterator[BridgeRow]:
    """The prompts of a GRPO configuration, shortened to fit as they are there."""
    from compeer.models.checkpoint import ChatTokenizer, open_tokenizer
    from compeer.policy.prompts import fitting
    from compeer.policy.sft import items_of

    words = ChatTokenizer(*open_tokenizer(find_start(config).base))
    for one in fitting(items_of(config.data), words, config)[0]:
        messages, images = placed(one.messages)
        yield BridgeRow(messages, images, encoded(one.prompt_record), one.prompt_record.reference)


def placed(messages: list[dict[str, Any]]) -> tuple[list[dict[str, str]], list[str]]:
    """Messages as text with a mark for each picture, and the pictures.

    >>> parts = [{"type": "image", "path": "a.png"}, {"type": "text", "text": "<image>?"}]
    >>> placed([{"role": "user", "content": parts}])
    ([{'role': 'user', 'content': '<image>< image>?'}], ['a.png'])
    """
    made, images = [], []
    for message in messages:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        images += [part["path"] for part in parts if part["type"] == "image"]
        text = "".join(PLACE if part["type"] == "image" else part["text"].replace(PLACE, "< image>") for part in parts)
        made.append({"role": message["role"], "content": text})
    return made, images


VARIABLE = "COMPEER_REWARD"
_READ = ("variant", "reward", "judge", "embedder", "conversation", "group")


def reward_file(path: str | None = None) -> str:
    """The path of this configuration, or of the one that COMPEER_REWARD names."""
    name = path or os.environ.get(VARIABLE)
    if not name:
        raise UserError(f"No reward is named: set {VARIABLE} to a configuration of compeer policy grpo.")
    return str(Path(name).resolve())


def opened(path: str | None = None) -> CompositeReward:
    """The reward of this file, or of the one that COMPEER_REWARD names; the same object every time."""
    return _opened(reward_file(path))


def read(path: str) -> GrpoConfig:
    """The part of a configuration that concerns the reward; the rest is left empty."""
    values = read_yaml(path)
    kept = {name: values[name] for name in _READ if values.get(name) is not None}
    return config_of({"out": "-", "model": "-", "data": ["-"], **kept}, path)


@functools.cache
def _opened(path: str) -> CompositeReward:
    config = read(path)
    judge = config.judge.client() if config.judge and config.reward.source != "rules" else None
    return CompositeReward(judge, Embedder(config.embedder), config.reward)
