"""Rounds: what the paper counts, samples and answers.

Consecutive utterances of one speaker are one turn. A round is a supporter turn with what the seeker
said just before it; a dialogue has as many rounds as supporter turns. The history of round i is every
turn before its supporter turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from compeer.dialogue.record import Dialogue, Speaker, Utterance


class Turn(msgspec.Struct, frozen=True):
    """Consecutive utterances of one speaker."""

    speaker: Speaker
    utterances: tuple[Utterance, ...]
    start: int  # index of the first utterance in the dialogue

    @property
    def text(self) -> str:
        return "\n".join(u.text.strip() for u in self.utterances)

    @property
    def images(self) -> tuple[str, ...]:
        return tuple(image for u in self.utterances for image in u.images)

    @property
    def strategies(self) -> tuple[str, ...]:
        """Every strategy of the merged utterances, in order, each once."""
        return tuple(dict.fromkeys(u.strategy for u in self.utterances if u.strategy))


class Round(msgspec.Struct, frozen=True):
    """A supporter turn and the seeker turn it answers (None where the supporter opens)."""

    index: int  # 1-based, as in equation 1
    seeker: Turn | None
    supporter: Turn


def turns(dialogue: Dialogue) -> list[Turn]:
    """The dialogue with consecutive utterances of one speaker merged."""
    merged: list[Turn] = []
    start = 0
    for end in range(1, len(dialogue.utterances) + 1):
        at_end = end == len(dialogue.utterances)
        if at_end or dialogue.utterances[end].speaker != dialogue.utterances[start].speaker:
            merged.append(Turn(dialogue.utterances[start].speaker, dialogue.utterances[start:end], start))
            start = end
    return merged


def rounds(dialogue: Dialogue) -> list[Round]:
    """The rounds of a dialogue, in order."""
    found: list[Round] = []
    previous: Turn | None = None
    for turn in turns(dialogue):
        if turn.speaker == "supporter":
            found.append(Round(len(found) + 1, previous, turn))
        previous = turn
    return found


def history(dialogue: Dialogue, index: int) -> list[Turn]:
    """Everything said before the supporter turn of round `index` (1-based)."""
    available = rounds(dialogue)
    if not 1 <= index <= len(available):
        raise IndexError(f"{dialogue.id} has {len(available)} rounds; there is no round {index}")
    end = available[index - 1].supporter.start
    return [turn for turn in turns(dialogue) if turn.start < end]


def messages(conversation: Sequence[Turn]) -> list[dict[str, Any]]:
    """The conversation for a chat template: the seeker is the user, the supporter the assistant.

    A turn with pictures becomes a list of parts, pictures first, as vision templates expect.
    """
    chat: list[dict[str, Any]] = []
    for turn in conversation:
        role = "user" if turn.speaker == "seeker" else "assistant"
        if turn.images:
            parts: list[dict[str, Any]] = [{"type": "image", "path": path} for path in turn.images]
            chat.append({"role": role, "content": [*parts, {"type": "text", "text": turn.text}]})
        else:
            chat.append({"role": role, "content": turn.text})
    return chat
