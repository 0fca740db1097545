"""What a room is: a name, pages, texts, and who may enter; and what several rooms share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
from fastapi import APIRouter

from compeer.studio.access.people import LinkSource, Role
from compeer.studio.words import Words, read_words


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Templates, files for the browser and texts under one name, for the pages of one room or of several.

    They are in the part's folder: templates/, static/ and JSON files of texts.
    """

    name: str
    folder: Path

    @property
    def words(self) -> Words:
        return read_words(self.folder)


class Room(Part, frozen=True, kw_only=True):
    """One room of the studio.

    Its pages are under /NAME. Its texts have at least NAME.name, NAME.about and NAME.off, the sentence that says what
    is missing in a studio where the room is closed.
    """

    router: APIRouter | None  # None: closed in this studio
    roles: tuple[Role, ...]
    links: LinkSource | None = None  # personal links that this room hands out
    uploads: tuple[str, ...] = ()  # paths below the room's, such as "/picture", that accept more than a form
    uses: tuple[Part, ...] = ()  # what it shares with other rooms

    @property
    def path(self) -> str:
        return f"/{self.name}"


def parts_of(rooms: Iterable[Room]) -> list[Part]:
    """The rooms and what they share, each once."""
    return list({part.name: part for room in rooms for part in (*room.uses, room)}.values())
