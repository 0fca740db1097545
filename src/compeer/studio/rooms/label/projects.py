"""The coordinator's pages: projects, a new one, one with its people, and personal links, which are shown once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, File, Form, UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from compeer.annotation import people, project
from compeer.annotation.people import Invitation, Person
from compeer.annotation.progress import PersonProgress, Progress, progress
from compeer.annotation.project import Project
from compeer.annotation.protocol import STATUSES
from compeer.annotation.shelf import shelf
from compeer.annotation.store import Store
from compeer.cer.item import Question
from compeer.errors import UserError
from compeer.studio.access import Refused, journal, visit
from compeer.studio.pages import pages
from compeer.studio.rooms.label import source
from compeer.studio.rooms.label.bars import Stretch, stretches
from compeer.studio.rooms.label.links import coordinated, coordinator
from compeer.studio.rooms.label.once import Once
from compeer.studio.settings import Settings, origin
from compeer.studio.words import Say

Name = Annotated[str, Form(max_length=64)]
Action = Literal["pause", "resume", "link", "revoke"]
_MOST_NAMES = 200
EMPTY: dict[str, Any] = {"name": "", "path": "", "images": "", "guideline": "1", "lease": 15, "audit": 5}


class Somebody(NamedTuple):
    """A person of the project with what they have done; None for who came in this moment."""

    person: Person
    done: PersonProgress | None


class Counted(NamedTuple):
    """What takes a moment to count in a large project."""

    now: Progress
    everyone: list[Somebody]
    bars: dict[Question, list[Stretch]]


class Link(NamedTuple):
    name: str
    address: str


def add(router: APIRouter, store: Store, settings: Settings) -> Callable[[Request], Response]:
    """The routes; returns the list of projects, which lies at the room's own address."""
    once = Once()

    def projects(request: Request) -> Response:
        own = coordinator(store, request)
        found = [one for one in shelf(store) if own is None or one.project.id == own.project]
        return pages(request).page(request, "label/projects.html", found=found, may_create=own is None)

    @router.get("/new")
    def new(request: Request) -> Response:
        return blank(request, EMPTY, None)

    def blank(request: Request, given: dict[str, Any], wrong: str | None) -> Response:
        if coordinator(store, request) is not None:
            raise Refused(403, "forbidden", "a coordinator of one project makes no other")
        status = 200 if wrong is None else 422
        values = {"given": given, "wrong": wrong, "form": once.issue(), "folders": settings.items}
        return pages(request).page(request, "label/new.html", status, guarded=settings.guarded, **values)

    @router.post("/new")
    def create(
        request: Request,
        form: Name,
        name: Annotated[str, Form(max_length=1000)] = "",
        path: Annotated[str, Form(max_length=4000)] = "",
        images: Annotated[str, Form(max_length=4000)] = "",
        guideline: Annotated[str, Form(min_length=1, max_length=100)] = "1",
        lease: Annotated[float, Form(gt=0, le=1440)] = 15.0,
        audit: Annotated[float, Form(ge=0, le=100)] = 5.0,
        file: Annotated[UploadFile | None, File()] = None,
    ) -> Response:
        given = {"name": name, "path": path, "images": images, "guideline": guideline, "lease": lease, "audit": audit}
        if coordinator(store, request) is not None:
            return blank(request, given, None)
        once.use(form)
        say = pages(request).say[visit(request).language]
        try:
            if file is not None and file.filename:
                found = source.uploaded(settings, say, file.file, file.filename, images.strip())
            elif path.strip():
                found = source.named(settings, say, path.strip(), images.strip())
            else:
                raise UserError(say("label.new.nothing"))
            if any(one.name == name.strip() for one in project.projects_of(store)):
                raise UserError(say("label.new.taken", name=name.strip()))
            made = project.create_project(
                store, name, found.items, images=found.images, guideline=guideline, lease_minutes=lease,
                audit_share=audit / 100,
            )  # fmt: skip
        except UserError as error:
            journal.refused(f"no project made: {error}", "POST", "/label/new", "coordinator", visit(request).address)
            return blank(request, given, str(error))
        return RedirectResponse(f"/label/projects/{made.project.id}", 303)

    @router.get("/projects/{number}")
    def one(request: Request, number: int) -> Response:
        return overview(request, coordinated(store, request, number)[1])

    def overview(request: Request, found: Project, wrong: str | None = None) -> Response:
        def count() -> Counted:
            now = progress(store, found.id)
            done = {each.name: each for each in now.people}
            everyone = [Somebody(each, done.get(each.name)) for each in people.everybody(store, found.id)]
            order = STATUSES[1:] + STATUSES[:1]
            bars = {name: stretches((one, counts[one]) for one in order) for name, counts in now.questions.items()}
            return Counted(now, everyone, bars)

        status = 200 if wrong is None else 422
        values = {"project": found, "count": count, "form": once.issue(), "wrong": wrong}
        return pages(request).flow(request, "label/project.html", status, **values)

    @router.post("/projects/{number}/invite")
    def invite(
        request: Request,
        number: int,
        form: Name,
        names: Annotated[str, Form(max_length=20_000)] = "",
        role: Annotated[people.Role, Form()] = "annotator",
    ) -> Response:
        found = coordinated(store, request, number)[1]
        once.use(form)
        say = pages(request).say[visit(request).language]
        wanted = list(dict.fromkeys(part.strip() for part in names.replace(",", "\n").splitlines() if part.strip()))
        if wrong := _unwelcome(wanted, people.everybody(store, number), say):
            return overview(request, found, wrong)
        return links(request, found, [people.invite(store, number, name, role) for name in wanted])

    def links(request: Request, found: Project, made: Sequence[Invitation]) -> Response:
        base = origin(settings.public) if settings.public else f"http://{request.headers['host']}"
        shown = [Link(one.person.name, f"{base}/enter/{one.token}") for one in made]
        return pages(request).page(request, "label/links.html", project=found, links=shown)

    @router.post("/projects/{number}/people/{person}")
    def change(request: Request, number: int, person: int, form: Name, action: Annotated[Action, Form()]) -> Response:
        found = coordinated(store, request, number)[1]
        once.use(form)
        name = next((each.name for each in people.everybody(store, number) if each.id == person), None)
        if name is None:
            raise Refused(404, "missing", "nobody of this number in the project")
        if action == "link":
            return links(request, found, [people.new_link(store, number, name)])
        if action == "revoke":
            people.revoke(store, number, name)
        else:
            people.pause(store, number, name, action == "pause")
        return RedirectResponse(f"/label/projects/{number}", 303)

    return projects


def _unwelcome(wanted: list[str], known: Sequence[Person], say: Say) -> str | None:
    """Why these people cannot be invited, all or none of them."""
    if not wanted or len(wanted) > _MOST_NAMES:
        return say("label.people.nobody", most=_MOST_NAMES)
    if odd := [name for name in wanted if len(name) > 100 or not name.isprintable()]:
        return say("label.people.odd", name=odd[0][:100])
    linked = {one.name for one in known if one.key}
    if twice := [name for name in wanted if name in linked]:
        return say("label.people.twice", names=", ".join(twice))
    return None
