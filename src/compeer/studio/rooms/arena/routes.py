"""The pages of Arena: comparing one pair after another, the coordinator's arenas, results and files.

A page that compares holds two texts and a random name. No number, no order and no attribute in it depends on the
models. All pages are on one router, so refusals of the store are explained everywhere alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Depends, File, Form, Query, UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from compeer.dialogue import write_json
from compeer.errors import UserError
from compeer.people import arena, arena_results
from compeer.people.arena_cases import Case, Reply, read_cases, read_replies
from compeer.people.invitations import Person
from compeer.people.projects import Project
from compeer.reasoning import STEPS, render_step
from compeer.reward.verdict import CHOICES, Choice
from compeer.studio.pages import Say, pages
from compeer.studio.rooms.workplace.annotator import AnnotatorPages, FormName, Note, Seconds, took
from compeer.studio.rooms.workplace.coordinator import (
    CoordinatorForm,
    CoordinatorPages,
    Lease,
    Named,
    Quota,
    Typed,
    received,
    send_made,
    workplace_router,
)
from compeer.studio.rooms.workplace.links import RoomLinks
from compeer.studio.settings import StudioSettings


def routes(links: RoomLinks, settings: StudioSettings) -> APIRouter:
    annotator = ComparisonPages(links, arena.ArenaQueue(links.store), settings)
    coordinator = ArenaPages(annotator)
    router = workplace_router(annotator, coordinator)
    add_comparing(router, annotator)
    add_arenas(router, coordinator)
    add_files(router, coordinator)
    return router


class ComparisonPages(AnnotatorPages):
    """Comparing one pair after another; a key is the random name of a lease."""

    things = "compare"

    def sheet(self, me: Person, found: arena.Comparison) -> dict[str, Any]:
        return {"work": found, "choices": CHOICES}

    def idle(self, me: Person, mine: arena.OwnArenaProgress) -> dict[str, Any]:
        return {"chart": chart(arena_results.results_of(self.store, me.project)) if mine.over else None}


def add_comparing(router: APIRouter, annotator: AnnotatorPages) -> None:
    """The annotator's pages that only comparing has."""
    queue = annotator.queue

    @router.post("/compare/{key}")
    def hand_in(
        request: Request,
        key: str,
        form: FormName,
        choice: Annotated[Choice, Form()],
        note: Note = "",
        seconds: Seconds = None,
        shown: Seconds = None,
        me: Person = Depends(annotator.asking),
    ) -> Response:
        queue.submit(me, key, choice, seconds=took(seconds, shown), note=note, form=form)
        return annotator.submitted(request)

    @router.post("/compare/{key}/keep")
    def keep(key: str, me: Person = Depends(annotator.asking)) -> Response:
        return JSONResponse({"kept": queue.keep(me, key)})


#: the cases and replies of a new arena, and the folder from which pictures may come
ArenaSource = tuple[list[Case], list[Reply], Path | None]


class ArenaPages(CoordinatorPages):
    """The coordinator's arenas, and the files from which one is made."""

    things = "arenas"
    empty: ClassVar = {"name": "", "cases": "", "replies": "", "images": "", "votes": arena.DEFAULT_VOTES, "quota": "",
                       "focus": "", "lease": 15, "show": False}  # fmt: skip

    def counted(self, request: Request, found: Project) -> dict[str, Any]:
        return {"count": lambda: arena.arena_progress(self.store, found.id)}

    def named_source(self, say: Say, cases: str, replies: str, images: str) -> ArenaSource:
        """Files on this machine: the cases, and replies, one file or folder per line."""
        if not cases:
            raise UserError(say("workplace.new.nothing"))
        file = self.file(say, cases)
        found: list[Path] = []
        for line in filter(None, map(str.strip, replies.splitlines())):
            path = self.allowed(say, line)
            found += sorted(path.glob("*.jsonl")) if path.is_dir() else [self.file(say, line)]
        if not found:
            raise UserError(say("arena.new.no_replies"))
        folder = self.allowed(say, images) if images else file.parent
        # what stands beside the replies of a folder, such as what failed, has a longer ending
        plain = [path for path in found if path.name.count(".jsonl") == 1 and ".rejects" not in path.name]
        return read_cases(file), read_replies(plain), folder

    def uploaded_source(self, say: Say, cases: UploadFile, replies: Sequence[UploadFile], images: str) -> ArenaSource:
        """Files that came with the form."""
        folder = self.allowed(say, images) if images else None
        sent = [one for one in replies if one.filename]
        if not sent:
            raise UserError(say("arena.new.no_replies"))
        with received(cases, *sent) as (first, *others):
            return read_cases(first), read_replies(others), folder


