"""Open CER as rows to learn from and prompts to answer, for `device.py`.

    from runs.supporter.rows import moments, split_of, learning_rows, prompt

A moment is a supporter turn with written reasoning. Splits are by dialogue and fixed by a hash of its id: about 20 % of
the dialogues are for test and 14 % for validation, whatever is added later. Nothing is learned from either.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

from compeer.cer.item import Item, chat_history, items_at
from compeer.corpora import open_cer
from compeer.dialogue import Dialogue, turns
from compeer.reasoning import Control, Pins, Reasoning, render, system_prompt
from compeer.reasoning.prompt import Think

LABELS = ("stage", "emotion", "intensity", "strategy")


def split_of(dialogue: str) -> str:
    """train, valid or test, by the dialogue's name alone."""
    place = int(hashlib.sha256(f"open-cer {dialogue}".encode()).hexdigest()[:8], 16) / 2**32
    return "test" if place < 0.21 else "valid" if place < 0.355 else "train"


def name_of(item: Item) -> str:
    return item.id.removeprefix("open-cer/")


def moments(dialogues: Iterable[Dialogue] | None = None) -> Iterator[Item]:
    """Every turn of open CER that has written reasoning, as an item with its reference."""
    for dialogue in dialogues if dialogues is not None else open_cer.load():
        supporter = [turn for turn in turns(dialogue) if turn.speaker == "supporter"]
        written = [place for place, turn in enumerate(supporter, start=1) if turn.utterances[-1].reasoning]
        for item in items_at(dialogue, written):
            if item.history and item.reference_reasoning:
                yield item


def prompt(
    item: Item, *, pins: Pins | None = None, think: Think = "full", length: str = "brief"
) -> list[dict[str, Any]]:
    """The messages that ask for an answer at this moment."""
    control = Control(pins) if pins else Control()
    return [
        {"role": "system", "content": system_prompt(item.language, control, length, think)},  # type: ignore[arg-type]
        *chat_history(item),
    ]


def drawn_pins(reasoning: Reasoning, rng: random.Random) -> Pins:
    """Any subset of the labels, the strategy most often: what a person pins."""
    chosen = {label for label in LABELS if rng.random() < (0.75 if label == "strategy" else 0.25)} or {"strategy"}
    values = {label: reasoning.label(label) for label in chosen}
    return Pins(**values)


def first_sentence(text: str) -> str:
    """What `think: brief` keeps of a step."""
    found = re.match(r".+?(?:[.!?](?=\s)|[。！？])", text.strip())
    return found[0] if found else text.strip()


def shortened(reasoning: Reasoning) -> Reasoning:
    steps = {step: first_sentence(reasoning.text(step)) for step in ("history", "emotion", "strategy")}
    labels = {label: reasoning.label(label) for label in ("stage", "sentiment", "emotion", "intensity", "strategy")}
    return Reasoning.of(steps, labels, reasoning.language)


def learning_rows(
    answers: Iterable[tuple[Item, Reasoning, str]],
    *,
    seed: int,
    pinned: float = 0.5,
    brief: float = 0.12,
    off: float = 0.12,
) -> list[dict[str, Any]]:
    """Rows for `device.py train`: an item, the reasoning and the reply that are to be learned."""
    rng = random.Random(seed)
    rows = []
    for item, reasoning, reply in answers:
        draw = rng.random()
        think: Think = "off" if draw < off else "brief" if draw < off + brief else "full"
        pins = drawn_pins(reasoning, rng) if rng.random() < pinned else None
        kept = shortened(reasoning) if think == "brief" else reasoning
        output = reply.strip() if think == "off" else render(kept, reply.strip())
        rows.append({"id": name_of(item), "messages": prompt(item, pins=pins, think=think), "answer": output})
    return rows
