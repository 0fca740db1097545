"""What the page's script asks for, checked, and how much of it there may be."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from compeer.chat import Conversation
from compeer.reasoning import Pins
from compeer.reasoning.schema import KEYS
from compeer.studio.rooms.talk.trouble import Trouble

#: characters of a message, messages of a conversation, answers to one message
LONGEST, TURNS, ANSWERS = 6000, 300, 12

Labels = dict[str, str | int]


class Say(msgspec.Struct):
    """A new message. `seen`: how many turns the page shows."""

    text: str
    seen: int
    pictures: list[str] = []

    def words(self) -> str:
        text = self.text.strip()
        if not text or len(text) > LONGEST:
            raise Trouble("message", 422, most=LONGEST)
        return text


class Again(msgspec.Struct):
    """Another answer to the last message, with these conclusions fixed."""

    seen: int
    pins: Labels = {}


class Edit(msgspec.Struct):
    """A step in the person's words, and conclusions of it that they fix."""

    seen: int
    step: str
    text: str
    labels: Labels = {}

    def __post_init__(self) -> None:
        if not self.labels.keys() <= KEYS.keys():
            raise ValueError("unknown labels")


class Choose(msgspec.Struct):
    """One of several: an earlier answer, or a model."""

    seen: int
    which: int


class Fix(msgspec.Struct):
    """Every conclusion that is fixed from now on; what is not named is released."""

    pins: Labels


class Where(msgspec.Struct):
    """Whose helplines to show; None: of several countries."""

    country: str | None


def room_for_a_turn(conversation: Conversation) -> None:
    if len(conversation.turns) >= TURNS:
        raise Trouble("turns", most=TURNS)


def room_for_an_answer(conversation: Conversation) -> None:
    if conversation.turns and len(conversation.turns[-1].others) + 1 >= ANSWERS:
        raise Trouble("answers", most=ANSWERS)


def merged(pins: Pins, more: Mapping[str, str | int]) -> Pins:
    """Pins for one answer on top of those that hold always; a new emotion brings its own sentiment.

    >>> merged(Pins(sentiment="negative"), {"emotion": "joy"}).items()
    [('emotion', 'joy')]
    """
    new = Pins.of(more)
    kept = {key: value for key, value in pins.items() if not (new.emotion and key == "sentiment")}
    return Pins.of(kept | dict(new.items()))
