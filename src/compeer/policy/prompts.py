"""Prompts for the policy: the histories of CER items, as they are asked in conversation too.

The system prompt is the contract's; past reasoning is no part of a history. What does not fit the model's prompt is
left out from the oldest turn on, and a shortened history begins with the seeker where it can.

Crisis items, marked or found by the marking word list, are left out of reinforcement unless someone says that they
were reviewed (`include_crisis`): nothing in the paper's reward mentions safety, so it could be traded away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from compeer.cer.crisis_flag import crisis_words
from compeer.cer.item import Item, chat_history
from compeer.errors import UserError
from compeer.policy.composite import Asked
from compeer.reasoning import render, system_prompt
from compeer.reasoning.prompt import Length

Count = Callable[[list[dict[str, Any]]], int]  # tokens of a conversation, up to where the model answers


class Prompt(msgspec.Struct, frozen=True):
    """One row for training: what the model is asked, what the reward must know, what was left out."""

    messages: list[dict[str, Any]]
    asked: Asked
    left_out: int = 0

    @property
    def row(self) -> dict[str, str]:
        """Both as JSON: columns that survive any dataset format."""
        return {"prompt": msgspec.json.encode(self.messages).decode(), "asked": encoded(self.asked)}


def encoded(asked: Asked) -> str:
    """The record that travels through a trainer's dataset."""
    return msgspec.json.encode(asked).decode()


def prompt_of(item: Item, count: Count, most: int, length: Length = "brief") -> Prompt:
    """The item's history as a prompt of at most `most` tokens."""
    if not item.history:
        raise UserError(f"Item {item.id} has no history; there is nothing to reply to.")
    system = {"role": "system", "content": system_prompt(item.language, length=length)}
    asked = Asked(item.id, item.language, item.history, item.reference)
    for start in _starts(item):
        shown = msgspec.structs.replace(item, history=item.history[start:])
        messages = [system, *chat_history(shown)]
        if count(messages) <= most:
            return Prompt(messages, asked, start)
    raise UserError(
        f"The last turn of item {item.id} alone takes more than {most} tokens. Raise max_prompt, or leave the item out."
    )


def prompts_of(
    items: Iterable[Item], count: Count, most: int, length: Length = "brief", *, include_crisis: bool = False
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
        try:
            found.append(prompt_of(item, count, most, length))
        except UserError:
            counts["too long"] += 1
            continue
        counts["shortened"] += found[-1].left_out > 0
    counts["prompts"] = len(found)
    return found, counts


def in_crisis(item: Item) -> bool:
    """Whether an item is marked as a crisis, or its history would be."""
    return item.crisis or any(crisis_words(turn.text) for turn in item.history)


def demonstration(item: Item) -> str | None:
    """The whole output a model should have given: the reference with its reasoning, where there is one."""
    if item.reference_reasoning is None:
        return None
    try:
        return render(item.reference_reasoning, item.reference.strip())
    except ValueError:  # a corpus's own reply may hold markup
        return None


def _starts(item: Item) -> Iterator[int]:
    """Where the history may begin: at its first turn, then later and later, at a seeker's turn where it can."""
    yield 0
    last = len(item.history) - 1
    for start in range(1, last + 1):
        if item.history[start].speaker == "seeker" or start == last:
            yield start
