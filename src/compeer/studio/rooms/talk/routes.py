"""The pages of Talk: one page, and what its script asks for.

Everything that is said travels in the body of a request, never in an address, so it is in no log. Nothing here writes
to a file. A conversation begins with the first thing that someone does, not with looking at the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from compeer.chat import Conversation
from compeer.chat import Settings as Manner
from compeer.errors import UserError
from compeer.models import open_model
from compeer.reasoning import Control, Event, Pins
from compeer.safety import Before, Guarded
from compeer.safety.guard import Guard
from compeer.safety.helplines import country as country_of
from compeer.studio.access.refused import Refused
from compeer.studio.access.visit import visit
from compeer.studio.pages import pages
from compeer.studio.rooms.talk import asked, care, export, told
from compeer.studio.rooms.talk.live import Live, Waiting
from compeer.studio.rooms.talk.memory import Key, Memory
from compeer.studio.rooms.talk.pictures import LARGEST, picture
from compeer.studio.rooms.talk.stream import Lines
from compeer.studio.rooms.talk.trouble import Explained, Trouble, trouble_of
from compeer.studio.rooms.talk.voices import PATIENCE, voices
from compeer.studio.settings import Settings
from compeer.studio.words import Say
from compeer.typed import from_json

T = TypeVar("T")
SWEEP = 60.0  # seconds


def routes(settings: Settings, memory: Memory | None = None) -> APIRouter:
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
        return care.home(settings.country, request.headers.get("accept-language"), visit(request).language)

    def begun(request: Request) -> Live:
        def begin() -> Live:
            where = home(request)
            manner = Manner(prompt=models[0].prompt)
            return Live(Conversation(models[0].model, manner, Guarded(country=where, guard=guard)), 0, where)

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
            "countries": care.countries(),
            "picture": LARGEST,
            "longest": asked.LONGEST,
            **told.vocabulary(language),
        }
        return pages(request).page(request, "talk/page.html", what=what, call=call, settled=settled)

    @router.get("/state")
    def state(request: Request) -> Response:
        return shown(request)

    @router.post("/say")
    async def say(request: Request) -> Response:
        given = await _asked(request, asked.Say)
        live = _present(begun(request), given.seen)
        if given.pictures and not live.conversation.model.sees:
            raise Trouble("picture_blind", 422)
        images = live.attached(given.pictures)
        asked.room_for_a_turn(live.conversation)
        return Lines(_answer(request, live, live.conversation.say(given.words(), images=images)))

    @router.post("/again")
    async def again(request: Request) -> Response:
        given = await _asked(request, asked.Again)
        live = _present(begun(request), given.seen)
        asked.room_for_an_answer(live.conversation)
        pins = asked.merged(live.conversation.settings.pins, given.pins)
        return Lines(_answer(request, live, live.conversation.again(Control(pins))))

    @router.post("/edit")
    async def edit(request: Request) -> Response:
        given = await _asked(request, asked.Edit)
        live = _present(begun(request), given.seen)
        asked.room_for_an_answer(live.conversation)
        return Lines(_answer(request, live, live.conversation.edit(given.step, given.text, **given.labels)))

    @router.post("/stop")
    async def stop(request: Request) -> Response:
        live = kept.find(_key(request))
        if live is not None:
            await live.stop()
        return shown(request)

    @router.post("/choose")
    async def choose(request: Request) -> Response:
        given = await _asked(request, asked.Choose)
        _present(begun(request), given.seen).choose(given.which)
        return shown(request)

    @router.post("/pins")
    async def pins(request: Request) -> Response:
        given = await _asked(request, asked.Fix)
        begun(request).conversation.settings.pins = Pins.of(given.pins)
        return shown(request)

    @router.post("/model")
    async def model(request: Request) -> Response:
        given = await _asked(request, asked.Choose)
        if not 0 <= given.which < len(models):
            raise Refused(422, "invalid", "a model that is not here")
        _present(begun(request), given.seen).speak(given.which, models[given.which])
        return shown(request)

    @router.post("/country")
    async def country(request: Request) -> Response:
        given = await _asked(request, asked.Where)
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
            raise Refused(404, "missing", "a picture that is not in this conversation")
        return Response(found.data, media_type=found.kind, headers={"content-security-policy": "default-src 'none'"})

    @router.get("/conversation.{form}")
    def save(request: Request, form: str) -> Response:
        live = kept.find(_key(request))
        if live is None or form not in ("json", "txt"):
            raise Refused(404, "missing", "no conversation to save")
        conversation = live.conversation
        text = export.as_json(conversation) if form == "json" else export.as_text(conversation, _say(request))
        headers = {"content-disposition": f'attachment; filename="conversation.{form}"'}
        kind = "application/json" if form == "json" else "text/plain"
        return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)

    @router.post("/delete")
    async def delete(request: Request) -> Response:
        kept.forget(_key(request))
        return shown(request)

    return router


async def _answer(request: Request, live: Live, events: AsyncIterator[Event]) -> AsyncGenerator[dict[str, Any], None]:
    """The lines of an answer: what it means for the banner, its pieces, the turn as a whole, or what went wrong."""
    say = _say(request)
    try:
        async with aclosing(live.answer(events)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Before):
                    yield {"kind": "before", "reminder": live.reminder, **told.banner_told(live, say)}
                elif isinstance(piece, Waiting):
                    yield {"kind": "wait"}
                elif line := told.event_told(piece):
                    yield line
        turn = told.turn_told(live, live.conversation.turns[-1], say)
        yield {"kind": "turn", "turn": turn, **told.banner_told(live, say)}
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
        raise Refused(422, "invalid", "a request that makes no sense") from None
