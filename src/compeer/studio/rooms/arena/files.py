"""The cases and replies of a new arena: uploaded files, or files on this machine by their names.

Votes, results and the figure as files, for the coordinator.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
from fastapi import APIRouter
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from compeer.errors import UserError
from compeer.people.arena_cases import Case, Reply, read_cases, read_replies
from compeer.people.arena_figure import png, svg
from compeer.people.arena_project import Arena
from compeer.people.arena_results import ballots, results_of
from compeer.people.store import Store
from compeer.studio.rooms.workplace.coordinate import allowed, disposition, file_named, folder_named, received
from compeer.studio.rooms.workplace.links import Door
from compeer.studio.settings import Settings
from compeer.studio.words import Say


class Source(msgspec.Struct, frozen=True):
    """What an arena is made from; `images` is the folder its pictures may come from."""

    cases: list[Case]
    replies: list[Reply]
    images: Path | None


def named(settings: Settings, say: Say, cases: str, replies: str, images: str) -> Source:
    """Files on this machine: the cases, and replies, one file or folder a line."""
    if not cases:
        raise UserError(say("workplace.new.nothing"))
    file = file_named(settings, say, cases)
    found: list[Path] = []
    for line in filter(None, map(str.strip, replies.splitlines())):
        path = allowed(settings, say, line)
        found += sorted(path.glob("*.jsonl")) if path.is_dir() else [file_named(settings, say, line)]
    if not found:
        raise UserError(say("arena.new.no_replies"))
    folder = folder_named(settings, say, images, file.parent)
    # what stands beside the replies of a folder, such as what failed, has a longer ending
    plain = [path for path in found if path.name.count(".jsonl") == 1 and ".rejects" not in path.name]
    return Source(read_cases(file), read_replies(plain), folder)


def uploaded(settings: Settings, say: Say, cases: UploadFile, replies: Sequence[UploadFile], images: str) -> Source:
    """Files that came with the form."""
    folder = folder_named(settings, say, images)
    sent = [one for one in replies if one.filename]
    if not sent:
        raise UserError(say("arena.new.no_replies"))
    with received(cases, *sent) as (first, *others):
        return Source(read_cases(first), read_replies(others), folder)


Kind = Literal["votes.jsonl", "results.json", "figure.svg", "figure.png"]


def add(router: APIRouter, store: Store, door: Door[Arena]) -> None:
    @router.get("/arenas/{number}/files/{kind}")
    def file(request: Request, number: int, kind: Kind, anonymous: bool = False) -> Response:
        found = door.coordinated(request, number)
        if kind == "votes.jsonl":
            rows = ballots(store, number, anonymous=anonymous)
            data = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        elif kind == "results.json":
            data = msgspec.json.format(msgspec.json.encode(results_of(store, number)))
        elif kind == "figure.svg":
            data = svg(results_of(store, number)).encode()
        else:
            with tempfile.TemporaryDirectory() as home:
                png(results_of(store, number), Path(home) / kind)
                data = (Path(home) / kind).read_bytes()
        media = {"votes.jsonl": "application/jsonl", "results.json": "application/json",
                 "figure.svg": "image/svg+xml", "figure.png": "image/png"}  # fmt: skip
        headers = {"content-disposition": disposition(f"{found.name}-{kind}")}
        return Response(data, media_type=media[kind], headers=headers)
