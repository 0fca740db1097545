"""CER histories as rows for other trainers: the prompt, its pictures, and what the reward must know.

The rows hold what GRPO here would ask (`policy.rows`), in the form that ms-swift and verl share: text with an `<image>`
where a picture stands, and the pictures' paths in a list beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from compeer.policy.grpo.config import Config
from compeer.policy.grpo.start import find_start
from compeer.policy.prompts import encoded

PLACE = "<image>"


class Row(msgspec.Struct, frozen=True):
    """One prompt. `asked` is the record that the reward wants back, as JSON."""

    messages: list[dict[str, str]]
    images: list[str]
    asked: str
    reference: str


def rows(config: Config) -> Iterator[Row]:
    """The prompts of a GRPO configuration, shortened to fit as they are there."""
    from compeer.models.checkpoint import open_tokenizer
    from compeer.policy.grpo.rows import fitting
    from compeer.policy.sft import items_of
    from compeer.training.encode import Words

    words = Words(*open_tokenizer(find_start(config).base))
    reviewed = config.include_crisis
    found, _ = fitting(items_of(config.data), words, config.max_prompt, config.length, include_crisis=reviewed)
    for one in found:
        messages, images = placed(one.messages)
        yield Row(messages, images, encoded(one.asked), one.asked.reference)


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
