"""The pages of Talk: one page, and what its script asks for.

Everything that is said travels in the body of a request, never in an address, so it is in no log. Nothing here writes
to a file. A conversation begins with the first thing that someone does, not with looking at the page.

An answer travels as one JSON object per line, as it is written, and the work ends with the connection: the framework
would notice a browser that left only when it sends the next line; here both are waited for, so a model that is silent
is stopped as well. A conversation is saved as a file by the browser; no copy stays here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from compeer.conversation import ChatSession, ChatSettings, TurnResult, sampling_for
from compeer.conversation.engine import Assessed, TurnEvent
from compeer.conversation.session import with_pins
from compeer.errors import UserError
from compeer.models import open_model
from compeer.reasoning import STEPS, Control, Pins
from compeer.reasoning.schema import KEYS, write_value
from compeer.safety import ConversationGuard
from compeer.safety.guard import Guard
from compeer.safety.helplines import country as country_of
from compeer.safety.messages import Breaks
from compeer.studio.access.people import RequestRefused, visit
from compeer.studio.helplines import help_countries, visitor_country
from compeer.studio.pages import pages
from compeer.studio.rooms.talk import session as care
from compeer.studio.rooms.talk import session as told
from compeer.studio.rooms.talk.session import (
    LARGEST,
    PATIENCE,
    Explained,
    Key,
    Live,
    Memory,
    Trouble,
    Waiting,
    picture,
    trouble_of,
    voices,
)
from compeer.studio.settings import StudioSettings
from compeer.studio.words import Say
from compeer.typed import from_json

#: characters of a message, messages of a conversation, answers to one message
LONGEST, TURNS, ANSWERS = 6000, 300, 12

Labels = dict[str, str | int]


class SayRequest(msgspec.Struct):
    """A new message. `seen`: how many turns the page shows."""

    text: str
    seen: int
    pictures: list[str] = []

    def words(self) -> str:
        text = self.text.strip()
        if not text or len(text) > LONGEST:
            raise Trouble("message", 422, most=LONGEST)
        return text


class Again(msgspec.Struct):
    """Another answer to the last message, with these conclusions fixed."""

    seen: int
    pins: Labels = {}


class Edit(msgspec.Struct):
    """A step in the person's words, and conclusions of it that they fix."""

    seen: int
    step: str
    text: str
    labels: Labels = {}

    def __post_init__(self) -> None:
        if not self.labels.keys() <= KEYS.keys():
            raise ValueError("unknown labels")


class Choose(msgspec.Struct):
    """One of several: an earlier answer, or a model."""

    seen: int
    which: int


class Fix(msgspec.Struct):
    """Every conclusion that is fixed from now on; what is not named is released."""

    pins: Labels


class Where(msgspec.Struct):
    """Whose helplines to show; None: of several countries."""

    country: str | None


def room_for_a_turn(conversation: ChatSession) -> None:
    if len(conversation.turns) >= TURNS:
        raise Trouble("turns", most=TURNS)


def room_for_an_answer(conversation: ChatSession) -> None:
    if conversation.turns and len(conversation.turns[-1].others) + 1 >= ANSWERS:
        raise Trouble("answers", most=ANSWERS)


