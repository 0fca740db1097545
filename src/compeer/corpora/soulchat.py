"""SoulChatCorpus: about 258,000 Chinese conversations, several rounds each, rewritten to be empathetic.

    load(Path("SoulChatCorpus-sft-multi-Turn.json"))    a JSON list or JSON lines; both are streamed
    load(Path("scutcyr/SoulChatCorpus"))                from the hub

A row is {id, topic, messages: [{role, content}]}. The conversations are largely machine-written: expect stock
phrases, and sort them out downstream (`compeer cer filter`). The id is the place in the file; the corpus's own
stays in `extra["original_id"]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from compeer.corpora.reading import Rejected, by_index, imported, parts
from compeer.corpora.records import dialogue, problem_type, utterance
from compeer.dialogue import Dialogue, Speaker

LICENCE = "Apache-2.0"
FILES = {
    "multi": tuple(f"SoulChatCorpus-sft-multi-Turn.{suffix}" for suffix in ("json", "jsonl")),
    "train": ("train.json", "train.jsonl"),
}
_ROLES: dict[str, Speaker] = {"user": "seeker", "assistant": "supporter"}


class SoulChatMessage(msgspec.Struct):
    role: str
    content: str


class SoulChatRow(msgspec.Struct):
    messages: list[SoulChatMessage]
    id: int | str | None = None
    topic: str | None = None


def load(path: Path, *, split: str | None = None) -> Iterator[Dialogue | Rejected]:
    """The conversations of a file, a folder or a hub name."""
    for part in parts("soulchat", path, SoulChatRow, FILES, split):
        yield from imported("soulchat", part.rows, by_index(f"soulchat/{part.split}", digits=6), convert)


def convert(row: SoulChatRow, name: str) -> Dialogue:
    said, system = [], []
    for at, message in enumerate(row.messages):
        if message.role == "system":
            system.append(message.content)
            continue
        if message.role not in _ROLES:
            raise ValueError(f"message {at}: unknown role {message.role!r}; known: system, {', '.join(_ROLES)}")
        said.append(utterance(at, speaker=_ROLES[message.role], text=message.content))
    return dialogue(
        id=name,
        source="soulchat",
        licence=LICENCE,
        language="zh",
        utterances=said,
        problem=problem_type(row.topic),
        extra={"original_id": row.id, "system": "\n".join(system)},
    )
