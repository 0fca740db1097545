"""Rooms and the parts they share, interface texts, whom to call, and pages made of templates with all of it.

    return pages(request).page(request, "runs/list.html", runs=found)

**Texts.** Every text stands once, both languages side by side, under a key that begins with the name of its room (or of
a part of the shell), in JSON files: a room's in its folder (`words.json`), the shell's in `look`. `{name}` in a text is
filled in by the page. A test checks that every key that is used exists, that none is unused, and that both languages
have the same gaps. The Chinese is written for a Chinese reader, not translated word for word.

**Templates** of the shell are in look/templates; those of a room, or of a part that rooms share, are in its own
templates folder and are named "ROOM/FILE". Whatever a template prints is escaped. Every template has `say` (texts),
`visit`, `person`, `rooms`, `room` (the name of the current one), `help` (whom to call), `asset`, `languages`, and the
helpers of the rooms.

**Files for the browser** (look/static, a room's static) are read once at the start, so an address can only name one of
them. Their addresses carry a hash, so a browser keeps them until they change.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse

from compeer.errors import UserError
from compeer.reasoning.ontology import LANGUAGES, Language
from compeer.safety.helplines import country as default_country
from compeer.safety.helplines import help_for, helpline
from compeer.safety.levels import Danger
from compeer.studio.access import THEMES, LinkSource, RequestRefused, Role, StudioPerson, visit
from compeer.typed import from_json

LOOK = Path(__file__).parent / "look"
CUT = "\f"  # a character that no page shows


class InterfaceText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    en: str
    zh: str


Words = Mapping[str, InterfaceText]


@cache
def read_words(folder: Path) -> Words:
    """All texts of the JSON files in a folder."""
    files = sorted(folder.glob("*.json"))
    return merge_words(from_json(file.read_bytes(), dict[str, InterfaceText]) for file in files)


def merge_words(parts: Iterable[Words]) -> Words:
    """The texts of several parts; the same key in two of them is an error."""
    merged: dict[str, InterfaceText] = {}
    for part in parts:
        if repeated := merged.keys() & part.keys():
            raise ValueError(f"Texts with the same key: {', '.join(sorted(repeated))}")
        merged |= part
    return merged


class Say:
    """The texts of one language, called with a key. An unknown key is an error, never a blank.

    >>> Say({"a.b": InterfaceText("{n} runs", "{n} 次运行")}, "zh")("a.b", n=2)
    '2 次运行'
    """

    def __init__(self, words: Words, language: Language) -> None:
        self.words, self.language = words, language

    def __call__(self, key: str, **values: Any) -> str:
        text: str = getattr(self.words[key], self.language)
        return text.format(**values) if values else text

    def knows(self, key: str) -> bool:
        return key in self.words


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Templates, files for the browser and texts under one name, for the pages of one room or of several.

    They are in the part's folder: templates/, static/ and JSON files of texts. `helpers`: functions that its templates
    call, by name.
    """

    name: str
    folder: Path
    helpers: Mapping[str, Callable[..., Any]] = {}

    @property
    def words(self) -> Words:
        return read_words(self.folder)


class Room(Part, frozen=True, kw_only=True):
    """One room of the studio.

    Its pages are under /NAME. Its texts have at least NAME.name, NAME.about and NAME.off, the sentence that says what
    is missing in a studio where the room is closed.
    """

    router: APIRouter | None  # None: closed in this studio
    roles: tuple[Role, ...]
    links: LinkSource | None = None  # personal links that this room hands out
    uploads: tuple[str, ...] = ()  # paths below the room's, such as "/picture", that accept more than a form
    uses: tuple[Part, ...] = ()  # what it shares with other rooms
    explain: Callable[[Request, UserError], Response] | None = None  # the answer to an error that its pages raise

    @property
    def path(self) -> str:
        return f"/{self.name}"

    def welcomes(self, person: StudioPerson) -> bool:
        """Whether it is shown to someone. Invited people are led only to where they were invited."""
        invited_elsewhere = self.links is not None and person.rooms is not None and self.name not in person.rooms
        return person.role in self.roles and not invited_elsewhere


def parts_of(rooms: Iterable[Room]) -> list[Part]:
    """The rooms and what they share, each once."""
    return list({part.name: part for room in rooms for part in (*room.uses, room)}.values())


_REGION = re.compile(r"(?:^|,)\s*[A-Za-z]{2,3}(?:-[A-Za-z]{4})?-([A-Za-z]{2})\b")


def visitor_country(setting: str | None, accepted: str | None, language: Language) -> str | None:
    """The country whose helplines are shown first: the studio's setting, else the region that the browser names, else
    what `compeer.safety` knows; None: of several countries.

    >>> visitor_country(None, "en-GB,en;q=0.9", "en"), visitor_country("NZ", "en-GB", "en")
    ('GB', 'NZ')
    """
    for region in () if setting else _REGION.findall(accepted or ""):
        if helpline(region):
            return str(region).upper()
    return default_country(setting, language)


