"""The application (rooms, the pages that belong to none of them, the gate around all), and running it.

    app = create_app(StudioSettings(runs=(Path("runs"),)))

A room's pages are guarded by its roles here, so a page that forgets to ask is still closed to others.

Opening a personal link changes nothing, because programs that preview links open them too. Only the button on its page
signs in.

The port is bound before anything is served, so a port in use gives a sentence and no traceback. On Ctrl-C or SIGTERM no
new requests are accepted and those in flight get some seconds; a second Ctrl-C ends at once.
"""

from __future__ import annotations

import logging
import secrets
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Annotated

import msgspec
import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Form
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from compeer.errors import UserError
from compeer.reasoning.ontology import LANGUAGES
from compeer.studio import access
from compeer.studio.access import Links, RequestRefused, Sessions, StudioPerson, visit
from compeer.studio.gate import LOG, Buckets, Gate
from compeer.studio.pages import Pages, Room, pages
from compeer.studio.rooms import open_rooms
from compeer.studio.settings import StudioSettings, check, is_loopback, origin

YEAR = 365 * 86400
GRACE = 8  # seconds
_KINDS: dict[int, access.RefusalKind] = {403: "forbidden", 404: "missing", 405: "missing", 413: "large"}


def create_app(settings: StudioSettings, rooms: Sequence[Room] | None = None) -> FastAPI:
    """The studio for these settings; UserError where they do not go together. `rooms`: all of them by default."""
    check(settings)
    rooms = open_rooms(settings) if rooms is None else rooms
    sessions = Sessions(access.secret_of(settings.data), secure=settings.secure)
    links = Links(settings.token if settings.guarded else None, [room.links for room in rooms if room.links])
    app = FastAPI(title="Compeer studio", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.settings, app.state.pages = settings, Pages(rooms)
    app.include_router(shell_pages(sessions, links, Buckets(settings.limits.enter)))
    for room in rooms:
        if room.router is not None:
            app.include_router(room.router, prefix=room.path, dependencies=[Depends(access.needs(*room.roles))])
    app.add_middleware(
        Gate,
        settings=settings,
        sessions=sessions,
        links=links,
        explain=app.state.pages.explain,
        uploads=[room.path + path for room in rooms for path in room.uploads],
    )
    app.add_exception_handler(HTTPException, _explain)
    app.add_exception_handler(RequestValidationError, _explain)
    app.add_exception_handler(UserError, _explain_in_room)
    return app


def _explain(request: Request, error: Exception) -> Response:
    """An error page for a request that the framework refuses."""
    refusal = RequestRefused(422, "invalid", "a request that lacks something")
    if isinstance(error, HTTPException):
        kind = _KINDS.get(error.status_code, "broken" if error.status_code >= 500 else "invalid")
        refusal = RequestRefused(error.status_code, kind, str(error.detail))
    return pages(request).explain(request, refusal)


def _explain_in_room(request: Request, error: Exception) -> Response:
    """The answer of a room to a UserError that its pages raise."""
    room = pages(request).room_of(request)
    if room is None or room.explain is None or not isinstance(error, UserError):
        raise error
    return room.explain(request, error)


def shell_pages(sessions: Sessions, links: Links, wrong_links: Buckets) -> APIRouter:
    """Home, signing in and out, theme and language, static files. `wrong_links` limits guessing from one address."""
    router = APIRouter()

    @router.get("/")
    def home(request: Request) -> Response:
        someone = visit(request).person
        if someone is not None and someone.home != "/":  # invited to do something: there
            return RedirectResponse(someone.home, 303)
        return pages(request).page(request, "home.html")

    @router.get("/static/{name:path}")
    def static(request: Request, name: str) -> Response:
        return pages(request).static(name)

    def verified(request: Request, token: str) -> StudioPerson:
        """The owner of a link. Unknown links are refused, and after too many of them any link from the address."""
        address = visit(request).address
        if seconds := wrong_links.wait(address):
            raise RequestRefused(429, "busy", "too many tries of personal links", wait=seconds)
        found = links.verify(token)
        if found is None:  # a right link does not count: forty people may sign in at once from one address
            wrong_links.take(address)
            raise RequestRefused(403, "bad_link", "a personal link that is not known")
        return found

    @router.get("/enter/{token}")
    def ask(request: Request, token: str) -> Response:
        """Asks before it signs in. Where somebody else is signed in, it says who, and offers to switch or to stay."""
        now = visit(request)
        link = verified(request, token) if now.session.person and now.person else None
        other = link if link is not None and now.person is not None and link.id != now.person.id else None
        return pages(request).page(request, "enter.html", token=token, link=other)

    @router.post("/enter")
    def enter(request: Request, token: Annotated[str, Form()]) -> Response:
        found, now = verified(request, token), visit(request)
        if now.person != found:  # who is signed in already keeps the session, and so the forms on their open pages
            now.session = sessions.new(found)
        return RedirectResponse("/", 303)

    @router.post("/leave")
    def leave(request: Request) -> Response:
        visit(request).session = sessions.new()
        return RedirectResponse("/", 303)

    @router.post("/look")
    def look(
        request: Request,
        back: Annotated[str, Form()] = "/",
        theme: Annotated[str, Form()] = "",
        language: Annotated[str, Form()] = "",
    ) -> Response:
        response = RedirectResponse(inside(back), 303)
        for name, value, known in (
            (access.THEME_COOKIE, theme, access.THEMES),
            (access.LANGUAGE_COOKIE, language, LANGUAGES),
        ):
            if value in known:
                response.set_cookie(name, value, max_age=YEAR, samesite="lax", httponly=True, secure=sessions.secure)
        return response

    return router


def inside(address: str) -> str:
    """An address within the studio, or the home page: no form sends anyone elsewhere.

    >>> inside("/runs?page=2"), inside("//evil.org"), inside("https://evil.org"), inside("/\\\\evil.org")
    ('/runs?page=2', '/', '/', '/')
    """
    plain = address.startswith("/") and not address.startswith("//") and "\\" not in address
    return address if plain and address.isprintable() else "/"


def serve(settings: StudioSettings) -> None:
    """Run until stopped. A token for the coordinator's link is made when one is needed and none is given."""
    if settings.guarded and settings.token is None:
        settings = msgspec.structs.replace(settings, token=secrets.token_urlsafe(24))
    app = create_app(settings)
    listening = bind(settings.host, settings.port)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%d %H:%M:%S"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        # only a proxy on this machine may say for whom it asks
        proxy_headers=settings.guarded and is_loopback(settings.host),
        forwarded_allow_ips="127.0.0.1,::1",
        timeout_graceful_shutdown=GRACE,
    )
    for line in announcement(settings, listening.getsockname()[1]):
        print(line, flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn takes them over, and sends them again at its end
        signal.signal(number, lambda *_: None)
    uvicorn.Server(config).run(sockets=[listening])


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; UserError when the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named as TCP: asyncio turns Nagle's algorithm off only then; with it every response waits 40 ms
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise UserError(f"The studio cannot listen on {host} port {port}: {reason}. Give another --port.") from None
    return listening


def announcement(settings: StudioSettings, port: int) -> list[str]:
    """The lines that are printed at the start."""
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    if settings.public is None:
        return [f"The studio is open at http://{shown}:{port}", "Only this machine can reach it. Ctrl-C stops it."]
    address = origin(settings.public)
    lines = [
        f"The studio listens on {shown}:{port} for {address}",
        "Everyone needs a personal link. Yours, as the coordinator:",
        f"  {address}/enter/{settings.token}",
        "Keep it to yourself; a restart makes a new one unless $COMPEER_STUDIO_TOKEN is set.",
    ]
    if not settings.secure:
        lines.append("Warning: plain http can be read by others on the way. Put the studio behind https.")
    return lines
