"""A CER item: one moment of a conversation, two replies to it, one with its reasoning, and the labels.

`reference` is what the corpus's supporter said; `candidate` is what a model (or an author) thought and
said instead. The three booleans judge the candidate's steps, the preference compares the two replies.
Labels are stored as reference and candidate, never as first and second: the order in which they were
shown belongs to the vote.

`read_items` is the only reader of items; it takes every form in which they were ever written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compeer.dialogue import Dialogue, Round, Speaker, Turn, messages, rounds
from compeer.dialogue.jsonl import data_files, decode_rows, with_full_image_paths
from compeer.reasoning import Reasoning
from compeer.reasoning.ontology import Language, sentiment_of
from compeer.typed import from_json, from_plain

Preference = Literal["candidate", "reference", "both", "neither"]
LabelSource = Literal["human", "silver", "author"]
Variant = Literal["original", "duplicate", "rewrite", "persona"]
Split = Literal["train", "valid", "test"]
Question = Literal["history", "emotion", "strategy", "preference"]
QUESTIONS: tuple[Question, ...] = ("history", "emotion", "strategy", "preference")


class PastTurn(msgspec.Struct, frozen=True, omit_defaults=True):
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
    history: tuple[PastTurn, ...]
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
    helpful: bool | None = None  # of the dialogue; where it is false, nobody should answer as its supporter did
    voice: str | None = None  # how the corpus is written, where it says so: plain, literary
    trace: dict[str, Any] = {}


def items_at(dialogue: Dialogue, indices: Iterable[int]) -> list[Item]:
    """The moments of these rounds, counted from 1."""
    available = rounds(dialogue)
    found = []
    for index in indices:
        if not 1 <= index <= len(available):
            raise IndexError(f"{dialogue.id} has {len(available)} rounds; there is no round {index}")
        found.append(item_at(dialogue, available[index - 1]))
    return found


def item_at(dialogue: Dialogue, moment: Round) -> Item:
    """The moment before a round's supporter turn, with the corpus's reply as reference."""
    last = moment.supporter.utterances[-1]
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
        id=f"{dialogue.id}#{moment.index}",
        dialogue=dialogue.id,
        source=dialogue.source,
        licence=dialogue.licence,
        language=dialogue.language,
        round=moment.index,
        history=tuple(map(said, moment.history)),
        reference=moment.supporter.text,
        reference_strategies=moment.supporter.strategies,
        reference_reasoning=reasoning,
        situation=dialogue.situation,
        problem=dialogue.problem,
        crisis=dialogue.crisis,
        helpful=dialogue.helpful,
        voice=dialogue.extra.get("voice"),
    )


def said(turn: Turn) -> PastTurn:
    return PastTurn(turn.speaker, turn.text, turn.images)


def chat_history(item: Item) -> list[dict[str, Any]]:
    return messages(item.history)


def without_images(item: Item) -> Item:
    """The item for a model that cannot see."""
    history = tuple(msgspec.structs.replace(turn, images=()) for turn in item.history)
    return msgspec.structs.replace(item, history=history)


def read_items(path: str | Path, *, split: Split | None = None, resolve_images: bool = True) -> Iterator[Item]:
    """The items of a file or of a published folder, in any form that was ever written. The only reader of items.

    Forms: what a stage, `annotate export` or `label import` writes; rows of a published dataset, where every column is
    there and what has no fixed shape (`trace`, a vote's value) is a string; all of them plain or compressed; and the
    folder of a published dataset, which stands for all its splits, or for `split` alone.

    Image paths are relative to the folder of the file, and to the dataset's folder in a published one. They come out
    as paths that can be opened from anywhere, unless `resolve_images` is off.
    """
    for file in data_files(path, split):
        yield from decode_rows(file, partial(decode_item, source=file if resolve_images else None))


def decode_item(line: bytes, source: str | Path | None = None) -> Item:
    """One item from a line of JSON in any form; with `source`, its file, the images get their full paths.

    What is wrong with a line comes with what to do about it.
    """
    try:
        item = from_json(line, Item)
    except msgspec.ValidationError:  # not as a stage writes it
        item = as_item(msgspec.json.decode(line))
    return item if source is None else with_full_image_paths(item, "history", image_folder(source))


def as_item(row: Any) -> Item:
    """The item of a decoded row in any form: as a stage writes it, as it was published, as `datasets` gives it."""
    if isinstance(row, dict) and isinstance(row.get("trace"), str):
        truth = {"true": True, "false": False}
        votes = [{**vote, "value": truth.get(vote["value"], vote["value"])} for vote in row.get("votes") or ()]
        row = {**row, "trace": msgspec.json.decode(row["trace"]), "votes": votes}
    try:
        return from_plain(row, Item)
    except msgspec.ValidationError as problem:
        raise msgspec.ValidationError(f"{problem}. {_advice(row)}") from None


def image_folder(path: str | Path) -> Path:
    """The folder to which image paths in an item file (or a published folder) are relative."""
    given = Path(path)
    if given.is_dir():
        nested = given / "dataset"
        return nested if (nested / "jsonl").is_dir() else given
    home = given.parent
    return home.parent if home.name == "jsonl" else home


def to_row(item: Item) -> dict[str, Any]:
    """The item as a row of a published dataset: every column present, what has no fixed shape as a string."""
    row: dict[str, Any] = _plain(item)
    row["trace"] = msgspec.json.encode(item.trace, order="sorted").decode()
    for vote in row["votes"]:
        vote["value"] = {True: "true", False: "false"}.get(vote["value"], vote["value"])
    return row


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


#: a field by which a row of another kind is known, what the row is, and what to do
_OTHER_ROWS = (
    ("utterances", "a dialogue", "make items of dialogues with `compeer cer sample`"),
    ("judgement", "a score", "give the items that `compeer reward score` was given"),
    ("reason", "a rejected row", "give the output beside this file of rejects"),
    ("questions", "a task for an annotator", "give the items that the tasks were exported from"),
    ("messages", "a chat", "make items with `compeer corpus import` and `compeer cer sample`"),
)


def _advice(row: Any) -> str:
    for field, kind, remedy in _OTHER_ROWS:
        if isinstance(row, dict) and field in row and "round" not in row:
            return f"This is {kind}, not a CER item; {remedy}"
    return "Every line must be a CER item, as `compeer cer sample`, `reason`, `label` and `split` write them"
