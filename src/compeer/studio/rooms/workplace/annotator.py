"""Where somebody at work finds a person to talk to, on every page of theirs: they read painful things.

Numbers are those of `compeer.safety.helplines`. First the line of the country that the browser names (en-GB), then
those of most of our readers in the order of the interface's language, then a directory for everywhere else.

A conversation as the pages of people at work show it: turns, with pictures counted through.

The annotator's pages: the welcome with its warning, one thing after another, skipping, undoing, a rest, pictures.

Everything works as plain forms. With a script the same addresses answer with an object that says where to go next, so
that a page whose studio is away for a moment keeps what was filled in.

What a room's people do is its `Trade`; how something is handed in is the room's own page, since answers differ.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, get_args

import msgspec
from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from compeer.cer.item import Said
from compeer.people.invitations import Own, Person
from compeer.people.refusal import LONGEST_NOTE
from compeer.safety.helplines import Helpline, directory, helpline, helplines
from compeer.studio.access import people as pictures
from compeer.studio.access import visit
from compeer.studio.pages import pages
from compeer.studio.rooms.workplace.links import Door
from compeer.studio.settings import Settings
from compeer.studio.words import Say

_REGION = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z]{4})?-([A-Za-z]{2})\b")


class Line(msgspec.Struct, frozen=True):
    """Who, a number or a name to show, and the address behind it."""

    where: str
    shown: str
    address: str


def lines(say: Say, accepted: str = "") -> list[Line]:
    """The helplines of a page; `accepted` is what the browser says about its languages."""
    known = helplines()
    near = [found for region in _REGION.findall(accepted[:200]) if (found := helpline(region))][:1]
    usual = [known["CN"], known["US"]] if say.language == "zh" else [known["US"], known["CN"]]
    names = {"US": say("workplace.help.us"), "CN": say("workplace.help.china")}
    unique = {one.phone: one for one in (*near, *usual)}  # 988 is the number of two countries
    shown = [_line(names.get(one.country, one.name), one) for one in unique.values()]
    return [*shown, Line(say("workplace.help.elsewhere"), directory(), f"https://{directory()}")]


def _line(where: str, one: Helpline) -> Line:
    return Line(where, one.phone, f"tel:{one.phone.replace(' ', '')}")


class Shown(msgspec.Struct, frozen=True):
    """One turn; pictures by their number in the conversation."""

    speaker: str
    text: str
    pictures: tuple[int, ...]


def turns(history: Sequence[Said]) -> list[Shown]:
    shown, next_picture = [], 0
    for turn in history:
        numbers = tuple(range(next_picture, next_picture + len(turn.images)))
        next_picture += len(turn.images)
        shown.append(Shown(turn.speaker, turn.text, numbers))
    return shown


Reason = Literal["unclear", "language", "private", "broken", "other"]
REASONS: tuple[Reason, ...] = get_args(Reason)

#: what forms of a bench send
FormName = Annotated[str, Form(min_length=16, max_length=64)]
Note = Annotated[str, Form(max_length=LONGEST_NOTE)]
Seconds = Annotated[float | None, Form()]


class Trade(Protocol):
    """What people do in a room. `key` is the name of one thing in its address, as it came from outside."""

    things: str  # the part of the address before the key

    def mine(self, me: Person) -> Own: ...
    def next(self, me: Person) -> Any | None: ...
    def view(self, me: Person, key: str) -> Any: ...
    def sheet(self, found: Any) -> dict[str, Any]: ...
    def idle(self, me: Person, mine: Any) -> dict[str, Any]: ...
    def skip(self, me: Person, key: str, reason: str, *, distress: bool, form: str) -> None: ...
    def undo(self, me: Person, form: str) -> Any | None: ...
    def picture(self, me: Person, key: str, number: int) -> Path: ...


class Bench:
    """The pages of one room at which people do its trade."""

    def __init__(self, door: Door[Any], trade: Trade, settings: Settings) -> None:
        self.door, self.trade, self.settings = door, trade, settings
        self.room, self.home = door.room, f"/{door.room}"
        self.work, self.begun = f"{self.home}/work", f"compeer_{door.room}"  # the cookie: the warning has been read

    def page(self, request: Request, template: str, **values: Any) -> Response:
        """A page with help on it, which every page of theirs has."""
        help_lines = lines(pages(request).say[visit(request).language], request.headers.get("accept-language", ""))
        return pages(request).page(request, template, lines=help_lines, **values)

    def show(self, request: Request, me: Person, found: Any, *, done: bool = False) -> Response:
        """The thing to judge, with the random names of its forms."""
        return self.page(
            request,
            f"{self.room}/work.html",
            mine=self.trade.mine(me),
            done=done,
            shown=round(time.time(), 3),
            reasons=REASONS,
            form=secrets.token_urlsafe(16),
            undo_form=secrets.token_urlsafe(16),
            **self.trade.sheet(found),
        )

    def welcome(self, request: Request) -> Response:
        me = self.door.annotator(request)
        values = {"mine": self.trade.mine(me), "paused": me.paused, "name": me.name}
        return self.page(request, "workplace/welcome.html", **values)

    def handed_in(self, request: Request) -> Response:
        return self.onward(request, f"{self.work}?done=1")

    def onward(self, request: Request, where: str | None) -> Response:
        """A redirect for a plain form, and for a script where to go; None: there was nothing to do."""
        if "text/html" in request.headers.get("accept", ""):
            return RedirectResponse(where or self.work, 303)
        return JSONResponse({"next": where})

    def add(self, router: APIRouter) -> None:
        """The routes that all benches have."""
        door, trade, one = self.door, self.trade, f"/{self.trade.things}/{{key}}"

        @router.post("/begin")
        def begin(request: Request) -> Response:
            door.annotator(request)
            answer = RedirectResponse(self.work, 303)
            seen, secure = _mark(request), self.settings.secure
            answer.set_cookie(self.begun, seen, path=self.home, samesite="lax", httponly=True, secure=secure)
            return answer

        @router.get("/work")
        def work(request: Request, done: bool = False) -> Response:
            me = door.annotator(request)
            if request.cookies.get(self.begun) != _mark(request):
                return RedirectResponse(self.home, 303)
            found = trade.next(me)
            if found is not None:
                return self.show(request, me, found, done=done)
            mine = trade.mine(me)
            values = {"mine": mine, "paused": me.paused, "undo_form": secrets.token_urlsafe(16)}
            return self.page(request, f"{self.room}/idle.html", **values, **trade.idle(me, mine))

        @router.get(f"{one}/skip")
        def ask_skip(request: Request, key: str) -> Response:
            trade.view(door.annotator(request), key)
            values = {"key": key, "things": trade.things, "form": secrets.token_urlsafe(16), "reasons": REASONS}
            return self.page(request, "workplace/skip.html", **values)

        @router.post(f"{one}/skip")
        def skip(
            request: Request,
            key: str,
            form: FormName,
            reason: Annotated[Reason, Form()] = "other",
            words: Annotated[str, Form(max_length=1000)] = "",
            distress: Annotated[bool, Form()] = False,
        ) -> Response:
            me = door.annotator(request)
            why = f"{reason}: {words.strip()}" if words.strip() else reason
            trade.skip(me, key, "" if distress else why, distress=distress, form=form)
            return self.onward(request, f"{self.home}/rest" if distress else self.work)

        @router.get("/rest")
        def rest(request: Request) -> Response:
            door.annotator(request)
            return self.page(request, "workplace/rest.html")

        @router.post("/undo")
        def undo(request: Request, form: FormName) -> Response:
            me = door.annotator(request)
            return self.onward(request, self.work if trade.undo(me, form) is not None else None)

        @router.get(f"{one}/pictures/{{number}}")
        def picture(request: Request, key: str, number: int) -> Response:
            file = trade.picture(door.annotator(request), key, number)
            return pictures.picture([file.name], 0, file.parent)


def took(seconds: float | None, shown: float | None) -> float | None:
    """How long somebody took: as the script counted, or without one since the page was sent."""
    return max(0.0, time.time() - shown) if seconds is None and shown is not None else seconds


def _mark(request: Request) -> str:
    """This session has read the warning; another one, even in the same browser, has not."""
    return hashlib.sha256(b"warned " + visit(request).session.number.encode()).hexdigest()[:24]
