"""All pages of the room on one router, so that what the store refuses is told everywhere in the same way."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from compeer.annotation.store import Store
from compeer.studio.access.roles import person
from compeer.studio.rooms.arena.arenas import add as add_arenas
from compeer.studio.rooms.arena.downloads import add as add_downloads
from compeer.studio.rooms.arena.told import Told
from compeer.studio.rooms.arena.work import add as add_work
from compeer.studio.settings import Settings


def routes(store: Store, settings: Settings) -> APIRouter:
    router = APIRouter(route_class=Told)
    welcome = add_work(router, store, settings)
    shelf = add_arenas(router, store, settings)
    add_downloads(router, store)

    @router.get("")
    def first(request: Request) -> Response:
        """The coordinator's arenas, or an annotator's welcome."""
        return shelf(request) if person(request).role == "coordinator" else welcome(request)

    return router
