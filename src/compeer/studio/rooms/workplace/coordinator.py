"""The coordinator's pages: the list, a new project, its people, personal links, files; and the router of a workplace.

A room subclasses `CoordinatorPages`: what the page of one project or arena counts, and the form to create one.

Each form of the coordinator is good for one use: a link that is shown once must not be made twice by a reload.

Files can be uploaded, or named by whoever uses this machine. Behind a public address only files in the folders given
with --items can be named, links followed; and pictures come only from there.
"""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form
from pydantic import Field
from starlette.background import BackgroundTask
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response

from compeer.dialogue.jsonl import COMPRESSED
from compeer.errors import UserError
from compeer.people import invitations as people
from compeer.people.exchange import csv_lines
from compeer.people.invitations import Invitation, Person
from compeer.people.projects import Project, is_name_taken, project_summaries, set_quota
from compeer.people.work_queue import reminders
from compeer.reasoning.ontology import Language
from compeer.studio.access import RequestRefused, person, visit
from compeer.studio.gate import log_refusal
from compeer.studio.pages import Say, pages, say_in
from compeer.studio.rooms.workplace.annotator import AnnotatorPages, send_picture
from compeer.studio.settings import origin

_MOST_FORMS = 10_000


class OneTimeForms:
    """Random names of forms that were handed out and not used yet.

    Names are in memory: after a restart a page has to be loaded again, and nothing sent before works a second time.

    >>> forms = OneTimeForms()
    >>> name = forms.issue()
    >>> forms.use(name)
    >>> forms.use(name)
    Traceback (most recent call last):
    compeer.studio.access.RequestRefused: a form that was sent before
    """

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}
        self._lock = threading.Lock()

    def issue(self) -> str:
        name = secrets.token_urlsafe(16)
        with self._lock:
            while len(self._waiting) >= _MOST_FORMS:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[name] = None
        return name

    def use(self, name: str) -> None:
        with self._lock:
            if name not in self._waiting:
                raise RequestRefused(409, "form", "a form that was sent before")
            del self._waiting[name]


@contextmanager
def received(*uploads: UploadFile) -> Iterator[Sequence[Path]]:
    """Uploaded files as temporary files, for as long as they are read.

    Errors name a file as the coordinator knows it, not our copy.
    """
    with tempfile.TemporaryDirectory() as home:
        # the end of the name says how it is compressed
        names = [Path(upload.filename or "").suffix for upload in uploads]
        endings = [name if name in COMPRESSED else ".jsonl" for name in names]
        copies = [Path(home) / f"{number}{ending}" for number, ending in enumerate(endings)]
        for upload, copy in zip(uploads, copies, strict=True):
            copy.write_bytes(upload.file.read())
        try:
            yield copies
        except UserError as error:
            message = str(error)
            for upload, copy in zip(uploads, copies, strict=True):
                message = message.replace(str(copy), upload.filename or "file")
            raise UserError(message) from None


def disposition(name: str) -> str:
    """A Content-Disposition header for a file name in any script; characters that could end the header are replaced.

    >>> disposition('pi"lot\\n一.jsonl')
    'attachment; filename="pi_lot__.jsonl"; filename*=UTF-8\\'\\'pi_lot_%E4%B8%80.jsonl'
    """
    clean = "".join(one if one.isalnum() or one in "-_. " else "_" for one in name)
    plain = "".join(one if one.isascii() else "_" for one in clean)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(clean)}"


_MEDIA = {".jsonl": "application/jsonl", ".csv": "text/csv; charset=utf-8", ".json": "application/json",
          ".svg": "image/svg+xml", ".png": "image/png", ".zip": "application/zip"}  # fmt: skip


def send_made(shown: str, name: str, write: Callable[[Path], object]) -> Response:
    """A file, or a folder as a zip, that is made for this answer and removed once it is sent."""
    home = tempfile.mkdtemp()
    try:
        made = Path(home) / name
        write(made)
        made = Path(shutil.make_archive(str(made), "zip", home, name)) if made.is_dir() else made
    except BaseException:
        shutil.rmtree(home, ignore_errors=True)
        raise
    headers = {"content-disposition": disposition(shown + made.name.removeprefix(name))}
    tidy = BackgroundTask(shutil.rmtree, home, ignore_errors=True)
    return FileResponse(made, media_type=_MEDIA[made.suffix], headers=headers, background=tidy)


#: the random name of a page's forms
CoordinatorForm = Annotated[str, Form(max_length=64)]
#: fields that every form for something new has
Named = Annotated[str, Form(max_length=1000)]
Typed = Annotated[str, Form(max_length=4000)]
Lease = Annotated[float, Form(gt=0, le=1440)]
Action = Literal["pause", "resume", "link", "revoke", "limits"]
Languages = Annotated[list[Language] | None, Form()]
Quota = Annotated[Literal[""] | Annotated[int, Field(ge=1, le=1_000_000)], Form()]
MOST_NAMES = 200


