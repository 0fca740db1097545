"""Open CER as rows to learn from and prompts to answer, for `device.py`.

    from runs.supporter.rows import moments, split_of, learning_rows, prompt
    from runs.supporter.rows import arm_rows, candidate_prompts, reading_moments      # what `session.py pack` sends

A moment is a supporter turn with written reasoning. Splits are by dialogue and fixed by a hash of its id: about 24 % of
the dialogues are for test and 16 % for validation, whatever is added later. Nothing is learned from either.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from compeer.cer.item import Item, chat_history, items_at
from compeer.corpora import esconv, open_cer
from compeer.corpora.open_cer import split_of
from compeer.dialogue import Dialogue, turns
from compeer.reasoning import Control, Pins, Reasoning, parse, render, system_prompt
from compeer.reasoning.grammar import after_prefix, plan, prefix, regex
from compeer.reasoning.ontology import EMOTIONS, STRATEGIES, sentiment_of
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

#: the brief instruction, and what the arm without the strategy step is told instead
TWO_STEPS = {
    "Think in three steps, history, emotion and strategy,": "Think in two steps, history and emotion,",
    "先按 history、emotion、strategy 三步思考": "先按 history、emotion 两步思考",
}


def half_of(dialogue: str) -> str:
    """a or b: the halves of the train split, so that a model can be sampled where it has not learned."""
    return "ab"[int(hashlib.sha256(f"half {dialogue}".encode()).hexdigest(), 16) % 2]


def unlearned(item: Item) -> bool:
    """Whether the model of half a has not learned from this moment."""
    return split_of(item.dialogue) != "train" or half_of(item.dialogue) == "b"


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


def pairs(items: Iterable[Item], base_replies: dict[str, str]) -> list[dict[str, Any]]:
    """Preferences for replies without thinking: what an author made of a moment against the base's own reply there, and
    a correction against the answer that it corrects (specific, and often a misreading)."""
    made = []
    for item in items:
        if item.id in base_replies:
            made.append((item, item.reference, base_replies[item.id]))
    known = {name_of(item): item for item in items}
    for one in open_cer.corrections():
        if one.of in known:
            answered = parse(one.answer).response
            if answered and answered != one.reply:
                made.append((known[one.of], one.reply, answered))
            if known[one.of].id in base_replies:
                made.append((known[one.of], one.reply, base_replies[known[one.of].id]))
    random.Random(1).shuffle(made)
    return [
        {"id": name_of(item), "messages": prompt(item, think="off", length="full"), "chosen": good, "rejected": bad}
        for item, good, bad in made
    ]


def arm_rows(kind: str, items: list[Item], *, seed: int, contrasts: float = 1.0) -> list[dict[str, Any]]:
    """What an arm learns: `steps`, `reply` or `two-steps`; the contrasted answers, or a share of them, always with
    their strategy pinned.

    The answers are the same in all three; `two-steps` is `steps` without the strategy step, pins stay in the prompt.
    """
    own = [(item, item.reference_reasoning, item.reference) for item in items if item.reference_reasoning]
    own += mended(items)
    off = {"brief": 0.0, "off": 1.0} if kind == "reply" else {}
    few = [one for one in contrasted(items) if random.Random(f"{one[0].id} {one[2]}").random() < contrasts]
    others = learning_rows(few, seed=seed + 1, pinned=1, strategy=1, **off)
    rows = [*learning_rows(own, seed=seed, **off), *others]
    random.Random(seed).shuffle(rows)
    return [_without_strategy(row) for row in rows] if kind == "two-steps" else rows


def _without_strategy(row: dict[str, Any]) -> dict[str, Any]:
    if not row["answer"].startswith("<think>"):
        return row
    answer = re.sub(r"<strategy>.*?</strategy>\n", "", row["answer"], flags=re.DOTALL)
    return {**row, "messages": in_two_steps(row["messages"]), "answer": answer}


def in_two_steps(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages that ask for the history and the emotion step alone."""
    told = messages[0]["content"]
    for three, two in TWO_STEPS.items():
        told = told.replace(three, two)
    if told == messages[0]["content"]:
        raise ValueError("the brief instruction has changed: TWO_STEPS must follow it")
    return [{**messages[0], "content": told}, *messages[1:]]


# --- where the models are asked -------------------------------------------------------------------------------------


def misfit(item: Item, rng: random.Random) -> Pins:
    """A pin that does not fit this moment: a strategy that nobody wrote here, or an emotion of the other kind."""
    written = item.reference_reasoning
    if written is None:
        raise ValueError(f"{item.id} has no written reasoning")
    if rng.random() < 0.4:
        kind = sentiment_of(str(written.label("emotion")))
        return Pins(emotion=rng.choice([one.id for one in EMOTIONS if sentiment_of(one.id) != kind]))
    used = {one.strategy for one in open_cer.contrasts() if one.of == name_of(item)} | {written.label("strategy")}
    every = tuple(one.id for one in STRATEGIES)
    return Pins(strategy=rng.choice([one for one in every if one not in used] or list(every)))


def candidate_prompts(items: list[Item], counts: dict[str, int], seed: int) -> tuple[dict[str, Any], dict[str, str]]:
    """Prompts by generator (base, part-a and its early state), and the regular expressions of the base.

    Of the train split half b is answered, which the model of half a has not learned from. Every moment comes once
    before any comes twice. Of the trained ones three in ten have a pin that does not fit, one in ten one that does.
    """
    rng = random.Random(seed)
    found: dict[str, list[dict[str, Any]]] = {}
    expressions: dict[str, str] = {}
    for split, count in counts.items():
        here = [item for item in items if split_of(item.dialogue) == split]
        order = [item for _ in range(count // max(1, len(here)) + 1) for item in rng.sample(here, len(here))]
        for number, item in enumerate(order[:count]):
            kind = ("late", "early", "late", "early", "late", "base")[number % 6]
            generator = {"base": "base", "early": "part-a-0.35", "late": "part-a"}[kind]
            draw, pins = rng.random(), None
            if draw < 0.3 and kind != "base":  # each pin of the base would be a regular expression: 20 s to compile
                pins = misfit(item, rng)
            elif draw < 0.4 and kind != "base" and item.reference_reasoning:
                pins = drawn_pins(item.reference_reasoning, rng, 1)
            row = {
                "id": f"{item.id}~1-{number:04d}",
                "moment": item.id,
                "generator": generator,
                "temperature": rng.choice((0.3, 0.6, 0.9, 1.2)),
                "pin": dict(pins.items()) if pins else {},
                "pin_fits": None if pins is None else draw >= 0.3,
                "messages": prompt(item, pins=pins, length="full" if kind == "base" else "brief"),
            }
            if kind == "base":
                parts = plan(item.language, Control(pins) if pins else Control())
                name = item.language
                expressions[name] = regex(after_prefix(parts))
                row |= {"prefix": prefix(parts), "regex": name}
            found.setdefault(generator, []).append(row)
    return found, expressions


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
