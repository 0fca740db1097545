"""The pages that every workplace has on one router, so that what the store refuses is told everywhere alike."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from compeer.studio.access.people import person
from compeer.studio.rooms.workplace.annotator import Bench
from compeer.studio.rooms.workplace.coordinate import Coordination
from compeer.studio.rooms.workplace.links import Told


def workplace(bench: Bench, coordination: Coordination[Any]) -> APIRouter:
    """A router with what both rooms have; a room adds its own pages to it."""
    router = APIRouter(route_class=Told)
    bench.add(router)

    @router.get("")
    def first(request: Request) -> Response:
        """What a coordinator coordinates, or an annotator's welcome."""
        coordinates = person(request).role == "coordinator"
        return coordination.listed(request) if coordinates else bench.welcome(request)

    return router
