"""Making pages from templates and texts, and serving the files that they load.

    return pages(request).page(request, "runs/list.html", runs=found)

Templates of the shell are in look/templates; those of a room, or of a part that rooms share, are in its own templates
folder and are named "ROOM/FILE". Whatever a template prints is escaped. Every template has `say` (texts), `visit`,
`person`, `rooms`, `room` (the name of the current one), `help` (whom to call) and `asset`.

Files for the browser (look/static, a room's static) are read once at the start, so an address can only name one of
them. Their addresses carry a hash, so a browser keeps them until they change.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from compeer.reasoning.ontology import LANGUAGES
from compeer.studio.access.people import THEMES, RequestRefused, StudioPerson, visit
from compeer.studio.helplines import help_lines, visitor_country
from compeer.studio.room import Room, parts_of
from compeer.studio.words import Say, merge_words, read_words

LOOK = Path(__file__).parent / "look"
CUT = "\f"  # a character that no page shows


class Pages:
    def __init__(self, rooms: Sequence[Room]) -> None:
        self.rooms = tuple(rooms)
        parts = parts_of(rooms)
        words = merge_words([read_words(LOOK), *(part.words for part in parts)])
        self.say = {language: Say(words, language) for language in LANGUAGES}
        self.assets = Assets({"look": LOOK, **{part.name: part.folder for part in parts}})
        inner = {part.name: jinja2.FileSystemLoader(part.folder / "templates") for part in parts}
        self.templates = jinja2.Environment(
            loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(LOOK / "templates"), jinja2.PrefixLoader(inner)]),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals["asset"] = self.assets.address
        self.templates.globals["themes"] = THEMES

    def render(self, request: Request, template: str, **values: Any) -> str:
        return self.templates.get_template(template).render(self._values(request, values))

    def flow(self, request: Request, template: str, **values: Any) -> Response:
        """A page in two parts, cut where its template prints `cut`: the first is shown while the rest is computed.

        What takes long is a function, which the template calls below the cut.
        """
        parts = self.templates.get_template(template).generate(self._values(request, {"cut": CUT, **values}))
        return StreamingResponse(_halves(parts), _status(values), media_type="text/html")

    def _values(self, request: Request, values: dict[str, Any]) -> dict[str, Any]:
        visitor = visit(request)
        allowed = [room for room in self.rooms if visitor.person and welcome(visitor.person, room)]
        path = request.scope["path"]
        return {
            "say": self.say[visitor.language],
            "visit": visitor,
            "person": visitor.person,
            "rooms": allowed,
            "here": _here(request),
            "help": self._help(request),
            "room": next((room.name for room in self.rooms if f"{path}/".startswith(f"{room.path}/")), None),
            **values,
        }

    def _help(self, request: Request) -> dict[str, Any]:
        """Whom to call, for the control that every page has."""
        language, accepted = visit(request).language, request.headers.get("accept-language")
        return help_lines(visitor_country(request.app.state.settings.country, accepted, language), language)

    def page(self, request: Request, template: str, status: int | None = None, **values: Any) -> HTMLResponse:
        return HTMLResponse(self.render(request, template, **values), status or _status(values))

    def explain(self, request: Request, refusal: RequestRefused) -> Response:
        """The page, or for a script the object, that says what went wrong, what is safe and what to do."""
        say = self.say[visit(request).language]
        seconds = {"seconds": max(1, round(refusal.wait + 0.5))} if refusal.wait else {}
        headers = {"retry-after": str(seconds["seconds"])} if seconds else {}
        explained = {part: say(f"error.{refusal.kind}.{part}") for part in ("title", "what", "safe")}
        explained["next"] = say(f"error.{refusal.kind}.next", **seconds)
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse({"error": {"status": refusal.status, **explained}}, refusal.status, headers)
        page = self.page(request, "error.html", refusal.status, status_code=refusal.status, **explained)
        page.headers.update(headers)
        return page


class Assets:
    """The files of every static folder, by the name under which a page asks for them."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self.files: dict[str, tuple[bytes, str]] = {}
        for name, folder in folders.items():
            for path in sorted((folder / "static").rglob("*")):
                if path.is_file():
                    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
                    self.files[f"{name}/{path.relative_to(folder / 'static').as_posix()}"] = (path.read_bytes(), kind)
        self._hashes = {name: hashlib.sha256(data).hexdigest()[:12] for name, (data, _) in self.files.items()}

    def address(self, name: str) -> str:
        return f"/static/{name}?v={self._hashes[name]}"

    def response(self, name: str) -> Response:
        if name not in self.files:
            raise RequestRefused(404, "missing", "no such file")
        data, kind = self.files[name]
        return Response(data, media_type=kind, headers={"cache-control": "public, max-age=31536000, immutable"})


def welcome(person: StudioPerson, room: Room) -> bool:
    """Whether a room is shown to someone. Invited people are led only to where they were invited."""
    invited_elsewhere = room.links is not None and person.rooms is not None and room.name not in person.rooms
    return person.role in room.roles and not invited_elsewhere


def _status(values: dict[str, Any]) -> int:
    """A page that says what is wrong with a form answers as the form could not be used."""
    return 200 if values.get("wrong") is None else 422


def _halves(parts: Iterator[str]) -> Iterator[str]:
    above: list[str] = []
    for part in parts:
        if part == CUT:
            break
        above.append(part)
    yield "".join(above)
    yield "".join(parts)


def _here(request: Request) -> str:
    """Where the forms of the frame lead back to: this page, if it can be requested again."""
    query = request.url.query
    return request.scope["path"] + (f"?{query}" if query else "") if request.method == "GET" else "/"


def pages(request: Request) -> Pages:
    found: Pages = request.app.state.pages
    return found


def say_in(request: Request) -> Say:
    """The texts in the visitor's language."""
    return pages(request).say[visit(request).language]