def add_arenas(router: APIRouter, coordinator: ArenaPages) -> None:
    """The coordinator's pages: creating an arena, closing it, results."""
    store, project = coordinator.store, coordinator.project

    @router.post("/new")
    def create(
        request: Request,
        form: CoordinatorForm,
        name: Named = "",
        cases: Typed = "",
        replies: Annotated[str, Form(max_length=40_000)] = "",
        images: Typed = "",
        votes: Annotated[int, Form(ge=1, le=100)] = arena.DEFAULT_VOTES,
        quota: Quota = "",
        focus: Annotated[str, Form(max_length=200)] = "",
        lease: Lease = 15.0,
        show: Annotated[bool, Form()] = False,
        file: Annotated[UploadFile | None, File()] = None,
        files: Annotated[list[UploadFile] | None, File()] = None,
    ) -> Response:
        given = {"name": name, "cases": cases, "replies": replies, "images": images, "votes": votes, "quota": quota,
                 "focus": focus, "lease": lease, "show": show}  # fmt: skip

        def make(say: Say) -> int:
            if file is not None and file.filename:
                source = coordinator.uploaded_source(say, file, files or [], images.strip())
            else:
                source = coordinator.named_source(say, cases.strip(), replies, images.strip())
            read, said, folder = source
            made = arena.create_arena(
                store, name, read, said, images=folder, votes=votes, quota=quota or None,
                focus=focus.strip() or None, show_reasoning=show, lease_minutes=lease,
            )  # fmt: skip
            return made.arena.id

        return coordinator.create(request, form, given, make)

    @router.get("/arenas/{number}/results")
    def results(request: Request, found: Project = Depends(project)) -> Response:
        values = coordinator.about(found, count=lambda: chart(arena_results.results_of(store, found.id)))
        return pages(request).flow(request, "arena/results.html", **values)

    @router.get("/arenas/{number}/cases")
    def look_at_cases(
        request: Request,
        one: Annotated[str, Query(max_length=200)],
        two: Annotated[str, Query(max_length=200)],
        winner: Annotated[str, Query(max_length=200)] = "",
        page: Annotated[int, Query(ge=1, le=100_000)] = 1,
        found: Project = Depends(project),
    ) -> Response:
        """The cases of one pair: what was said, who voted how, and the notes that people gave."""

        def find() -> list[arena_results.CaseVotes]:
            start = (page - 1) * PER_PAGE
            return arena_results.pair_cases(store, found.id, one, two, winner=winner, limit=PER_PAGE + 1, offset=start)

        values = coordinator.about(found, find=find, most=PER_PAGE, one=one, two=two, winner=winner, page=page)
        return pages(request).flow(request, "arena/cases.html", **values)

    @router.post("/arenas/{number}/close")
    def close(form: CoordinatorForm, closed: Annotated[bool, Form()], found: Project = Depends(project)) -> Response:
        coordinator.forms.use(form)
        arena.close_arena(store, found.id, closed)
        return RedirectResponse(coordinator.at(found.id), 303)


PER_PAGE = 10


def thoughts_of(reply: Reply) -> dict[str, str]:
    """The steps of a reply's reasoning, if it has any."""
    return {step: render_step(reply.reasoning, step) for step in STEPS} if reply.reasoning else {}


HELPERS = {"thoughts_of": thoughts_of}


def chart(results: arena_results.ArenaResults) -> dict[str, Any]:
    """Results with what the page draws: places in percent of a line, because no style may stand in a page.

    A model of the ranking comes with the places of its points and of the ends of their interval.
    """
    spans = [[one.points.value or 0.0, one.points.low, one.points.high] for one in results.ranking]
    spans = [[span[0] if end is None else end for end in span] for span in spans]
    ends = [end or 0.0 for span in spans for end in span] or [0.0, 1.0]
    ranked = [
        (one, *(place(end or 0.0, min(ends), max(ends)) for end in span))
        for one, span in zip(results.ranking, spans, strict=True)
    ]
    return {"results": results, "ranked": ranked}


def place(value: float, least: float, most: float) -> float:
    """A value on a line from 4 to 96, so that marks at the ends are whole.

    >>> place(5, 0, 10), place(3, 3, 3)
    (50.0, 50.0)
    """
    return 50.0 if most <= least else round(4 + 92 * (value - least) / (most - least), 2)


ArenaFile = Literal["votes.jsonl", "votes.csv", "results.json", "figure.svg", "figure.png"]


def add_files(router: APIRouter, coordinator: ArenaPages) -> None:
    """Votes, results and the figure as files, for the coordinator."""
    store = coordinator.store

    @router.get("/arenas/{number}/files/{kind}")
    def file(kind: ArenaFile, anonymous: bool = False, found: Project = Depends(coordinator.project)) -> Response:
        def write(path: Path) -> None:
            if kind in ("votes.jsonl", "votes.csv"):
                arena_results.export_votes(store, found.id, path, anonymous=anonymous)
            elif kind == "results.json":
                write_json(path, arena_results.results_of(store, found.id))
            else:
                arena_results.draw(arena_results.results_of(store, found.id), path)

        return send_made(f"{found.name}-{kind}", kind, write)
