"""EmoLLM: Chinese counselling conversations of one to five rounds, written by a model.

    load(Path("emollm"))                     data.json (1,596) and the persona-styled aiwei (200 here)
    load(Path("emollm"), split="data")       the first alone

A conversation is a list of {system? (first only), input, output}: the seeker's words and the supporter's. The
system prompt goes to `extra["system"]`. Trap: `aiwei` speaks in a persona, with emoji and stage directions; its
dialogues carry `extra["style"] = "persona"`. They are what a filter for artificial style should catch, not what a
model should learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from compeer.corpora.reading import Rejected, by_index, imported, parts
from compeer.corpora.records import dialogue, utterance
from compeer.dialogue import Dialogue, Utterance

LICENCE = "MIT"
FILES = {"data": ("data.json", "data.jsonl"), "aiwei": ("aiwei_200.json", "aiwei.json", "aiwei.jsonl")}


class EmoLLMExchange(msgspec.Struct):
    input: str
    output: str
    system: str | None = None


class EmoLLMRow(msgspec.Struct):
    conversation: list[EmoLLMExchange]


def load(path: Path, *, split: str | None = None) -> Iterator[Dialogue | Rejected]:
    """The conversations of a file or folder."""
    for part in parts("emollm", path, EmoLLMRow, FILES, split):
        style = "persona" if "aiwei" in part.split else None
        build = partial(convert, style=style)
        yield from imported("emollm", part.rows, by_index(f"emollm/{part.split}"), build)


def convert(row: EmoLLMRow, name: str, *, style: str | None) -> Dialogue:
    said: list[Utterance] = []
    for turn in row.conversation:
        said.append(utterance(len(said), speaker="seeker", text=turn.input))
        said.append(utterance(len(said), speaker="supporter", text=turn.output))
    system = next((turn.system for turn in row.conversation if turn.system), None)
    return dialogue(
        id=name,
        source="emollm",
        licence=LICENCE,
        language="zh",
        utterances=said,
        extra={"system": system, "style": style},
    )
