"""The coordinator's pages that are about arenas: making one, one with its progress, closing it, results."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, File, Form, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from compeer.annotation.store import Store
from compeer.arena import project
from compeer.arena.progress import progress
from compeer.arena.project import Arena
from compeer.arena.results import results_of
from compeer.studio.pages import pages
from compeer.studio.rooms.arena import source
from compeer.studio.rooms.arena.chart import chart
from compeer.studio.rooms.workplace.coordinate import Coordination, FormName, Lease, Named, Typed
from compeer.studio.words import Say

EMPTY: dict[str, Any] = {"name": "", "cases": "", "replies": "", "images": "", "votes": 1, "focus": "", "lease": 15,
                         "show": False}  # fmt: skip


def add(router: APIRouter, store: Store, coordination: Coordination[Arena]) -> None:
    @router.get("/new")
    def new(request: Request) -> Response:
        return coordination.blank(request, EMPTY)

    @router.post("/new")
    def create(
        request: Request,
        form: FormName,
        name: Named = "",
        cases: Typed = "",
        replies: Annotated[str, Form(max_length=40_000)] = "",
        images: Typed = "",
        votes: Annotated[int, Form(ge=1, le=100)] = 1,
        focus: Annotated[str, Form(max_length=200)] = "",
        lease: Lease = 15.0,
        show: Annotated[bool, Form()] = False,
        file: Annotated[UploadFile | None, File()] = None,
        files: Annotated[list[UploadFile], File()] = [],  # noqa: B006 read only
    ) -> Response:
        given = {"name": name, "cases": cases, "replies": replies, "images": images, "votes": votes, "focus": focus,
                 "lease": lease, "show": show}  # fmt: skip

        def make(say: Say) -> int:
            settings, folder = coordination.settings, images.strip()
            if file is not None and file.filename:
                found = source.uploaded(settings, say, file, files, folder)
            else:
                found = source.named(settings, say, cases.strip(), replies, folder)
            made = project.create_arena(
                store, name, found.cases, found.replies, images=found.images, votes=votes,
                focus=focus.strip() or None, show_reasoning=show, lease_minutes=lease,
            )  # fmt: skip
            return made.arena.id

        return coordination.create(request, form, given, make)

    def overview(request: Request, found: Arena, wrong: str | None) -> Response:
        return coordination.overview(request, found, wrong, lambda: progress(store, found.id))

    coordination.add(router, overview)

    @router.get("/arenas/{number}/results")
    def results(request: Request, number: int) -> Response:
        found = coordination.door.coordinated(request, number)
        here, count = coordination.at(number), lambda: chart(results_of(store, number))
        return pages(request).flow(request, "arena/results.html", found=found, here_is=here, count=count)

    @router.post("/arenas/{number}/close")
    def close(request: Request, number: int, form: FormName, closed: Annotated[bool, Form()]) -> Response:
        coordination.door.coordinated(request, number)
        coordination.once.use(form)
        project.close(store, number, closed)
        return RedirectResponse(coordination.at(number), 303)