def help_lines(
    country: str | None, language: Language, danger: Danger = "suicide", *, poison: bool = False
) -> dict[str, Any]:
    """Emergency numbers, the one to call first at the front; helplines for a danger; the directory of all countries.

    >>> [one["shown"] for one in help_lines("CN", "en")["emergency"]]
    ['120 (ambulance)', '110 (police)']
    """
    found = help_for(country, language, danger, poison=poison)
    shown = [part.strip() for part in found.emergency.split("/")]
    numbers = [{"shown": one, "tel": digits.group()} for one in shown if (digits := re.search(r"\d+", one))]
    lines = []
    for one in found.lines:
        chinese = one.hours_zh or ("24 小时" if one.hours == "24/7" else one.hours)
        line = {name: getattr(one, name) for name in ("country", "name", "phone", "tel", "text", "url")}
        lines.append(line | {"hours": chinese if language == "zh" else one.hours})
    return {
        "country": found.country,
        "emergency": sorted(numbers, key=lambda one: one["tel"] != found.emergency_tel) if found.country else [],
        "lines": lines,
        "directory": found.directory,
        "directory_url": f"https://{found.directory}",
    }


class Pages:
    def __init__(self, rooms: Sequence[Room]) -> None:
        self.rooms = tuple(rooms)
        parts = parts_of(rooms)
        words = merge_words([read_words(LOOK), *(part.words for part in parts)])
        self.say = {language: Say(words, language) for language in LANGUAGES}
        self.files = dict(_files({"look": LOOK, **{part.name: part.folder for part in parts}}))
        hashes = {name: hashlib.sha256(data).hexdigest()[:12] for name, (data, _) in self.files.items()}
        inner = {part.name: jinja2.FileSystemLoader(part.folder / "templates") for part in parts}
        self.templates = jinja2.Environment(
            loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(LOOK / "templates"), jinja2.PrefixLoader(inner)]),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals["asset"] = lambda name: f"/static/{name}?v={hashes[name]}"
        self.templates.globals |= {"themes": THEMES, "languages": LANGUAGES}
        for part in parts:
            self.templates.globals |= part.helpers

    def page(self, request: Request, template: str, status: int | None = None, **values: Any) -> HTMLResponse:
        text = self.templates.get_template(template).render(self._values(request, values))
        return HTMLResponse(text, status or _status(values))

    def flow(self, request: Request, template: str, **values: Any) -> Response:
        """A page in two parts, cut where its template prints `cut`: the first is shown while the rest is computed.

        What takes long is a function, which the template calls below the cut.
        """
        parts = self.templates.get_template(template).generate(self._values(request, {"cut": CUT, **values}))
        return StreamingResponse(_halves(parts), _status(values), media_type="text/html")

    def _values(self, request: Request, values: dict[str, Any]) -> dict[str, Any]:
        visitor, path, query = visit(request), request.scope["path"], request.url.query
        country = visitor_country(request.app.state.settings.country, visitor.accepted, visitor.language)
        return {
            "say": self.say[visitor.language],
            "visit": visitor,
            "person": visitor.person,
            "rooms": [room for room in self.rooms if visitor.person and room.welcomes(visitor.person)],
            # where the forms of the frame lead back to: this page, if it can be requested again
            "here": (f"{path}?{query}" if query else path) if request.method == "GET" else "/",
            "help": help_lines(country, visitor.language),
            "room": room.name if (room := self.room_of(request)) else None,
            **values,
        }

    def room_of(self, request: Request) -> Room | None:
        """The room whose page is asked for."""
        return next((room for room in self.rooms if f"{request.scope['path']}/".startswith(f"{room.path}/")), None)

    def explain(self, request: Request, refusal: RequestRefused) -> Response:
        """A refusal as a page, or as JSON for a script: what went wrong, what is safe and what to do."""
        seconds = {"seconds": max(1, round(refusal.wait + 0.5))} if refusal.wait else {}
        headers = {"retry-after": str(seconds["seconds"])} if seconds else {}
        explained = self.explained(request, refusal.status, f"error.{refusal.kind}", values=seconds)
        explained.headers.update(headers)
        return explained

    def explained(
        self,
        request: Request,
        status: int,
        key: str,
        template: str = "error.html",
        values: Mapping[str, Any] = {},
        **more: Any,
    ) -> Response:
        """The same for any refusal whose texts are KEY.title, .what, .safe and .next. `more`: for a script."""
        say = self.say[visit(request).language]
        told = {part: say(f"{key}.{part}") for part in ("title", "what", "safe")}
        told["next"] = say(f"{key}.next", **values)
        if "text/html" not in request.headers.get("accept", ""):
            return JSONResponse({"error": {"status": status, **more, **told}}, status)
        return self.page(request, template, status, status_code=status, **told)

    def static(self, name: str) -> Response:
        if name not in self.files:
            raise RequestRefused(404, "missing", "no such file")
        data, kind = self.files[name]
        return Response(data, media_type=kind, headers={"cache-control": "public, max-age=31536000, immutable"})


def _files(folders: Mapping[str, Path]) -> Iterator[tuple[str, tuple[bytes, str]]]:
    """The files of every static folder with their type, by the name under which a page asks for them."""
    for name, folder in folders.items():
        for path in sorted(path for path in (folder / "static").rglob("*") if path.is_file()):
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            yield f"{name}/{path.relative_to(folder / 'static').as_posix()}", (path.read_bytes(), kind)


def _status(values: dict[str, Any]) -> int:
    """Status 422 for a page that says what is wrong with a form, else 200."""
    return 200 if values.get("wrong") is None else 422


def _halves(parts: Iterator[str]) -> Iterator[str]:
    above: list[str] = []
    for part in parts:
        if part == CUT:
            break
        above.append(part)
    yield "".join(above)
    yield "".join(parts)


def pages(request: Request) -> Pages:
    found: Pages = request.app.state.pages
    return found


def say_in(request: Request) -> Say:
    """The texts in the visitor's language."""
    return pages(request).say[visit(request).language]
