"""Votes, results and the figure as files, for the coordinator."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from compeer.annotation.store import Store
from compeer.arena.ballots import ballots
from compeer.arena.figure import png, svg
from compeer.arena.project import Arena
from compeer.arena.results import results_of
from compeer.studio.rooms.workplace.door import Door
from compeer.studio.rooms.workplace.files import disposition

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
