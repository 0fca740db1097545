"""The annotator's pages: the welcome with its warning, one comparison after another, skipping, undoing, the result.

Everything works as plain forms. With a script the same addresses answer with an object that says where to go next.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from compeer.annotation.people import Person
from compeer.annotation.store import Store
from compeer.annotation.voting import LONGEST_NOTE
from compeer.arena import queue
from compeer.arena.progress import mine
from compeer.arena.results import results_of
from compeer.reward.verdict import CHOICES, Choice
from compeer.studio.access import pictures, visit
from compeer.studio.pages import pages
from compeer.studio.rooms.arena.chart import chart
from compeer.studio.rooms.arena.links import annotator
from compeer.studio.rooms.label.care import lines
from compeer.studio.rooms.label.sheet import turns
from compeer.studio.settings import Settings

WORK, REST = "/arena/work", "/arena/rest"
BEGUN = "compeer_arena"  # cookie: this session has read the warning
REASONS = ("unclear", "language", "private", "broken", "other")

FormName = Annotated[str, Form(min_length=16, max_length=64)]


def add(router: APIRouter, store: Store, settings: Settings) -> Callable[[Request], Response]:
    """The routes; returns the welcome page, which lies at the room's own address."""

    def page(request: Request, template: str, **values: Any) -> Response:
        say = pages(request).say[visit(request).language]
        return pages(request).page(request, f"arena/{template}", lines=lines(say), **values)

    def welcome(request: Request) -> Response:
        me = annotator(store, request)
        return page(request, "welcome.html", mine=mine(store, me), paused=me.paused, name=me.name)

    @router.post("/begin")
    def begin(request: Request) -> Response:
        annotator(store, request)
        answer = RedirectResponse(WORK, 303)
        answer.set_cookie(BEGUN, _mark(request), path="/arena", samesite="lax", httponly=True, secure=settings.secure)
        return answer

    @router.get("/work")
    def work(request: Request, done: bool = False) -> Response:
        me = annotator(store, request)
        if request.cookies.get(BEGUN) != _mark(request):
            return RedirectResponse("/arena", 303)
        found = queue.next_comparison(store, me)
        if found is None:
            return idle(request, me)
        return page(
            request,
            "compare.html",
            work=found,
            turns=turns(found.history),
            choices=CHOICES,
            mine=mine(store, me),
            done=done,
            shown=round(time.time(), 3),
            reasons=REASONS,
            form=secrets.token_urlsafe(16),
            undo_form=secrets.token_urlsafe(16),
        )

    def idle(request: Request, me: Person) -> Response:
        own = mine(store, me)
        drawn = chart(results_of(store, me.project)) if own.over else None
        return page(request, "idle.html", mine=own, paused=me.paused, chart=drawn, undo_form=secrets.token_urlsafe(16))

    @router.post("/compare/{name}")
    def hand_in(
        request: Request,
        name: str,
        form: FormName,
        choice: Annotated[Choice, Form()],
        note: Annotated[str, Form(max_length=LONGEST_NOTE)] = "",
        seconds: Annotated[float | None, Form()] = None,
        shown: Annotated[float | None, Form()] = None,
    ) -> Response:
        me = annotator(store, request)
        if seconds is None and shown is not None:  # no script counted them
            seconds = max(0.0, time.time() - shown)
        queue.submit(store, me, name, choice, seconds=seconds, note=note, form=form)
        return _onward(request, f"{WORK}?done=1")

    @router.post("/compare/{name}/keep")
    def keep(request: Request, name: str) -> Response:
        return JSONResponse({"kept": queue.keep(store, annotator(store, request), name)})

    @router.get("/compare/{name}/skip")
    def ask_skip(request: Request, name: str) -> Response:
        me = annotator(store, request)
        queue.view(store, me, name)
        return page(request, "skip.html", name=name, form=secrets.token_urlsafe(16), reasons=REASONS)

    @router.post("/compare/{name}/skip")
    def skip(
        request: Request,
        name: str,
        form: FormName,
        reason: Annotated[Literal["unclear", "language", "private", "broken", "other"], Form()] = "other",
        words: Annotated[str, Form(max_length=1000)] = "",
        distress: Annotated[bool, Form()] = False,
    ) -> Response:
        me = annotator(store, request)
        why = f"{reason}: {words.strip()}" if words.strip() else reason
        queue.skip(store, me, name, "" if distress else why, distress=distress, form=form)
        return _onward(request, REST if distress else WORK)

    @router.get("/rest")
    def rest(request: Request) -> Response:
        annotator(store, request)
        return page(request, "rest.html")

    @router.post("/undo")
    def undo(request: Request, form: FormName) -> Response:
        me = annotator(store, request)
        return _onward(request, WORK if queue.undo(store, me, form=form) is not None else None)

    @router.get("/compare/{name}/pictures/{number}")
    def picture(request: Request, name: str, number: int) -> Response:
        file = queue.picture(store, annotator(store, request), name, number)
        return pictures.picture([file.name], 0, file.parent)

    return welcome


def _mark(request: Request) -> str:
    """This session has read the warning; another one, even in the same browser, has not."""
    return hashlib.sha256(b"warned " + visit(request).session.number.encode()).hexdigest()[:24]


def _onward(request: Request, where: str | None) -> Response:
    """A redirect for a plain form, and for a script where to go; None: there was nothing to do."""
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(where or WORK, 303)
    return JSONResponse({"next": where})
