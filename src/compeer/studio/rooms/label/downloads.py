"""Labels as files: CER items as JSON lines, a folder for Label Studio or Potato as a zip."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from fastapi import APIRouter
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from compeer.annotation.export import labelled
from compeer.annotation.formats import label_studio, potato
from compeer.annotation.project import Project
from compeer.annotation.store import Store
from compeer.cer.item import Item
from compeer.studio.rooms.workplace.door import Door
from compeer.studio.rooms.workplace.files import disposition

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
