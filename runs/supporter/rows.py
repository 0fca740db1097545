"""Open CER as rows to learn from and prompts to answer, for `device.py`.

    from runs.supporter.rows import moments, split_of, learning_rows, prompt
    from runs.supporter.rows import arm_rows, reading_moments      # what `session.py pack` sends

A moment is a supporter turn with written reasoning. Splits are by dialogue and fixed by a hash of its id: about 24 % of
the dialogues are for test and 16 % for validation, whatever is added later. Nothing is learned from either.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from compeer.cer.item import Item, chat_history, items_at
from compeer.corpora import esconv, open_cer
from compeer.corpora.open_cer import split_of
from compeer.dialogue import Dialogue, turns
from compeer.reasoning import Control, Pins, Reasoning, render, system_prompt
from compeer.reasoning.prompt import Think, steered

LABELS = ("stage", "emotion", "intensity", "strategy")


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
    asked: list[dict[str, Any]] = [
        {"role": "system", "content": system_prompt(item.language, control, length, think)},  # type: ignore[arg-type]
        *chat_history(item),
    ]
    if think == "off":  # a pinned strategy is then said at the end of the conversation
        asked[-1] = {**asked[-1], "content": steered(asked[-1]["content"], item.language, control)}
    return asked


def drawn_pins(reasoning: Reasoning, rng: random.Random, strategy: float = 0.75) -> Pins:
    """Any subset of the labels, the strategy most often: what a person pins."""
    chosen = {label for label in LABELS if rng.random() < (strategy if label == "strategy" else 0.25)} or {"strategy"}
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
    strategy: float = 0.75,
) -> list[dict[str, Any]]:
    """Rows for `device.py train`: an item, the reasoning and the reply that are to be learned."""
    rng = random.Random(seed)
    rows = []
    for item, reasoning, reply in answers:
        draw = rng.random()
        think: Think = "off" if draw < off else "brief" if draw < off + brief else "full"
        pins = drawn_pins(reasoning, rng, strategy) if rng.random() < pinned else None
        kept = shortened(reasoning) if think == "brief" else reasoning
        output = reply.strip() if think == "off" else render(kept, reply.strip())
        rows.append({"id": name_of(item), "messages": prompt(item, pins=pins, think=think), "answer": output})
    return rows


# --- what the arms of a round learn from ---------------------------------------------------------------------------


def contrasted(items: Iterable[Item]) -> Iterator[tuple[Item, Reasoning, str]]:
    """The contrasted answers of these moments: history and emotion step as written, another strategy and reply."""
    known = {name_of(item): item for item in items}
    for one in open_cer.contrasts():
        item = known.get(one.of)
        if item is None or item.reference_reasoning is None:
            continue
        written = item.reference_reasoning
        steps = {step: written.text(step) for step in ("history", "emotion")} | {"strategy": one.strategy_step}
        labels = {label: written.label(label) for label in ("stage", "sentiment", "emotion", "intensity")}
        yield item, Reasoning.of(steps, labels | {"strategy": one.strategy}, item.language), one.reply


def mended(items: Iterable[Item]) -> Iterator[tuple[Item, Reasoning, str]]:
    """The corrections of these moments: a model's own answer, mended by an author."""
    known = {name_of(item): item for item in items}
    for one in open_cer.corrections():
        if one.of in known:
            yield known[one.of], one.reasoning(known[one.of].language), one.reply


def arm_rows(kind: str, items: list[Item], *, seed: int, contrasts: float = 1.0) -> list[dict[str, Any]]:
    """What an arm learns: `steps` or `reply`, the same answers with and without thinking; the contrasted answers, or a
    share of them, always with their strategy pinned."""
    own = [(item, item.reference_reasoning, item.reference) for item in items if item.reference_reasoning]
    own += mended(items)
    off = {"brief": 0.0, "off": 1.0} if kind == "reply" else {}
    few = [one for one in contrasted(items) if random.Random(f"{one[0].id} {one[2]}").random() < contrasts]
    others = learning_rows(few, seed=seed + 1, pinned=1, strategy=1, **off)
    rows = [*learning_rows(own, seed=seed, **off), *others]
    random.Random(seed).shuffle(rows)
    return rows


# --- where the models are asked -------------------------------------------------------------------------------------


def reading_moments(folder: Path, seed: int) -> dict[str, list[Item]]:
    """Moments for blind reading: choice (40 ESConv valid, 20 Chinese), confirm (150 and 60), no dialogue in both.

    The Chinese ones are open CER's validation and test dialogues. One moment per dialogue of ESConv's while they last.
    """
    rng = random.Random(seed)
    english: dict[str, list[Item]] = {}
    for one in esconv.load(folder):
        if isinstance(one, Dialogue) and "valid" in one.id and not one.crisis:
            places = range(2, sum(turn.speaker == "supporter" for turn in turns(one)))
            english[one.id] = [item for item in items_at(one, places) if item.history[-1].speaker == "seeker"]
    names = sorted(english)
    rng.shuffle(names)
    mine = [item for item in moments(open_cer.load("zh")) if item.history[-1].speaker == "seeker"]
    chosen = {}
    for name, few, split, chinese, part in (
        ("choice", 40, "valid", 20, names[: len(names) // 4]),
        ("confirm", 150, "test", 60, names[len(names) // 4 :]),
    ):
        drawn: list[Item] = []
        pools = {one: rng.sample(english[one], len(english[one])) for one in part}
        while len(drawn) < few and any(pools.values()):
            drawn += [pools[one].pop() for one in part if pools[one]]
        ours = [item for item in mine if split_of(item.dialogue) == split]
        chosen[name] = drawn[:few] + rng.sample(ours, min(chinese, len(ours)))
    return chosen
