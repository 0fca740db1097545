"""Rounds: what the paper counts, samples and answers.

Consecutive utterances of one speaker are one turn. A round is a supporter turn with what the seeker
said just before it; a dialogue has as many rounds as supporter turns. The history of round i is every
turn before its supporter turn.

Also here, because every part needs them: `messages` makes chat messages of turns, and `trim` shortens a conversation
to what a model can read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from compeer.dialogue.record import Dialogue, Speaker, Utterance
from compeer.reasoning.ontology import words

AnyTurn = TypeVar("AnyTurn")


class Spoken(Protocol):
    """What `messages` needs of a turn: `Turn` has it, and so has a turn in the history of a CER item."""

    @property
    def speaker(self) -> Speaker: ...
    @property
    def text(self) -> str: ...
    @property
    def images(self) -> tuple[str, ...]: ...


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
        """The distinct strategies of the merged utterances, in order."""
        return tuple(dict.fromkeys(u.strategy for u in self.utterances if u.strategy))


class Round(msgspec.Struct, frozen=True):
    """A supporter turn, and what was said before it."""

    index: int  # 1-based, as in equation 1
    turns: list[Turn]  # of the whole dialogue
    place: int  # of the supporter turn among them

    @property
    def supporter(self) -> Turn:
        return self.turns[self.place]

    @property
    def history(self) -> list[Turn]:
        return self.turns[: self.place]

    @property
    def seeker(self) -> Turn | None:
        """The turn that is answered; None where the supporter opens."""
        return self.turns[self.place - 1] if self.place else None


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
    merged = turns(dialogue)
    places = (place for place, turn in enumerate(merged) if turn.speaker == "supporter")
    return [Round(index, merged, place) for index, place in enumerate(places, start=1)]


def messages(
    conversation: Sequence[Spoken], *, images: bool = True, folder: Path | None = None
) -> list[dict[str, Any]]:
    """Turns as chat messages: the seeker is the user, the supporter the assistant.

    A turn with images becomes a list of parts, images first, as vision templates expect. `images=False` leaves them
    out, for a model that cannot see. `folder` is what relative image paths are relative to.

    >>> messages([Turn("seeker", (Utterance(speaker="seeker", text="I lost my job."),), 0)])
    [{'role': 'user', 'content': 'I lost my job.'}]
    """
    chat: list[dict[str, Any]] = []
    for turn in conversation:
        content: Any = turn.text
        if images and turn.images:
            paths = [str(folder / path) if folder else path for path in turn.images]
            parts: list[dict[str, Any]] = [{"type": "image", "path": path} for path in paths]
            content = [*parts, {"type": "text", "text": turn.text}]
        chat.append({"role": "user" if turn.speaker == "seeker" else "assistant", "content": content})
    return chat


def trim(
    conversation: Sequence[AnyTurn],
    fits: Callable[[Sequence[AnyTurn]], bool],
    starts: Callable[[AnyTurn], bool] | None = None,
) -> Sequence[AnyTurn]:
    """The longest end of a conversation that fits: the oldest turns are left out first, the last one never.

    `fits` tells whether an end is short enough (words, tokens of a rendered prompt, …); a shorter end of one that fits
    must fit too, because the search halves. `starts` tells whether a shortened conversation may begin with a turn;
    many chat templates want the user first, so the default asks for a seeker's turn where there is one. The last turn
    is returned even when it does not fit: only the caller knows whether to cut or refuse it.

    >>> trim("abcde", lambda end: len(end) <= 3, starts=lambda letter: letter != "c")
    'de'
    """
    if not conversation or fits(conversation):
        return conversation
    begins = starts or _by_seeker
    last = len(conversation) - 1
    places = [place for place in range(1, last) if begins(conversation[place])] + [last]
    first = bisect_left(places[:-1], True, key=lambda place: fits(conversation[place:]))
    return conversation[places[first] :]


def within_words(limit: int) -> Callable[[Sequence[Spoken]], bool]:
    """For `trim`: whether turns have at most so many words; a Chinese character is a word."""
    return lambda conversation: sum(len(words(turn.text)) for turn in conversation) <= limit


def _by_seeker(turn: Any) -> bool:
    return bool(turn.speaker == "seeker")
