"""The coordinator's pages: what there is, making a new one, its people, and personal links, which are shown once.

A room has a page of its own for one project or arena (`overview`) and a form of its own to make one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, Literal, NamedTuple

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from compeer.annotation import people
from compeer.annotation.founding import Kind, taken
from compeer.annotation.people import Invitation, Person
from compeer.annotation.shelf import OnShelf
from compeer.annotation.store import Store
from compeer.errors import UserError
from compeer.studio.access import Refused, journal, visit
from compeer.studio.pages import pages
from compeer.studio.rooms.workplace.door import Door
from compeer.studio.rooms.workplace.once import Once
from compeer.studio.settings import Settings, origin
from compeer.studio.words import Say

#: the random name of a page's forms
FormName = Annotated[str, Form(max_length=64)]
#: fields that every form for something new has
Named = Annotated[str, Form(max_length=1000)]
Typed = Annotated[str, Form(max_length=4000)]
Lease = Annotated[float, Form(gt=0, le=1440)]
Action = Literal["pause", "resume", "link", "revoke"]
MOST_NAMES = 200


class Link(NamedTuple):
    name: str
    address: str


class Coordination(Generic[Kind]):
    """What the coordinators of one room do. `things` is the part of the address before a number: /label/projects/3."""

    def __init__(
        self, door: Door[Kind], settings: Settings, things: str, shelf: Callable[[Store], list[OnShelf]]
    ) -> None:
        self.door, self.settings, self.things, self.shelf = door, settings, things, shelf
        self.store, self.once, self.room = door.store, Once(), door.room

    def at(self, number: int) -> str:
        return f"/{self.room}/{self.things}/{number}"

    def listed(self, request: Request) -> Response:
        """All that this person coordinates."""
        own = self.door.coordinator(request)
        found = [one for one in self.shelf(self.store) if own is None or one.id == own.project]
        values: dict[str, Any] = {"found": found, "may_create": own is None, "things": self.things}
        return pages(request).page(request, "workplace/list.html", **values)

    def blank(self, request: Request, given: dict[str, Any], wrong: str | None = None) -> Response:
        """The form for a new one, with what was filled in before and what was wrong with it."""
        if self.door.coordinator(request) is not None:
            raise Refused(403, "forbidden", "a coordinator of one project makes no other")
        values = {"given": given, "wrong": wrong, "form": self.once.issue(), "folders": self.settings.items}
        status = 200 if wrong is None else 422
        return pages(request).page(request, f"{self.room}/new.html", status, guarded=self.settings.guarded, **values)

    def create(self, request: Request, form: str, given: dict[str, Any], make: Callable[[Say], int]) -> Response:
        """Make a new one, or say what is wrong; `make` returns its number."""
        if self.door.coordinator(request) is not None:
            return self.blank(request, given)
        self.once.use(form)
        say = say_to(request)
        try:
            if taken(self.store, given["name"]):
                raise UserError(say("workplace.new.taken", name=given["name"].strip()))
            number = make(say)
        except UserError as error:
            address = visit(request).address
            journal.refused(f"nothing made: {error}", "POST", f"/{self.room}/new", "coordinator", address)
            return self.blank(request, given, str(error))
        return RedirectResponse(self.at(number), 303)

    def overview(
        self, request: Request, found: Kind, wrong: str | None, count: Callable[[], Any], **values: Any
    ) -> Response:
        """The page of one, in two parts: what `count` counts is sent when it is counted."""
        status = 200 if wrong is None else 422
        form, template = self.once.issue(), f"{self.room}/one.html"
        here = {"here_is": self.at(found.id), "form": form, "wrong": wrong}
        return pages(request).flow(request, template, status, found=found, count=count, **here, **values)

    def add(self, router: APIRouter, overview: Callable[[Request, Kind, str | None], Response]) -> None:
        """The routes of one: its page, invitations, and what is done with people."""
        one, store = f"/{self.things}/{{number}}", self.store

        @router.get(one)
        def look(request: Request, number: int) -> Response:
            return overview(request, self.door.coordinated(request, number), None)

        @router.post(f"{one}/invite")
        def invite(
            request: Request,
            number: int,
            form: FormName,
            names: Annotated[str, Form(max_length=20_000)] = "",
            role: Annotated[people.Role, Form()] = "annotator",
        ) -> Response:
            found = self.door.coordinated(request, number)
            self.once.use(form)
            wanted = list(dict.fromkeys(part.strip() for part in names.replace(",", "\n").splitlines() if part.strip()))
            if wrong := _unwelcome(wanted, people.everybody(store, number), say_to(request)):
                return overview(request, found, wrong)
            return self._links(request, number, [people.invite(store, number, name, role) for name in wanted])

        @router.post(f"{one}/people/{{person}}")
        def change(
            request: Request, number: int, person: int, form: FormName, action: Annotated[Action, Form()]
        ) -> Response:
            self.door.coordinated(request, number)
            self.once.use(form)
            name = next((each.name for each in people.everybody(store, number) if each.id == person), None)
            if name is None:
                raise Refused(404, "missing", "nobody of this number here")
            if action == "link":
                return self._links(request, number, [people.new_link(store, number, name)])
            if action == "revoke":
                people.revoke(store, number, name)
            else:
                people.pause(store, number, name, action == "pause")
            return RedirectResponse(self.at(number), 303)

    def _links(self, request: Request, number: int, made: Sequence[Invitation]) -> Response:
        public = self.settings.public
        base = origin(public) if public else f"http://{request.headers['host']}"
        shown = [Link(one.person.name, f"{base}/enter/{one.token}") for one in made]
        return pages(request).page(request, "workplace/links.html", here_is=self.at(number), links=shown)


def say_to(request: Request) -> Say:
    """The words in the language of whoever asks."""
    return pages(request).say[visit(request).language]


def _unwelcome(wanted: list[str], known: Sequence[Person], say: Say) -> str | None:
    """Why these people cannot be invited, all or none of them."""
    if not wanted or len(wanted) > MOST_NAMES:
        return say("workplace.people.nobody", most=MOST_NAMES)
    if odd := [name for name in wanted if not people.fit_name(name)]:
        return say("workplace.people.odd", name=odd[0][:100])
    linked = {one.name for one in known if one.key}
    if twice := [name for name in wanted if name in linked]:
        return say("workplace.people.twice", names=", ".join(twice))
    return None
