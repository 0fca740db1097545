"""CER histories as prompts for the policy, and as rows for a trainer.

The system prompt is the contract's; past reasoning is not part of a history. A history that does not fit loses its
oldest turns, and a shortened history begins with the seeker where it can.

Crisis items, marked or found by the word list, are left out of reinforcement unless `include_crisis` says that a person
has reviewed them: nothing in the paper's reward mentions safety, so it could be traded away. They are never
demonstrations, and neither are the replies of conversations that did not help.

A row holds what the model is asked (`prompt`, with pictures opened when the row is used) and what the reward must know
(`prompt_record`). Control tokens in what people said are made harmless, as in training on demonstrations.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from compeer.cer.item import Item, without_images
from compeer.dialogue import messages, trim
from compeer.errors import UserError
from compeer.models.checkpoint import ChatTokenizer, picture
from compeer.models.request import images_of, with_images
from compeer.policy.composite import PromptRecord
from compeer.policy.grpo.config import GrpoConfig
from compeer.reasoning import render, system_prompt
from compeer.reasoning.prompt import Length
from compeer.safety import discloses_crisis
from compeer.training.encode import MissingPicture, encode

Count = Callable[[list[dict[str, Any]]], int]  # tokens of a conversation, up to where the model answers


class Prompt(msgspec.Struct, frozen=True):
    """One row for training: the messages, the record for the reward, and the number of turns left out."""

    messages: list[dict[str, Any]]
    prompt_record: PromptRecord
    left_out: int = 0

    @property
    def row(self) -> dict[str, str]:
        """Both as JSON: columns that survive any dataset format."""
        return {"prompt": msgspec.json.encode(self.messages).decode(), "prompt_record": encoded(self.prompt_record)}


def encoded(prompt_record: PromptRecord) -> str:
    """The record that travels through a trainer's dataset."""
    return msgspec.json.encode(prompt_record).decode()


def prompt_tokens(words: ChatTokenizer) -> Count:
    """A function that counts the tokens of a conversation, pictures included, up to where this model answers."""

    def count(messages: list[dict[str, Any]]) -> int:
        if images_of(messages):  # as many tokens as their sizes ask for
            return encode([*messages, {"role": "assistant", "content": "…"}], words, "last").spans[0][0]
        text = words.render(words.chat(messages), ask=True)
        return len(words.tokenizer(text, add_special_tokens=False)["input_ids"])

    return count


def prompt_of(item: Item, count: Count, most: int, length: Length = "brief", *, sees: bool = True) -> Prompt:
    """The item's history as a prompt of at most `most` tokens. A model that does not see gets the words alone; the
    judge and the redundancy still get the whole history."""
    if not item.history:
        raise UserError(f"Item {item.id} has no history; there is nothing to reply to.")
    system = {"role": "system", "content": system_prompt(item.language, length=length)}
    prompt_record = PromptRecord(item.id, item.language, item.history, item.reference)
    history = item.history if sees else without_images(item).history
    shown = trim(history, lambda end: count([system, *messages(end)]) <= most)
    chat = [system, *messages(shown)]
    if len(shown) > 1 or count(chat) <= most:
        return Prompt(chat, prompt_record, len(item.history) - len(shown))
    raise UserError(
        f"The last turn of item {item.id} alone takes more than {most} tokens. Raise max_prompt, or leave the item out."
    )


def prompts_of(
    items: Iterable[Item],
    count: Count,
    most: int,
    length: Length = "brief",
    *,
    sees: bool = True,
    include_crisis: bool = False,
) -> tuple[list[Prompt], dict[str, int]]:
    """Prompts of all items that fit, and how many were shortened or left out; an item's history is asked once."""
    found: list[Prompt] = []
    counts = {"prompts": 0, "shortened": 0, "too long": 0, "repeated": 0}
    seen: set[tuple[str, int]] = set()
    for item in items:
        if not include_crisis and in_crisis(item):
            counts["crisis"] = counts.get("crisis", 0) + 1
            continue
        if (item.dialogue, item.round) in seen and item.variant == "original":
            counts["repeated"] += 1
            continue
        seen.add((item.dialogue, item.round))
        if prompt := prompt_if_usable(item, count, most, length, counts, sees=sees):
            found.append(prompt)
            counts["shortened"] += prompt.left_out > 0
    counts["prompts"] = len(found)
    return found, counts


def prompt_if_usable(
    item: Item, count: Count, most: int, length: Length, counts: dict[str, int], *, sees: bool
) -> Prompt | None:
    """`prompt_of`, or None for an item that is too long or whose picture is missing, which is counted in `counts`. The
    first missing picture is named, because what follows is likely the same mistake."""
    try:
        return prompt_of(item, count, most, length, sees=sees)
    except MissingPicture as error:
        if not counts.get("missing picture"):
            print(f"{error} Items whose pictures are missing are left out.", file=sys.stderr, flush=True)
        counts["missing picture"] = counts.get("missing picture", 0) + 1
    except UserError:
        counts["too long"] += 1
    return None


def in_crisis(item: Item) -> bool:
    """Whether an item is marked as a crisis, or its history would be."""
    return item.crisis or discloses_crisis(turn.text for turn in item.history)


def why_not_taught(item: Item) -> str | None:
    """Why no model is trained on this item's reference; None where it may be."""
    if item.helpful is False:
        return "not helpful"
    return "crisis" if in_crisis(item) else None


def demonstration(item: Item) -> str | None:
    """The whole output a model should have given: the reference with its reasoning, where it may be learned from."""
    if item.reference_reasoning is None or why_not_taught(item):
        return None
    try:
        return render(item.reference_reasoning, item.reference.strip())
    except ValueError:  # a corpus's own reply may hold markup
        return None


def fitting(items: Iterable[Item], words: ChatTokenizer, config: GrpoConfig) -> tuple[list[Prompt], dict[str, int]]:
    """`prompts_of` for the model of this tokenizer, as the settings of a GRPO run say."""
    count, reviewed = prompt_tokens(words), config.include_crisis
    return prompts_of(items, count, config.max_prompt, config.length, sees=words.sees, include_crisis=reviewed)


def held_out(found: Sequence[Prompt], count: int, seed: int) -> tuple[list[Prompt], list[Prompt]]:
    """Prompts to train on and `count` held-out prompts, chosen by id, so that the division is always the same."""
    if 2 * count > len(found):
        raise UserError(
            f"{count} held-out prompts for the second judge, of {len(found)} in all, leave too few to train on. "
            "Lower second_judge.prompts, or give second_judge.data."
        )
    ranked = sorted(found, key=lambda one: hashlib.sha256(f"{seed} {one.prompt_record.id}".encode()).digest())
    apart = {one.prompt_record.id for one in ranked[:count]}
    return [one for one in found if one.prompt_record.id not in apart], ranked[:count]


def dataset(found: Sequence[Prompt], words: ChatTokenizer) -> Any:
    """The prompts as the trainer reads them. Both columns are JSON until a row is used."""
    import datasets

    rows = [msgspec.structs.replace(one, messages=words.chat(one.messages)).row for one in found]
    return datasets.Dataset.from_list(rows).with_transform(_decoded)


def _decoded(batch: dict[str, list[str]]) -> dict[str, list[Any]]:
    decoded: dict[str, list[Any]] = {**batch}
    if "prompt" in batch:
        chats = map(msgspec.json.decode, batch["prompt"])
        decoded["prompt"] = [
            with_images(chat, lambda path: {"type": "image", "image": picture(path)}) for chat in chats
        ]
    return decoded