async def sent_fields(request: Request) -> dict[str, str]:
    """All plain fields of a form whose fields are not known beforehand."""
    return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}


class Mistake(NamedTuple):
    """What is wrong with a form, and the text that stays in its field."""

    text: str
    kept: str = ""


class ShownLink(NamedTuple):
    """A person's link; None: they use the one that they have."""

    name: str
    address: str | None


class CoordinatorPages(ABC):
    """The coordinator's pages of one room. Routes take the project of their address from `Depends(pages.project)`."""

    things: ClassVar[str]  # the part of the address before a number: /label/projects/3
    empty: ClassVar[dict[str, Any]]  # the form for a new one before it is filled in

    def __init__(self, annotator: AnnotatorPages) -> None:
        self.annotator, self.links, self.queue = annotator, annotator.links, annotator.queue
        self.settings, self.store, self.room = annotator.settings, self.links.store, self.links.room
        self.forms = OneTimeForms()

    @abstractmethod
    def counted(self, request: Request, found: Project) -> dict[str, Any]:
        """Values for the page of one project; `count` is a function that the template calls below its cut."""

    def at(self, number: int) -> str:
        return f"/{self.room}/{self.things}/{number}"

    def project(self, request: Request, number: int) -> Project:
        """The project of an address, for its coordinator; everyone else is refused."""
        return self.links.coordinated(request, number)

    def about(self, found: Project, **values: Any) -> dict[str, Any]:
        """What a page about one project is given."""
        return {"found": found, "here_is": self.at(found.id), "form": self.forms.issue(), **values}

    def member(self, found: Project, person: int) -> str:
        """The name of a project's member."""
        name = next((each.name for each in people.people_of(self.store, found.id) if each.id == person), None)
        if name is None:
            raise RequestRefused(404, "missing", "nobody of this number here")
        return name

    def allowed(self, say: Say, path: str) -> Path:
        """The file or folder of this name, if it may be read from here."""
        try:
            found = Path(path).expanduser().resolve()
        except (OSError, ValueError, RuntimeError):
            raise UserError(say("workplace.new.no_file", path=path)) from None
        folders = self.settings.items
        if self.settings.guarded and not any(found.is_relative_to(folder.resolve()) for folder in folders):
            named = ", ".join(map(str, folders)) or say("workplace.new.no_folder")
            raise UserError(say("workplace.new.outside", folders=named))
        return found

    def file(self, say: Say, path: str) -> Path:
        """The same, when it is a file."""
        found = self.allowed(say, path)
        if not found.is_file():
            raise UserError(say("workplace.new.no_file", path=path))
        return found

    def listed(self, request: Request) -> Response:
        """All that this person coordinates."""
        own = self.links.coordinator(request)
        found = [one for one in project_summaries(self.store, self.links.kind) if own is None or one.id in own]
        values: dict[str, Any] = {"found": found, "may_create": own is None, "things": self.things}
        return pages(request).page(request, "workplace/list.html", **values)

    def blank(self, request: Request, given: dict[str, Any], wrong: str | None = None) -> Response:
        """The form for a new one, with what was filled in before and what was wrong with it."""
        if self.links.coordinator(request) is not None:
            raise RequestRefused(403, "forbidden", "a coordinator of one project creates no other")
        values: dict[str, Any] = {
            "given": given,
            "wrong": wrong,
            "form": self.forms.issue(),
            "folders": self.settings.items,
        }
        return pages(request).page(request, f"{self.room}/new.html", guarded=self.settings.guarded, **values)

    def create(self, request: Request, form: str, given: dict[str, Any], make: Callable[[Say], int]) -> Response:
        """Make a new project, or show the form with what is wrong; `make` returns the project's number."""
        if self.links.coordinator(request) is not None:
            return self.blank(request, given)
        self.forms.use(form)
        say = say_in(request)
        try:
            if is_name_taken(self.store, given["name"]):
                raise UserError(say("workplace.new.taken", name=given["name"].strip()))
            number = make(say)
        except UserError as error:
            address = visit(request).address
            log_refusal(f"nothing made: {error}", "POST", f"/{self.room}/new", "coordinator", address)
            return self.blank(request, given, str(error))
        return RedirectResponse(self.at(number), 303)

    def overview(self, request: Request, found: Project, wrong: Mistake | None = None) -> Response:
        """The page of one project, in two parts: counts that take long follow when they are ready."""
        values = self.about(found, wrong=wrong, **self.counted(request, found))
        return pages(request).flow(request, f"{self.room}/one.html", **values)

    def add(self, router: APIRouter) -> None:
        """The routes that both rooms have: the form for a new one; the page of one, invitations, people."""
        one, store = f"/{self.things}/{{number}}", self.store

        @router.get("/new")
        def new(request: Request) -> Response:
            return self.blank(request, self.empty)

        @router.get(one)
        def look(request: Request, found: Project = Depends(self.project)) -> Response:
            return self.overview(request, found)

        @router.post(f"{one}/invite")
        def invite(
            request: Request,
            form: CoordinatorForm,
            names: Annotated[str, Form(max_length=20_000)] = "",
            role: Annotated[people.Role, Form()] = "annotator",
            languages: Languages = None,
            found: Project = Depends(self.project),
        ) -> Response:
            self.forms.use(form)
            wanted = list(dict.fromkeys(part.strip() for part in re.split(r"[\n\r,;\t，；、]", names) if part.strip()))
            if wrong := _cannot_invite(wanted, people.people_of(store, found.id), say_in(request)):
                return self.overview(request, found, wrong)
            made = [people.invite(store, found.id, name, role, languages or ()) for name in wanted]
            return self._links(request, found, made)

        @router.post(f"{one}/quota")
        def limit(form: CoordinatorForm, quota: Quota = "", found: Project = Depends(self.project)) -> Response:
            self.forms.use(form)
            set_quota(store, found.id, quota or None)
            return RedirectResponse(f"{self.at(found.id)}#people", 303)

        @router.get(f"{one}/reminders")
        def remind(request: Request, found: Project = Depends(self.project)) -> Response:
            with store.read() as db:
                counts = self.queue.people_progress(db, found.id)
            texts = reminders(found, counts, self._base(request))
            return pages(request).page(request, "workplace/reminders.html", **self.about(found, texts=texts))

        @router.post(f"{one}/people/{{person}}")
        def change(
            request: Request,
            person: int,
            form: CoordinatorForm,
            action: Annotated[Action, Form()],
            languages: Languages = None,
            quota: Quota = "",
            found: Project = Depends(self.project),
        ) -> Response:
            self.forms.use(form)
            number, name = found.id, self.member(found, person)
            if action == "link":
                if self._is_shared(request, number, name):  # a link opens everything that the person takes part in
                    return self.overview(request, found, Mistake(say_in(request)("workplace.people.shared", name=name)))
                return self._links(request, found, [people.new_link(store, number, name)])
            if action == "limits":
                people.set_limits(store, number, name, languages=languages or (), quota=quota or None)
            elif action == "revoke":
                people.revoke(store, number, name)
            else:
                people.pause(store, number, name, action == "pause")
            return RedirectResponse(self.at(number), 303)

        @router.get(f"{one}/pictures/{{thing}}/{{which}}")
        def picture(thing: int, which: int, found: Project = Depends(self.project)) -> Response:
            """A picture of an item or a case, whoever was given it."""
            return send_picture(self.queue.picture_of(found.id, thing, which))

    def _is_shared(self, request: Request, number: int, name: str) -> bool:
        """Whether somebody's link would also open what this coordinator does not coordinate."""
        account = self.links.account(request)
        if account is None:
            return False
        own = {one.project for one in account.people}
        member = next(one for one in people.people_of(self.store, number) if one.name == name)
        theirs = people.account_of(self.store, member)
        return theirs is not None and any(one.project not in own for one in theirs.people)

    def _base(self, request: Request) -> str:
        """The address that people use, for links."""
        public = self.settings.public
        return origin(public) if public else f"http://{request.headers['host']}"

    def _links(self, request: Request, found: Project, made: Sequence[Invitation]) -> Response:
        """The links, and all of them as a table: it stands in the page itself, because the studio keeps no link."""
        base = self._base(request)
        shown = [ShownLink(one.person.name, f"{base}/enter/{one.token}" if one.token else None) for one in made]
        rows = [(one.name, one.address) for one in shown if one.address]
        table = "data:text/csv;charset=utf-8," + quote("\ufeff" + "".join(csv_lines([("name", "link"), *rows])))
        values = self.about(found, links=shown, table=table if rows else None, file=f"{found.name}-links.csv")
        return pages(request).page(request, "workplace/links.html", **values)


