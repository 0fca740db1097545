"""The coordinator's pages: arenas, a new one, one with its people and personal links, results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from compeer.annotation import people
from compeer.annotation.people import Invitation
from compeer.annotation.store import Store
from compeer.arena import project
from compeer.arena.progress import progress, shelf
from compeer.arena.project import Arena
from compeer.arena.results import results_of
from compeer.errors import UserError
from compeer.studio.access import Refused, journal, visit
from compeer.studio.pages import pages
from compeer.studio.rooms.arena import source
from compeer.studio.rooms.arena.chart import chart
from compeer.studio.rooms.arena.links import coordinated, coordinator
from compeer.studio.rooms.label.once import Once
from compeer.studio.rooms.label.projects import Link
from compeer.studio.settings import Settings, origin

Name = Annotated[str, Form(max_length=64)]
Action = Literal["pause", "resume", "link", "revoke"]
_MOST_NAMES = 200
EMPTY: dict[str, Any] = {"name": "", "cases": "", "replies": "", "images": "", "votes": 1, "focus": "", "lease": 15,
                         "show": False}  # fmt: skip


def add(router: APIRouter, store: Store, settings: Settings) -> Callable[[Request], Response]:
    """The routes; returns the list of arenas, which lies at the room's own address."""
    once = Once()

    def listed(request: Request) -> Response:
        own = coordinator(store, request)
        found = [one for one in shelf(store) if own is None or one.arena.id == own.project]
        return pages(request).page(request, "arena/arenas.html", found=found, may_create=own is None)

    @router.get("/new")
    def new(request: Request) -> Response:
        return blank(request, EMPTY, None)

    def blank(request: Request, given: dict[str, Any], wrong: str | None) -> Response:
        if coordinator(store, request) is not None:
            raise Refused(403, "forbidden", "a coordinator of one arena makes no other")
        values = {"given": given, "wrong": wrong, "form": once.issue(), "folders": settings.items}
        status = 200 if wrong is None else 422
        return pages(request).page(request, "arena/new.html", status, guarded=settings.guarded, **values)

    @router.post("/new")
    def create(
        request: Request,
        form: Name,
        name: Annotated[str, Form(max_length=1000)] = "",
        cases: Annotated[str, Form(max_length=4000)] = "",
        replies: Annotated[str, Form(max_length=40_000)] = "",
        images: Annotated[str, Form(max_length=4000)] = "",
        votes: Annotated[int, Form(ge=1, le=100)] = 1,
        focus: Annotated[str, Form(max_length=200)] = "",
        lease: Annotated[float, Form(gt=0, le=1440)] = 15.0,
        show: Annotated[bool, Form()] = False,
        file: Annotated[UploadFile | None, File()] = None,
        files: Annotated[list[UploadFile], File()] = [],  # noqa: B006 read only
    ) -> Response:
        given = {"name": name, "cases": cases, "replies": replies, "images": images, "votes": votes, "focus": focus,
                 "lease": lease, "show": show}  # fmt: skip
        if coordinator(store, request) is not None:
            return blank(request, given, None)
        once.use(form)
        say = pages(request).say[visit(request).language]
        try:
            if file is not None and file.filename:
                found = source.uploaded(settings, say, file, files, images.strip())
            elif cases.strip():
                found = source.named(settings, say, cases.strip(), replies, images.strip())
            else:
                raise UserError(say("label.new.nothing"))
            made = project.create_arena(
                store, name, found.cases, found.replies, images=found.images, votes=votes,
                focus=focus.strip() or None, show_reasoning=show, lease_minutes=lease,
            )  # fmt: skip
        except UserError as error:
            journal.refused(f"no arena made: {error}", "POST", "/arena/new", "coordinator", visit(request).address)
            return blank(request, given, str(error))
        return RedirectResponse(f"/arena/arenas/{made.arena.id}", 303)

    @router.get("/arenas/{number}")
    def one(request: Request, number: int) -> Response:
        return overview(request, coordinated(store, request, number))

    def overview(request: Request, found: Arena, wrong: str | None = None) -> Response:
        status = 200 if wrong is None else 422
        now = progress(store, found.id)
        return pages(request).page(request, "arena/arena.html", status, now=now, form=once.issue(), wrong=wrong)

    @router.get("/arenas/{number}/results")
    def results(request: Request, number: int) -> Response:
        found = coordinated(store, request, number)
        drawn = chart(results_of(store, number))
        return pages(request).page(request, "arena/results.html", arena=found, chart=drawn)

    @router.post("/arenas/{number}/close")
    def close(request: Request, number: int, form: Name, closed: Annotated[bool, Form()]) -> Response:
        coordinated(store, request, number)
        once.use(form)
        project.close(store, number, closed)
        return RedirectResponse(f"/arena/arenas/{number}", 303)

    @router.post("/arenas/{number}/invite")
    def invite(
        request: Request,
        number: int,
        form: Name,
        names: Annotated[str, Form(max_length=20_000)] = "",
        role: Annotated[people.Role, Form()] = "annotator",
    ) -> Response:
        found = coordinated(store, request, number)
        once.use(form)
        wanted = list(dict.fromkeys(part.strip() for part in names.replace(",", "\n").splitlines() if part.strip()))
        say = pages(request).say[visit(request).language]
        linked = {one.name for one in people.everybody(store, number) if one.key}
        if not wanted or len(wanted) > _MOST_NAMES:
            return overview(request, found, say("label.people.nobody", most=_MOST_NAMES))
        if odd := [one for one in wanted if len(one) > 100 or not one.isprintable()]:
            return overview(request, found, say("label.people.odd", name=odd[0][:100]))
        if twice := [one for one in wanted if one in linked]:
            return overview(request, found, say("label.people.twice", names=", ".join(twice)))
        return links(request, found, [people.invite(store, number, one, role) for one in wanted])

    def links(request: Request, found: Arena, made: Sequence[Invitation]) -> Response:
        base = origin(settings.public) if settings.public else f"http://{request.headers['host']}"
        shown = [Link(one.person.name, f"{base}/enter/{one.token}") for one in made]
        return pages(request).page(request, "arena/links.html", arena=found, links=shown)

    @router.post("/arenas/{number}/people/{person}")
    def change(request: Request, number: int, person: int, form: Name, action: Annotated[Action, Form()]) -> Response:
        found = coordinated(store, request, number)
        once.use(form)
        name = next((each.name for each in people.everybody(store, number) if each.id == person), None)
        if name is None:
            raise Refused(404, "missing", "nobody of this number in the arena")
        if action == "link":
            return links(request, found, [people.new_link(store, number, name)])
        if action == "revoke":
            people.revoke(store, number, name)
        else:
            people.pause(store, number, name, action == "pause")
        return RedirectResponse(f"/arena/arenas/{number}", 303)

    return listed
