"""Results as rows to draw: places in percent of a bar, since no style may stand in a page.

The coordinator's pages that are about arenas: making one, one with its progress, closing it, results.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, File, Form, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from compeer.people import arena_project as project
from compeer.people.arena_figure import Bar, bars
from compeer.people.arena_project import Arena, progress
from compeer.people.arena_results import Results, results_of
from compeer.people.store import Store
from compeer.statistics import Figure
from compeer.studio.pages import pages
from compeer.studio.rooms.arena import files as source
from compeer.studio.rooms.workplace.coordinate import Coordination, FormName, Lease, Named, Typed
from compeer.studio.words import Say


class Rung(msgspec.Struct, frozen=True):
    """A model of the ranking, with its interval as places on a line from 0 to 100."""

    rank: int
    model: str
    points: Figure
    best: int
    worst: int
    votes: int
    at: float
    low: float
    high: float


class Chart(msgspec.Struct, frozen=True):
    results: Results
    bars: list[Bar]
    rungs: list[Rung]


def chart(results: Results) -> Chart:
    """Everything that the page of results draws."""
    ends = [
        end for one in results.ranking for end in (one.points.value, one.points.low, one.points.high) if end is not None
    ]
    least, most = (min(ends), max(ends)) if ends else (0.0, 1.0)
    rungs = []
    for one in results.ranking:
        points = one.points.value or 0.0
        low = points if one.points.low is None else one.points.low
        high = points if one.points.high is None else one.points.high
        at, start, end = (place(value, least, most) for value in (points, low, high))
        rungs.append(Rung(one.rank, one.model, one.points, one.best, one.worst, one.votes, at, start, end))
    return Chart(results, bars(results), rungs)


def place(value: float, least: float, most: float) -> float:
    """A value on a line from 4 to 96, so that marks at the ends are whole.

    >>> place(5, 0, 10), place(3, 3, 3)
    (50.0, 50.0)
    """
    return 50.0 if most <= least else round(4 + 92 * (value - least) / (most - least), 2)


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
        files: Annotated[list[UploadFile], File()] = [],
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
