"""What a room is: a name, pages, words, and who may enter. And what rooms have in common: parts that several use."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import msgspec
from fastapi import APIRouter

from compeer.studio.access.people import Role, Tokens
from compeer.studio.words import Words


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Templates, files for the browser and words under one name, for the pages of one room or of several."""

    name: str
    package: ModuleType  # templates/ and static/ are looked for beside it
    words: Words

    @property
    def folder(self) -> Path:
        return Path(str(self.package.__file__)).parent


class Room(Part, frozen=True, kw_only=True):
    """One room of the studio.

    Its pages lie under /NAME. Its words hold at least NAME.name, NAME.about and NAME.off, the sentence that says what
    is missing on an instance where the room is closed.
    """

    router: APIRouter | None  # None: closed on this instance
    roles: tuple[Role, ...]
    tokens: Tokens | None = None  # personal links that this room hands out
    uploads: tuple[str, ...] = ()  # paths below the room's, such as "/picture", that take more than a form
    uses: tuple[Part, ...] = ()  # what it shares with other rooms

    @property
    def path(self) -> str:
        return f"/{self.name}"


def parts_of(rooms: Iterable[Room]) -> list[Part]:
    """The rooms and what they share, each once."""
    return list({part.name: part for room in rooms for part in (*room.uses, room)}.values())
