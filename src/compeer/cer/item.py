"""A CER item: one moment of a conversation, two replies to it, one with its reasoning, and the labels.

`reference` is what the corpus's supporter said; `candidate` is what a model (or an author) thought and
said instead. The three booleans judge the candidate's steps, the preference compares the two replies.
Labels are stored as reference and candidate, never as first and second: the order in which they were
shown belongs to the vote.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compeer.dialogue import Dialogue, Speaker, Turn, turns
from compeer.reasoning import Reasoning
from compeer.reasoning.ontology import Language, sentiment_of

Preference = Literal["candidate", "reference", "both", "neither"]
LabelSource = Literal["human", "silver", "author"]
Variant = Literal["original", "duplicate", "rewrite", "persona"]
Split = Literal["train", "valid", "test"]
Question = Literal["history", "emotion", "strategy", "preference"]
QUESTIONS: tuple[Question, ...] = ("history", "emotion", "strategy", "preference")


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
    """One merged turn of the history."""

    speaker: Speaker
    text: str
    images: tuple[str, ...] = ()


class Candidate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reply, the reasoning behind it, and who wrote them. Without reasoning it was incomplete; `raw` has it all."""

    response: str
    reasoning: Reasoning | None = None
    generator: str = ""
    raw: str | None = None


class Labels(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """True or False for each step, one preference; None where there is no label."""

    history: bool | None = None
    emotion: bool | None = None
    strategy: bool | None = None
    preference: Preference | None = None


class Vote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One annotator's answer to one question, as given."""

    annotator: str
    question: Question
    value: bool | Preference
    at: str | None = None
    seconds: float | None = None
    candidate_first: bool | None = None
    guideline: str | None = None


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of the dataset, with everything needed to trace it back."""

    id: Annotated[str, Meta(min_length=1)]
    dialogue: str
    source: str
    licence: str
    language: Language
    round: int  # 1-based; the history ends just before this round's supporter turn
    history: tuple[Said, ...]
    reference: str
    reference_strategies: tuple[str, ...] = ()
    reference_reasoning: Reasoning | None = None
    situation: str | None = None
    problem: str | None = None
    candidate: Candidate | None = None
    labels: Labels = Labels()
    label_source: LabelSource | None = None
    votes: tuple[Vote, ...] = ()
    persona: str | None = None
    variant: Variant = "original"
    split: Split | None = None
    crisis: bool = False
    trace: dict[str, Any] = {}


def item_at(dialogue: Dialogue, index: int) -> Item:
    """The moment before the supporter turn of round `index`, with the corpus's reply as reference."""
    return _item(dialogue, turns(dialogue), index)


def items_at(dialogue: Dialogue, indices: Iterable[int]) -> list[Item]:
    """The same for several rounds; the turns are merged once."""
    merged = turns(dialogue)
    return [_item(dialogue, merged, index) for index in indices]


def _item(dialogue: Dialogue, merged: list[Turn], index: int) -> Item:
    places = [place for place, turn in enumerate(merged) if turn.speaker == "supporter"]
    if not 1 <= index <= len(places):
        raise IndexError(f"{dialogue.id} has {len(places)} rounds; there is no round {index}")
    place = places[index - 1]
    answered = merged[place]
    last = answered.utterances[-1]
    reasoning = None
    if last.reasoning and last.stage and last.emotion and last.intensity and last.strategy:
        reasoning = Reasoning.of(
            {step: getattr(last.reasoning, step) for step in ("history", "emotion", "strategy")},
            {
                "stage": last.stage,
                "sentiment": last.sentiment or sentiment_of(last.emotion),
                "emotion": last.emotion,
                "intensity": last.intensity,
                "strategy": last.strategy,
            },
            dialogue.language,
        )
    return Item(
        id=f"{dialogue.id}#{index}",
        dialogue=dialogue.id,
        source=dialogue.source,
        licence=dialogue.licence,
        language=dialogue.language,
        round=index,
        history=tuple(said(turn) for turn in merged[:place]),
        reference=answered.text,
        reference_strategies=answered.strategies,
        reference_reasoning=reasoning,
        situation=dialogue.situation,
        problem=dialogue.problem,
        crisis=dialogue.crisis,
        **_rewritten(dialogue),
    )


def _rewritten(dialogue: Dialogue) -> dict[str, Any]:
    """What an item of a rewritten dialogue must remember: its variant, its persona, where it comes from."""
    origin = dialogue.extra.get("origin")
    if origin is None:
        return {}
    persona = dialogue.extra.get("persona")
    return {"variant": "persona" if persona else "rewrite", "persona": persona, "trace": {"origin": origin}}


def said(turn: Turn) -> Said:
    return Said(turn.speaker, turn.text, turn.images)


def chat_history(item: Item) -> list[dict[str, Any]]:
    """The history for a chat template: the seeker is the user, the supporter the assistant, pictures as parts."""
    chat: list[dict[str, Any]] = []
    for turn in item.history:
        role = "user" if turn.speaker == "seeker" else "assistant"
        pictures: list[dict[str, Any]] = [{"type": "image", "path": path} for path in turn.images]
        content = [*pictures, {"type": "text", "text": turn.text}] if pictures else turn.text
        chat.append({"role": role, "content": content})
    return chat