class Lines(Response):
    """A response that is written line by line while somebody reads it."""

    media_type = "application/x-ndjson"

    def __init__(self, lines: AsyncGenerator[dict[str, Any], None]) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})  # a proxy that collects the stream would spoil it
        del self.headers["content-length"]
        self.lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        telling = asyncio.create_task(self._tell(send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            gone = not telling.done()
            telling.cancel()
            outcome = (await asyncio.gather(telling, leaving, return_exceptions=True))[0]
        if not gone and isinstance(outcome, Exception):
            raise outcome

    async def _tell(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self.lines) as lines:
            async for line in lines:
                await send({"type": "http.response.body", "body": msgspec.json.encode(line) + b"\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def as_json(conversation: ChatSession) -> str:
    """Everything, for programs: words, thinking, earlier answers, pictures."""
    return json.dumps(conversation.as_dict(), ensure_ascii=False, indent=2) + "\n"


def as_text(conversation: ChatSession, say: Say) -> str:
    """What was said and thought, for reading."""
    saved = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [say("talk.file.head", model=conversation.model.name.partition("@")[0], saved=saved)]
    for turn in conversation.turns:
        said = turn.said + (f" {say('talk.file.picture', count=len(turn.images))}" if turn.images else "")
        parts += [f"{say('talk.you')}\n{said}", f"{say('talk.supporter')}\n{_answer(turn.answer, say)}"]
        parts += [f"{say('talk.other')}\n{_answer(other, say)}" for other in turn.others]
    if conversation.unanswered is not None:
        parts.append(f"{say('talk.you')}\n{conversation.unanswered.text}")
    return "\n\n".join(parts) + "\n"


def _answer(result: TurnResult, say: Say) -> str:
    lines = [result.reply or "…"]
    lines += filter(None, (result.outcome.note,))
    for step in STEPS:
        if step in result.parsed.texts:
            lines.append(f"  [{say(f'talk.step.{step}')}] {result.parsed.texts[step]}")
    named = [write_value(label, value, say.language) for label, value in result.parsed.labels.items()]
    return "\n".join([*lines, *([f"  ({' · '.join(named)})"] if named else [])])


T = TypeVar("T")
SWEEP = 60.0  # seconds


def routes(settings: StudioSettings, memory: Memory | None = None) -> APIRouter:
    kept = memory or Memory()
    models = voices(settings)
    guard = Guard(open_model(settings.guard, base_url=settings.base_url, patience=PATIENCE)) if settings.guard else None
    country_of(settings.country)  # a wrong code is said at the start

    @asynccontextmanager
    async def life(_: object) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(kept))
        try:
            yield
        finally:
            sweeping.cancel()
            kept.forget_all()
            for voice in models:
                await voice.model.close()
            if guard is not None:
                await guard.close()

    router = APIRouter(lifespan=life, route_class=Explained)

    def home(request: Request) -> str | None:
        return visitor_country(settings.country, request.headers.get("accept-language"), visit(request).language)

    def begun(request: Request) -> Live:
        def begin() -> Live:
            where = home(request)
            manner = ChatSettings(sampling=sampling_for(models[0].model))
            safety = ConversationGuard(country=where, use_locale=False, model=guard, breaks=Breaks())
            return Live(ChatSession(models[0].model, manner, safety), 0, where)

        return kept.open(_key(request), begin)

    def shown(request: Request) -> Response:
        live = kept.find(_key(request))
        return JSONResponse(told.state(live, visit(request).language, _say(request), home(request)))

    @router.get("")
    def page(request: Request) -> Response:
        language = visit(request).language
        what, call = care.opening(language)
        words = {key: _say(request)(key) for key in _say(request).words if key.startswith("talk.")}
        settled = {
            "words": words,
            "models": [voice.as_dict() for voice in models],
            "countries": help_countries(),
            "picture": LARGEST,
            "longest": LONGEST,
            **told.vocabulary(language),
        }
        return pages(request).page(request, "talk/page.html", what=what, call=call, settled=settled)

    @router.get("/state")
    def state(request: Request) -> Response:
        return shown(request)

    @router.post("/say")
    async def say(request: Request) -> Response:
        given = await _asked(request, SayRequest)
        live = _present(begun(request), given.seen)
        if given.pictures and not live.conversation.model.sees:
            raise Trouble("picture_blind", 422)
        images = live.attached(given.pictures)
        room_for_a_turn(live.conversation)
        return Lines(_answer_lines(request, live, live.conversation.say(given.words(), images=images)))

    @router.post("/again")
    async def again(request: Request) -> Response:
        given = await _asked(request, Again)
        live = _present(begun(request), given.seen)
        room_for_an_answer(live.conversation)
        pins = with_pins(live.conversation.settings.pins, given.pins)
        return Lines(_answer_lines(request, live, live.conversation.again(Control(pins))))

    @router.post("/edit")
    async def edit(request: Request) -> Response:
        given = await _asked(request, Edit)
        live = _present(begun(request), given.seen)
        room_for_an_answer(live.conversation)
        return Lines(_answer_lines(request, live, live.conversation.edit(given.step, given.text, **given.labels)))

    @router.post("/stop")
    async def stop(request: Request) -> Response:
        live = kept.find(_key(request))
        if live is not None:
            await live.stop()
        return shown(request)

    @router.post("/choose")
    async def choose(request: Request) -> Response:
        given = await _asked(request, Choose)
        _present(begun(request), given.seen).choose(given.which)
        return shown(request)

    @router.post("/pins")
    async def pins(request: Request) -> Response:
        given = await _asked(request, Fix)
        begun(request).conversation.settings.pins = Pins.of(given.pins)
        return shown(request)

    @router.post("/model")
    async def model(request: Request) -> Response:
        given = await _asked(request, Choose)
        if not 0 <= given.which < len(models):
            raise RequestRefused(422, "invalid", "a model that is not here")
        _present(begun(request), given.seen).speak(given.which, models[given.which])
        return shown(request)

    @router.post("/country")
    async def country(request: Request) -> Response:
        given = await _asked(request, Where)
        _present(begun(request), None).move(country_of(given.country) if given.country else None)
        return shown(request)

    @router.post("/picture")
    async def attach(request: Request) -> Response:
        live = begun(request)
        if not live.conversation.model.sees:
            raise Trouble("picture_blind", 422)
        found = picture(await request.body())
        live.attach(found)
        return JSONResponse({"picture": found.key})

    @router.get("/picture/{key}")
    def seen(request: Request, key: str) -> Response:
        live = kept.find(_key(request))
        found = live.pictures.get(key) if live else None
        if found is None:
            raise RequestRefused(404, "missing", "a picture that is not in this conversation")
        return Response(found.data, media_type=found.kind, headers={"content-security-policy": "default-src 'none'"})

    @router.get("/conversation.{form}")
    def save(request: Request, form: str) -> Response:
        live = kept.find(_key(request))
        if live is None or form not in ("json", "txt"):
            raise RequestRefused(404, "missing", "no conversation to save")
        conversation = live.conversation
        text = as_json(conversation) if form == "json" else as_text(conversation, _say(request))
        headers = {"content-disposition": f'attachment; filename="conversation.{form}"'}
        kind = "application/json" if form == "json" else "text/plain"
        return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)

    @router.post("/delete")
    async def delete(request: Request) -> Response:
        kept.forget(_key(request))
        return shown(request)

    return router


async def _answer_lines(
    request: Request, live: Live, events: AsyncGenerator[TurnEvent, None]
) -> AsyncGenerator[dict[str, Any], None]:
    """The lines of an answer: what it means for the banner, its pieces, the turn as a whole, or what went wrong."""
    say = _say(request)
    try:
        async with aclosing(live.answer(events)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Assessed):
                    yield {"kind": "before", "reminder": live.reminder, **told.banner_told(live, say)}
                elif isinstance(piece, Waiting):
                    yield {"kind": "wait"}
                elif line := told.event_told(piece):
                    yield line
        turns = [told.turn_told(live, turn, say) for turn in live.conversation.turns]
        yield {"kind": "turn", "turn": turns[-1], "turns": turns, **told.banner_told(live, say)}
    except Trouble as trouble:
        yield {"kind": "error", "error": trouble.told(say, visit(request).person)}
    except UserError as error:
        yield {"kind": "error", "error": trouble_of(error).told(say, visit(request).person)}


async def _sweep(memory: Memory) -> None:
    while True:
        await asyncio.sleep(SWEEP)
        memory.sweep()


def _key(request: Request) -> Key:
    visitor = visit(request)
    return (visitor.person.id if visitor.person else "", visitor.session.number)


def _say(request: Request) -> Say:
    return pages(request).say[visit(request).language]


def _present(live: Live, seen: int | None) -> Live:
    """The conversation, if nothing is being written in it and it is the one that the page shows."""
    if live.busy:
        raise Trouble("busy")
    if seen is not None and seen != len(live.conversation.turns):
        raise Trouble("elsewhere")
    return live


async def _asked(request: Request, kind: type[T]) -> T:
    try:
        return from_json(await request.body(), kind)
    except msgspec.MsgspecError:
        raise RequestRefused(422, "invalid", "a request that makes no sense") from None
