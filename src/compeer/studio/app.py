"""The application: rooms, the pages that belong to none of them, and the gate around all.

    app = create_app(StudioSettings(runs=(Path("runs"),)))

A room's pages are guarded by its roles here, so a page that forgets to ask is still closed to others.

Opening a personal link changes nothing, because programs that preview links open them too. Only the button on its page
signs in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Form
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from compeer.reasoning.ontology import LANGUAGES
from compeer.studio.access import people
from compeer.studio.access.gate import Buckets, Gate
from compeer.studio.pages import Pages, pages
from compeer.studio.room import Room
from compeer.studio.settings import StudioSettings, check

YEAR = 365 * 86400
_KINDS: dict[int, people.RefusalKind] = {403: "forbidden", 404: "missing", 405: "missing", 413: "large"}


def create_app(settings: StudioSettings, rooms: Sequence[Room] | None = None) -> FastAPI:
    """The studio for these settings; UserError where they do not go together. `rooms`: all of them by default."""
    check(settings)
    if rooms is None:
        from compeer.studio.rooms import open_rooms

        rooms = open_rooms(settings)
    sessions = people.Sessions(people.secret_of(settings.secret, settings.data), secure=settings.secure)
    sources: list[people.LinkSource] = [room.links for room in rooms if room.links]
    if settings.guarded and settings.token:
        sources.insert(0, people.CoordinatorLink(settings.token))
    links = people.LinkSources(sources) if sources else None
    app = FastAPI(title="Compeer studio", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.settings, app.state.pages = settings, Pages(rooms)
    app.include_router(shell_pages(sessions, links, Buckets(settings.limits.enter)))
    for room in rooms:
        if room.router is not None:
            app.include_router(room.router, prefix=room.path, dependencies=[Depends(people.needs(*room.roles))])
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
    return app


def _explain(request: Request, error: Exception) -> Response:
    """What the framework itself refuses, as a page of ours."""
    if isinstance(error, HTTPException):
        kind = _KINDS.get(error.status_code, "broken" if error.status_code >= 500 else "invalid")
        return pages(request).explain(request, people.RequestRefused(error.status_code, kind, str(error.detail)))
    return pages(request).explain(request, people.RequestRefused(422, "invalid", "a request that lacks something"))


def shell_pages(sessions: people.Sessions, links: people.LinkSource | None, wrong_links: Buckets) -> APIRouter:
    """Home, signing in and out, theme and language, static files. `wrong_links` limits guessing from one address."""
    router = APIRouter()

    @router.get("/")
    def home(request: Request) -> Response:
        someone = people.visit(request).person
        if someone is not None and someone.home != "/":  # invited to do something: there
            return RedirectResponse(someone.home, 303)
        return pages(request).page(request, "home.html")

    @router.get("/static/{name:path}")
    def static(request: Request, name: str) -> Response:
        return pages(request).assets.response(name)

    def verified(request: Request, token: str) -> people.StudioPerson | None:
        """Whose link this is; refused when it is nobody's, or after too many that were."""
        if links is None:
            return None
        address = people.visit(request).address
        if seconds := wrong_links.wait(address):
            raise people.RequestRefused(429, "busy", "too many tries of personal links", wait=seconds)
        found = links.verify(token)
        if found is None:  # a right link does not count: forty people may sign in at once from one address
            wrong_links.take(address)
            raise people.RequestRefused(403, "bad_link", "a personal link that is not known")
        return found

    @router.get("/enter/{token}")
    def ask(request: Request, token: str) -> Response:
        """Asks before it signs in. Where somebody else is signed in, it says who, and offers to switch or to stay."""
        now = people.visit(request)
        link = verified(request, token) if now.session.person and now.person else None
        if link is not None and now.person is not None and link.id != now.person.id:
            return pages(request).page(request, "enter.html", token=token, link=link)
        return pages(request).page(request, "enter.html", token=token, link=None)

    @router.post("/enter")
    def enter(request: Request, token: Annotated[str, Form()]) -> Response:
        found, now = verified(request, token), people.visit(request)
        # whoever is signed in already keeps the session, so that forms on their open pages still work
        if found is not None and (now.person is None or now.person != found):
            now.session = sessions.new(found)
        return RedirectResponse("/", 303)

    @router.post("/leave")
    def leave(request: Request) -> Response:
        people.visit(request).session = sessions.new()
        return RedirectResponse("/", 303)

    @router.post("/look")
    def look(
        request: Request,
        back: Annotated[str, Form()] = "/",
        theme: Annotated[str | None, Form()] = None,
        language: Annotated[str | None, Form()] = None,
    ) -> Response:
        response = RedirectResponse(inside(back), 303)
        for name, value, known in (
            (people.THEME_COOKIE, theme, people.THEMES),
            (people.LANGUAGE_COOKIE, language, LANGUAGES),
        ):
            if value in known and value is not None:
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
