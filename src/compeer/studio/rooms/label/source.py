"""The items of a new project: an uploaded file, or a file on this machine by its name.

By name everything may be read where whoever asks sits at this machine. Behind a public address only what lies in the
folders that the studio was given with --items, links followed; and pictures only from there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import BinaryIO

import msgspec

from compeer.cer.item import Item
from compeer.dialogue import read_rows
from compeer.dialogue.jsonl import RecordError
from compeer.errors import UserError
from compeer.studio.settings import Settings
from compeer.studio.words import Say


class Source(msgspec.Struct, frozen=True):
    """What a project is made from; `images` is the folder its pictures may come from."""

    items: list[Item]
    images: Path | None


def named(settings: Settings, say: Say, path: str, images: str) -> Source:
    """Items from a file on this machine. Pictures lie beside it unless a folder is named."""
    file = _allowed(settings, say, path)
    if not file.is_file():
        raise UserError(say("label.new.no_file", path=path))
    folder = _allowed(settings, say, images) if images else file.parent
    return Source(_items(file), folder)


def uploaded(settings: Settings, say: Say, upload: BinaryIO, name: str, images: str) -> Source:
    """Items that came with the form, as plain JSON lines."""
    folder = _allowed(settings, say, images) if images else None
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "items.jsonl"
        file.write_bytes(upload.read())
        try:
            return Source(_items(file), folder)
        except RecordError as error:  # under the name that the coordinator knows
            raise RecordError(name or "items", error.line, error.reason, error.record) from None


def _items(file: Path) -> list[Item]:
    return list(read_rows(file, Item))


def _allowed(settings: Settings, say: Say, path: str) -> Path:
    try:
        found = Path(path).expanduser().resolve()
    except (OSError, ValueError, RuntimeError):
        raise UserError(say("label.new.no_file", path=path)) from None
    inside = any(found.is_relative_to(folder.resolve()) for folder in settings.items)
    if settings.guarded and not inside:
        folders = ", ".join(map(str, settings.items)) or say("label.new.no_folder")
        raise UserError(say("label.new.outside", folders=folders))
    return found
