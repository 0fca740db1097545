"""What a room is: a name, pages, words, and who may enter."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import msgspec
from fastapi import APIRouter

from compeer.studio.access.person import Role, Tokens
from compeer.studio.words import Words


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """One room of the studio.

    Its pages lie under /NAME. Its words hold at least NAME.name, NAME.about and NAME.off, the sentence that says what
    is missing on an instance where the room is closed.
    """

    name: str
    package: ModuleType  # templates/ and static/ are looked for beside it
    words: Words
    router: APIRouter | None  # None: closed on this instance
    roles: tuple[Role, ...]
    tokens: Tokens | None = None  # personal links that this room hands out
    uploads: tuple[str, ...] = ()  # paths below the room's, such as "/picture", that take more than a form

    @property
    def folder(self) -> Path:
        return Path(str(self.package.__file__)).parent

    @property
    def path(self) -> str:
        return f"/{self.name}"
