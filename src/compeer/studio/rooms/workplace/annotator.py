"""The annotator's pages: what waits for them, the warning, one task after another, skipping, undoing, a rest, pictures.

Everything works as plain forms. For a script the same addresses answer with an object that says where to go next, so a
page whose studio is away for a moment keeps what was filled in.

A room subclasses `AnnotatorPages`: what its tasks show; how they are submitted is its own, because answers differ.
Every page shows helplines: annotators read painful things.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from fastapi import APIRouter, Depends, Form
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from compeer.http_service import picture_type
from compeer.people.arena import ArenaQueue
from compeer.people.invitations import Person
from compeer.people.labelling import LabellingQueue
from compeer.people.projects import ProjectKind, project_by_number
from compeer.people.work_queue import LONGEST_NOTE, WorkQueue
from compeer.studio.access import RequestRefused, visit
from compeer.studio.pages import pages
from compeer.studio.rooms.workplace.links import ROOM_OF, RoomLinks
from compeer.studio.settings import StudioSettings

LARGEST_PICTURE = 32 << 20

Reason = Literal["unclear", "language", "private", "broken", "other"]
REASONS: tuple[Reason, ...] = get_args(Reason)

#: fields that the forms of these pages send
FormName = Annotated[str, Form(min_length=16, max_length=64)]
Note = Annotated[str, Form(max_length=LONGEST_NOTE)]
Seconds = Annotated[float | None, Form()]


class AnnotatorPages(ABC):
    """The pages of one room on which people work through its queue."""

    things: ClassVar[str]  # the part of the address before a task's own

    def __init__(self, links: RoomLinks, queue: WorkQueue[Any, Any], settings: StudioSettings) -> None:
        self.links, self.store, self.queue, self.settings = links, links.store, queue, settings
        self.room, self.home = links.room, f"/{links.room}"
        self.work, self.begun = f"{self.home}/work", f"compeer_{links.room}"  # the cookie: the warning has been read

    def key(self, address: str) -> Any:
        """The key of a task from the part of the address that names it, which may be anything."""
        return address

    def before(self, me: Person) -> str | None:
        """A page that comes before the first task."""
        return None

    @abstractmethod
    def sheet(self, me: Person, found: Any) -> dict[str, Any]:
        """What the page of a task shows."""

    @abstractmethod
    def idle(self, me: Person, mine: Any) -> dict[str, Any]:
        """What is shown while there is no task."""

    def show(self, request: Request, me: Person, found: Any, *, done: bool = False) -> Response:
        """The task to judge, with the random names of its forms."""
        return pages(request).page(
            request,
            f"{self.room}/work.html",
            mine=self.queue.own_progress(me),
            done=done,
            shown=round(time.time(), 3),
            reasons=REASONS,
            form=secrets.token_urlsafe(16),
            undo_form=secrets.token_urlsafe(16),
            **self.sheet(me, found),
        )

    def asking(self, request: Request, key: str) -> Person:
        """Who sent a request about one task: the sender, in the project that the task belongs to."""
        members = self.links.members(request, "annotator")
        found = self.queue.holder(members, self.key(key)) if len(members) > 1 else None
        return found or self.links.annotator(request)

    def welcome(self, request: Request) -> Response:
        me = self.links.annotator(request)
        members = self.links.members(request, "annotator")
        values: dict[str, Any] = {"mine": self.queue.own_progress(me), "paused": me.paused, "name": me.name}
        values |= {"project": me.project, "title": project_by_number(self.store, me.project).name}
        return pages(request).page(request, "workplace/welcome.html", several=len(members) > 1, **values)

    def start(self, request: Request) -> Response:
        """Everything that somebody was invited to, in both rooms; without a choice the one place to go."""
        found = self.links.account(request)
        if found is None or found.role != "annotator":
            return RedirectResponse("/", 303)
        store, shown = self.store, []
        for me in found.people:
            about = project_by_number(store, me.project)
            kind: ProjectKind = "labelling" if about.votes is None else "arena"
            queue: LabellingQueue | ArenaQueue = LabellingQueue(store) if kind == "labelling" else ArenaQueue(store)
            line = {"room": ROOM_OF[kind], "name": about.name, "project": me.project, "mine": queue.own_progress(me)}
            shown.append({**line, "paused": me.paused, "ended": about.closed is not None})
        if len(shown) == 1:
            return RedirectResponse(f"/{shown[0]['room']}", 303)
        return pages(request).page(request, "workplace/start.html", name=found.name, found=shown)

    def submitted(self, request: Request) -> Response:
        return self.onward(request, f"{self.work}?done=1")

    def onward(self, request: Request, where: str | None) -> Response:
        """A redirect for a plain form, the next address as JSON for a script; None: there was nothing to do."""
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(where or self.work, 303)
        return JSONResponse({"next": where})

    def add(self, router: APIRouter) -> None:
        """The routes that both rooms have."""
        links, queue, one = self.links, self.queue, f"/{self.things}/{{key}}"

        @router.get("/start")
        def start(request: Request) -> Response:
            return self.start(request)

        @router.post("/begin")
        def begin(request: Request, me: Person = Depends(links.annotator)) -> Response:
            answer = RedirectResponse(self.work, 303)
            for name, value in ((self.begun, _mark(request)), (f"{self.begun}_project", str(me.project))):
                answer.set_cookie(
                    name, value, path=self.home, samesite="lax", httponly=True, secure=self.settings.secure
                )
            return answer

        @router.get("/work")
        def work(request: Request, done: bool = False, me: Person = Depends(links.annotator)) -> Response:
            if request.cookies.get(self.begun) != _mark(request):
                return RedirectResponse(self.home, 303)
            if (first := self.before(me)) is not None and not me.paused:
                return RedirectResponse(first, 303)
            found = queue.next(me)
            if found is not None:
                return self.show(request, me, found, done=done)
            mine = queue.own_progress(me)
            about = project_by_number(self.store, me.project)
            most = about.quota if me.quota is None else me.quota
            values: dict[str, Any] = {"mine": mine, "paused": me.paused, "undo_form": secrets.token_urlsafe(16)}
            values["full"] = most is not None and mine.done >= most  # they have done all that they should
            return pages(request).page(request, f"{self.room}/idle.html", **values, **self.idle(me, mine))

        @router.get(f"{one}/skip")
        def ask_skip(request: Request, key: str, me: Person = Depends(self.asking)) -> Response:
            queue.view(me, self.key(key))
            values: dict[str, Any] = {"key": key, "things": self.things, "reasons": REASONS}
            return pages(request).page(request, "workplace/skip.html", form=secrets.token_urlsafe(16), **values)

        @router.post(f"{one}/skip")
        def skip(
            request: Request,
            key: str,
            form: FormName,
            reason: Annotated[Reason, Form()] = "other",
            words: Annotated[str, Form(max_length=1000)] = "",
            distress: Annotated[bool, Form()] = False,
            me: Person = Depends(self.asking),
        ) -> Response:
            why = f"{reason}: {words.strip()}" if words.strip() else reason
            queue.skip(me, self.key(key), "" if distress else why, distress=distress, form=form)
            return self.onward(request, f"{self.home}/rest" if distress else self.work)

        @router.get("/rest", dependencies=[Depends(links.annotator)])
        def rest(request: Request) -> Response:
            return pages(request).page(request, "workplace/rest.html")

        @router.post("/undo")
        def undo(request: Request, form: FormName, me: Person = Depends(links.annotator)) -> Response:
            return self.onward(request, self.work if queue.undo(me, form=form) is not None else None)

        @router.get(f"{one}/pictures/{{number}}")
        def picture(key: str, number: int, me: Person = Depends(self.asking)) -> Response:
            return send_picture(queue.picture(me, self.key(key), number))


def send_picture(path: Path) -> Response:
    """A picture that belongs to an item.

    No name comes from the browser: it asks for "the second picture of this item", and the store knows the path. The
    file must still be in its folder after links are followed, and be a picture, which cannot carry a script.
    """
    if not path.resolve().is_relative_to(path.parent.resolve()) or not path.is_file():
        raise RequestRefused(404, "missing", "a picture that is not in the folder")
    if path.stat().st_size > LARGEST_PICTURE:
        raise RequestRefused(404, "missing", "a picture that is too large")
    data = path.read_bytes()
    kind = picture_type(data)
    if kind is None:
        raise RequestRefused(404, "missing", "a file that is no picture")
    headers = {"cache-control": "private, max-age=3600", "content-security-policy": "default-src 'none'; sandbox"}
    return Response(data, media_type=kind, headers=headers)


def took(seconds: float | None, shown: float | None) -> float | None:
    """Seconds spent on a task: as the script counted, or without a script since the page was sent."""
    return max(0.0, time.time() - shown) if seconds is None and shown is not None else seconds


def _mark(request: Request) -> str:
    """The value of the cookie that says that this session has read the warning."""
    return hashlib.sha256(b"warned " + visit(request).session.number.encode()).hexdigest()[:24]