def workplace_router(annotator: AnnotatorPages, coordinator: CoordinatorPages) -> APIRouter:
    """A router with what both rooms have; a room adds its own pages to it."""
    router = APIRouter()
    annotator.add(router)
    coordinator.add(router)

    @router.get("")
    def first(request: Request) -> Response:
        """The coordinator's list, or the annotator's welcome."""
        coordinates = person(request).role == "coordinator"  # an account has one role
        return coordinator.listed(request) if coordinates else annotator.welcome(request)

    return router


def _cannot_invite(wanted: list[str], known: Sequence[Person], say: Say) -> Mistake | None:
    """Why these people cannot be invited, and the names that can be, which stay in the box."""
    if not wanted or len(wanted) > MOST_NAMES:
        return Mistake(say("workplace.people.nobody", most=MOST_NAMES), "\n".join(wanted))
    linked = {one.name for one in known if one.invited}
    if odd := [name for name in wanted if not people.is_valid_name(name)]:
        fine = "\n".join(name for name in wanted if name not in odd)
        return Mistake(say("workplace.people.odd", name=odd[0][:100]), fine)
    if twice := [name for name in wanted if name in linked]:
        fine = "\n".join(name for name in wanted if name not in linked)
        return Mistake(say("workplace.people.twice", names=", ".join(twice)), fine)
    return None
