"""A conversation as the pages of people at work show it: turns, with pictures counted through."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from compeer.cer.item import Said


class Shown(msgspec.Struct, frozen=True):
    """One turn; pictures by their number in the conversation."""

    speaker: str
    text: str
    pictures: tuple[int, ...]


def turns(history: Sequence[Said]) -> list[Shown]:
    shown, next_picture = [], 0
    for turn in history:
        numbers = tuple(range(next_picture, next_picture + len(turn.images)))
        next_picture += len(turn.images)
        shown.append(Shown(turn.speaker, turn.text, numbers))
    return shown
