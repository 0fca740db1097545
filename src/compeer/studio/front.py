"""The pages that belong to no room: home, entering with a personal link, leaving, how it looks.

Opening a personal link changes nothing: programs that preview links open them too. Only the button on its page enters.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from compeer.reasoning.ontology import LANGUAGES
from compeer.studio.access.gate import Buckets
from compeer.studio.access.people import LANGUAGE_COOKIE, THEME_COOKIE, THEMES, Refused, Sessions, Tokens, visit
from compeer.studio.pages import pages

YEAR = 365 * 86400


def front(sessions: Sessions, tokens: Tokens | None, tries: Buckets) -> APIRouter:
    """`tries` bounds how often one address may guess at links; one that is right does not count."""
    router = APIRouter()

    @router.get("/")
    def home(request: Request) -> Response:
        return pages(request).page(request, "home.html")

    @router.get("/static/{name:path}")
    def static(request: Request, name: str) -> Response:
        return pages(request).assets.response(name)

    @router.get("/enter/{token}")
    def knock(request: Request, token: str) -> Response:
        return pages(request).page(request, "enter.html", token=token)

    @router.post("/enter")
    async def enter(request: Request, token: Annotated[str, Form()]) -> Response:
        if tokens is not None:
            address = visit(request).address
            if seconds := tries.wait(address):
                raise Refused(429, "busy", "too many tries of personal links", wait=seconds)
            found = await run_in_threadpool(tokens.verify, token)
            if found is None:  # only now: forty people may come in at once from one address
                tries.take(address)
                raise Refused(403, "bad_link", "a personal link that is not known")
            visit(request).session = sessions.new(found)
        return RedirectResponse("/", 303)

    @router.post("/leave")
    def leave(request: Request) -> Response:
        visit(request).session = sessions.new()
        return RedirectResponse("/", 303)

    @router.post("/look")
    def look(
        request: Request,
        back: Annotated[str, Form()] = "/",
        theme: Annotated[str | None, Form()] = None,
        language: Annotated[str | None, Form()] = None,
    ) -> Response:
        answer = RedirectResponse(inside(back), 303)
        for name, value, known in ((THEME_COOKIE, theme, THEMES), (LANGUAGE_COOKIE, language, LANGUAGES)):
            if value in known and value is not None:
                answer.set_cookie(name, value, max_age=YEAR, samesite="lax", httponly=True, secure=sessions.secure)
        return answer

    return router


def inside(address: str) -> str:
    """An address within the studio, or the first page: nobody is sent elsewhere by a form.

    >>> inside("/runs?page=2"), inside("//evil.org"), inside("https://evil.org"), inside("/\\\\evil.org")
    ('/runs?page=2', '/', '/', '/')
    """
    plain = address.startswith("/") and not address.startswith("//") and "\\" not in address
    return address if plain and address.isprintable() else "/"
