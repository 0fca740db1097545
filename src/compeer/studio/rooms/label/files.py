"""The items of a new project: an uploaded file, or a file on this machine by its name.

Labels as files: CER items as JSON lines, a folder for Label Studio or Potato as a zip.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from fastapi import APIRouter
from starlette.background import BackgroundTask
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from compeer.cer.item import Item, image_folder, read_items
from compeer.errors import UserError
from compeer.people import label_studio, potato
from compeer.people.exchange import labelled
from compeer.people.labelling_project import Project
from compeer.people.store import Store
from compeer.studio.rooms.workplace.coordinate import allowed, disposition, folder_named, received
from compeer.studio.rooms.workplace.links import Door
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
            return Source(list(read_items(file, resolve_images=False)), folder)
    if not path:
        raise UserError(say("workplace.new.nothing"))
    file = allowed(settings, say, path)
    if not file.exists():
        raise UserError(say("workplace.new.no_file", path=path))
    items = list(read_items(file, resolve_images=False))
    return Source(items, folder_named(settings, say, images, image_folder(file)))


Format = Literal["cer", "label-studio", "potato"]


def add(router: APIRouter, store: Store, door: Door[Project]) -> None:
    @router.get("/projects/{number}/export/{form}")
    def export(
        request: Request, number: int, form: Format, everything: bool = False, anonymous: bool = False
    ) -> Response:
        found = door.coordinated(request, number)
        items = labelled(store, number, everything=everything or form != "cer", anonymous=anonymous)
        if form == "cer":
            headers = {"content-disposition": disposition(f"{found.name}.jsonl")}
            return StreamingResponse(_lines(items), media_type="application/jsonl", headers=headers)
        return _zipped(found, items, form)


def _lines(items: Iterable[Item]) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    for item in items:
        yield encoder.encode(item) + b"\n"


def _zipped(project: Project, items: Iterable[Item], form: Format) -> Response:
    """A folder as a zip, written beside it and removed once it is sent."""
    home = tempfile.mkdtemp()
    try:
        folder = Path(home) / form
        if form == "label-studio":
            label_studio.write(folder, items, project.seed)
        else:
            potato.write(folder, items, project.seed, title=project.name)
        packed = shutil.make_archive(str(Path(home) / "packed"), "zip", home, form)
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    tidy = BackgroundTask(shutil.rmtree, home, ignore_errors=True)
    headers = {"content-disposition": disposition(f"{project.name}-{form}.zip")}
    return FileResponse(packed, media_type="application/zip", headers=headers, background=tidy)
