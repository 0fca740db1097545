"""Items to rows for the trainer: prompts that fit, some of them held out, as a dataset.

A row holds what the model is asked (`prompt`, with pictures opened when the row is used) and what the reward must know
(`asked`). Control tokens in what people said are made harmless, as in training on demonstrations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from compeer.cer.item import Item
from compeer.errors import UserError
from compeer.policy.prompts import Prompt, prompts_of
from compeer.reasoning.prompt import Length
from compeer.training.encode import Words, encode, pictures


def fitting(
    items: Iterable[Item], words: Words, most: int, length: Length, *, include_crisis: bool = False
) -> tuple[list[Prompt], dict[str, int]]:
    """Prompts of at most `most` tokens, and what became of the items.

    A model that cannot see gets the words alone; the judge and the redundancy get the whole history all the same.
    """

    def count(messages: list[dict[str, Any]]) -> int:
        if pictures(messages):  # as many tokens as their sizes ask for
            return encode([*messages, {"role": "assistant", "content": "…"}], words, "last").spans[0][0]
        text = words.render(words.chat(messages), ask=True)
        return len(words.tokenizer(text, add_special_tokens=False)["input_ids"])

    replace = msgspec.structs.replace
    whole = {}
    shown = []
    for item in items:
        whole[item.id] = item.history
        seen = item.history if words.sees else tuple(replace(turn, images=()) for turn in item.history)
        shown.append(replace(item, history=seen))
    found, counts = prompts_of(shown, count, most, length, include_crisis=include_crisis)
    return [replace(one, asked=replace(one.asked, history=whole[one.asked.id])) for one in found], counts


def held_out(found: Sequence[Prompt], count: int, seed: int) -> tuple[list[Prompt], list[Prompt]]:
    """Prompts to train on and prompts to keep apart, by their ids, so that it is the same division every time."""
    if 2 * count > len(found):
        raise UserError(
            f"{count} held-out prompts for the second judge, of {len(found)} in all, leave too few to train on. "
            "Lower second_judge.prompts, or give second_judge.data."
        )
    ranked = sorted(found, key=lambda one: hashlib.sha256(f"{seed} {one.asked.id}".encode()).digest())
    apart = {one.asked.id for one in ranked[:count]}
    return [one for one in found if one.asked.id not in apart], ranked[:count]


def dataset(found: Sequence[Prompt], words: Words) -> Any:
    """The prompts as the trainer reads them. Both columns are JSON until a row is used."""
    import datasets

    rows = [msgspec.structs.replace(one, messages=_chat(one.messages, words)).row for one in found]
    return datasets.Dataset.from_list(rows).with_transform(_decoded)


def _chat(messages: list[dict[str, Any]], words: Words) -> list[dict[str, Any]]:
    """The messages as the model's template wants them, pictures still as paths."""
    paths = iter(pictures(messages))
    chat = []
    for message in words.chat(messages):
        content = message["content"]
        if not isinstance(content, str):
            content = [{**part, "path": next(paths)} if part["type"] == "image" else part for part in content]
        chat.append({"role": message["role"], "content": content})
    return chat


def _decoded(batch: dict[str, list[str]]) -> dict[str, list[Any]]:
    decoded: dict[str, list[Any]] = {**batch}
    if "prompt" in batch:
        decoded["prompt"] = [_opened(msgspec.json.decode(row)) for row in batch["prompt"]]
    return decoded


def _opened(chat: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from compeer.models.checkpoint import picture

    for message in chat:
        if not isinstance(message["content"], str):
            message["content"] = [
                {"type": "image", "image": picture(part["path"])} if part["type"] == "image" else part
                for part in message["content"]
            ]
    return chat
