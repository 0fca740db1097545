"""The application: rooms, the pages of the shell, and the gate around all of them.

    app = create_app(Settings(runs=(Path("runs"),)))

A room's pages are guarded by its roles here, so a page that forgets to ask is still closed to others.
"""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from compeer.studio.access.gate import Buckets, Gate
from compeer.studio.access.people import CoordinatorLink, Doors, Kind, Refused, Sessions, Tokens, needs, secret_of
from compeer.studio.front import front
from compeer.studio.pages import Pages
from compeer.studio.room import Room
from compeer.studio.settings import Settings, check

_KINDS: dict[int, Kind] = {403: "forbidden", 404: "missing", 405: "missing", 413: "large"}


def create_app(settings: Settings, rooms: Sequence[Room] | None = None) -> FastAPI:
    """The studio for these settings; UserError where they do not go together. `rooms`: others than all of them."""
    check(settings)
    if rooms is None:
        from compeer.studio.rooms import open_rooms

        rooms = open_rooms(settings)
    sessions = Sessions(secret_of(settings.secret, settings.data), secure=settings.secure)
    doors: list[Tokens] = [room.tokens for room in rooms if room.tokens]
    if settings.guarded and settings.token:
        doors.insert(0, CoordinatorLink(settings.token))
    tokens = Doors(doors) if doors else None
    app = FastAPI(title="Compeer studio", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.settings, app.state.pages = settings, Pages(rooms)
    app.include_router(front(sessions, tokens, Buckets(settings.limits.enter)))
    for room in rooms:
        if room.router is not None:
            app.include_router(room.router, prefix=room.path, dependencies=[Depends(needs(*room.roles))])
    app.add_middleware(
        Gate,
        settings=settings,
        sessions=sessions,
        tokens=tokens,
        explain=app.state.pages.explain,
        uploads=[room.path + path for room in rooms for path in room.uploads],
    )
    app.add_exception_handler(HTTPException, _told)
    app.add_exception_handler(RequestValidationError, _told)
    return app


def _told(request: Request, error: Exception) -> Response:
    """What the framework refuses itself, in our words."""
    pages: Pages = request.app.state.pages
    if isinstance(error, HTTPException):
        kind = _KINDS.get(error.status_code, "broken" if error.status_code >= 500 else "invalid")
        return pages.explain(request, Refused(error.status_code, kind, str(error.detail)))
    return pages.explain(request, Refused(422, "invalid", "a request that lacks something"))
