"""The items of a new project: an uploaded file, or a file on this machine by its name."""

from __future__ import annotations

from pathlib import Path

import msgspec
from starlette.datastructures import UploadFile

from compeer.cer.item import Item
from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.studio.rooms.workplace.files import file_named, folder_named, received
from compeer.studio.settings import Settings
from compeer.studio.words import Say


class Source(msgspec.Struct, frozen=True):
    """What a project is made from; `images` is the folder its pictures may come from."""

    items: list[Item]
    images: Path | None


def source(settings: Settings, say: Say, upload: UploadFile | None, path: str, images: str) -> Source:
    """Items that came with the form as plain JSON lines, or from a file, whose pictures lie beside it unless named."""
    if upload is not None and upload.filename:
        folder = folder_named(settings, say, images)
        with received(upload) as (file,):
            return Source(list(read_rows(file, Item)), folder)
    if not path:
        raise UserError(say("workplace.new.nothing"))
    file = file_named(settings, say, path)
    return Source(list(read_rows(file, Item)), folder_named(settings, say, images, file.parent))
