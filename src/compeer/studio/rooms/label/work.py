"""The annotator's pages: the welcome with its warning, one item after another, skipping, undoing, own labels.

Everything works as plain forms. With a script the same addresses answer with an object that says where to go next, so
that a page whose studio is away for a moment keeps what was filled in.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Form
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from compeer.annotation import own, progress, project, queue, reliability, voting
from compeer.annotation.people import Person
from compeer.annotation.queue import Work
from compeer.annotation.store import Store
from compeer.reward.verdict import Choice
from compeer.studio.access import Refused, pictures, visit
from compeer.studio.pages import pages
from compeer.studio.rooms.label.care import lines
from compeer.studio.rooms.label.links import annotator
from compeer.studio.rooms.label.sheet import STEP_VALUES, sheet
from compeer.studio.settings import Settings

WORK, MINE, REST = "/label/work", "/label/mine", "/label/rest"
BEGUN = "compeer_label"  # cookie: this session has read the warning
REASONS = ("unclear", "language", "private", "broken", "other")

Step = Annotated[Literal["true", "false"] | None, Form()]
FormName = Annotated[str, Form(min_length=16, max_length=64)]


def add(router: APIRouter, store: Store, settings: Settings) -> Callable[[Request], Response]:
    """The routes; returns the welcome page, which lies at the room's own address."""

    def page(request: Request, template: str, **values: Any) -> Response:
        say = pages(request).say[visit(request).language]
        help_lines = lines(say, request.headers.get("accept-language", ""))
        return pages(request).page(request, f"label/{template}", lines=help_lines, **values)

    def welcome(request: Request) -> Response:
        me = annotator(store, request)
        return page(request, "welcome.html", mine=progress.mine(store, me), paused=me.paused, name=me.name)

    @router.post("/begin")
    def begin(request: Request) -> Response:
        annotator(store, request)
        answer = RedirectResponse(WORK, 303)
        answer.set_cookie(BEGUN, _mark(request), path="/label", samesite="lax", httponly=True, secure=settings.secure)
        return answer

    @router.get("/work")
    def work(request: Request, done: bool = False) -> Response:
        me = annotator(store, request)
        if request.cookies.get(BEGUN) != _mark(request):
            return RedirectResponse("/label", 303)
        found = queue.next_work(store, me)
        if found is None:
            return idle(request, me)
        return bench(request, me, found, done=done)

    def bench(request: Request, me: Person, found: Work, *, done: bool = False) -> Response:
        names = {"form": secrets.token_urlsafe(16), "undo_form": secrets.token_urlsafe(16)}
        return page(
            request,
            "work.html",
            sheet=sheet(found),
            task=found.task,
            mine=progress.mine(store, me),
            done=done,
            shown=round(time.time(), 3),
            reasons=REASONS,
            **names,
        )

    def idle(request: Request, me: Person) -> Response:
        finished = own.open_items(store, me.project) == 0
        agreed = reliability.agreement(store, me.project).questions if finished else {}
        values = {"mine": progress.mine(store, me), "paused": me.paused, "finished": finished, "agreed": agreed}
        return page(request, "idle.html", undo_form=secrets.token_urlsafe(16), **values)

    @router.get("/items/{item}")
    def look(request: Request, item: int) -> Response:
        me = annotator(store, request)
        return bench(request, me, queue.view(store, me, item))

    @router.post("/items/{item}")
    def hand_in(
        request: Request,
        item: int,
        form: FormName,
        history: Step = None,
        emotion: Step = None,
        strategy: Step = None,
        preference: Annotated[Choice | None, Form()] = None,
        note: Annotated[str, Form(max_length=voting.LONGEST_NOTE)] = "",
        seconds: Annotated[float | None, Form()] = None,
        shown: Annotated[float | None, Form()] = None,
        again: Annotated[bool, Form()] = False,
    ) -> Response:
        me = annotator(store, request)
        steps = {"history": history, "emotion": emotion, "strategy": strategy}
        answers: dict[str, Any] = {name: STEP_VALUES[said] for name, said in steps.items() if said is not None}
        if preference is not None:
            answers["preference"] = preference
        if seconds is None and shown is not None:  # no script counted them
            seconds = max(0.0, time.time() - shown)
        voting.submit(store, me, item, answers, seconds=seconds, note=note, form=form)
        return _onward(request, MINE if again else f"{WORK}?done=1")

    @router.post("/items/{item}/draft")
    def draft(request: Request, item: int, said: Annotated[dict[str, Any], Body()]) -> Response:
        me = annotator(store, request)
        answers, note, seconds = said.get("answers"), said.get("note", ""), said.get("seconds", 0.0)
        fits = isinstance(answers, Mapping) and isinstance(note, str) and isinstance(seconds, int | float)
        if not fits or not isinstance(answers, Mapping):
            raise Refused(422, "invalid", "a draft of another form")
        kept = voting.save_draft(store, me, item, answers, note=note, seconds=float(seconds))
        return JSONResponse({"saved": kept})

    @router.get("/items/{item}/skip")
    def ask_skip(request: Request, item: int) -> Response:
        me = annotator(store, request)
        queue.view(store, me, item)
        return page(request, "skip.html", item=item, form=secrets.token_urlsafe(16), reasons=REASONS)

    @router.post("/items/{item}/skip")
    def skip(
        request: Request,
        item: int,
        form: FormName,
        reason: Annotated[Literal["unclear", "language", "private", "broken", "other"], Form()] = "other",
        words: Annotated[str, Form(max_length=1000)] = "",
        distress: Annotated[bool, Form()] = False,
    ) -> Response:
        me = annotator(store, request)
        why = f"{reason}: {words.strip()}" if words.strip() else reason
        queue.skip(store, me, item, "" if distress else why, distress=distress, form=form)
        return _onward(request, REST if distress else WORK)

    @router.get("/rest")
    def rest(request: Request) -> Response:
        annotator(store, request)
        return page(request, "rest.html")

    @router.post("/undo")
    def undo(request: Request, form: FormName) -> Response:
        me = annotator(store, request)
        return _onward(request, WORK if voting.undo(store, me, form=form) is not None else None)

    @router.get("/mine")
    def mine(request: Request) -> Response:
        me = annotator(store, request)
        found = [(one, _when(one.finished)) for one in own.handed_in(store, me)]
        return page(request, "mine.html", found=found, mine=progress.mine(store, me))

    @router.get("/items/{item}/pictures/{number}")
    def picture(request: Request, item: int, number: int) -> Response:
        file = project.picture(store, annotator(store, request), item, number)
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


def _when(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
