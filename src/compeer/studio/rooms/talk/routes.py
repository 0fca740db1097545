"""The pages of Talk: one page, and what its script asks for.

Everything that is said travels in the body of a request, never in an address, so it is in no log. Nothing is written
to a file but the ratings that someone agreed to keep (`ratings`). A conversation begins with the first thing that
someone does, not with looking at the page. A request names its conversation, so two windows do not mix theirs up.

An answer travels as one JSON object per line, as it is written, and the work ends with the connection, also while the
model is silent: the framework waits for both. A conversation is saved as a file by the browser; no copy stays here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Body, Depends
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Send

from compeer.conversation import AnsweredTurn, ChatSession, ChatSettings, TurnResult, sampling_for
from compeer.conversation.engine import Assessed, TurnEvent
from compeer.conversation.session import with_pins
from compeer.errors import UserError
from compeer.models import open_model
from compeer.reasoning import STEPS, Control, Event, Pins
from compeer.reasoning.prompt import Think
from compeer.reasoning.schema import KEYS, write_value
from compeer.safety import ConversationGuard
from compeer.safety.guard import Guard
from compeer.safety.helplines import country as country_of
from compeer.safety.helplines import helplines
from compeer.safety.messages import Breaks
from compeer.studio.access import RequestRefused, needs, visit
from compeer.studio.pages import Say, pages, say_in, visitor_country
from compeer.studio.rooms.talk.page_state import opening, shown_help, shown_state, shown_turn, vocabulary
from compeer.studio.rooms.talk.ratings import KeptScope, Ratings, Thumb, record_of
from compeer.studio.rooms.talk.session import (
    LARGEST,
    PATIENCE,
    Key,
    Live,
    Memory,
    Thumbed,
    Trouble,
    Waiting,
    picture,
    trouble_of,
    voices,
)
from compeer.studio.settings import StudioSettings

#: characters of a message, messages of a conversation, answers to one message
LONGEST, TURNS, ANSWERS = 6000, 300, 12

#: what a request carries: messages and turns by their number, counted from 1; `seen` is how many turns the page shows
Number = Annotated[int, Body(embed=True)]
Text = Annotated[str, Body(embed=True)]
Optional = Annotated[str | None, Body(embed=True)]
Labels = Annotated[dict[str, str | int], Body(embed=True, default_factory=dict)]


def words(text: str) -> str:
    """A message, if it may be sent."""
    if not text.strip() or len(text.strip()) > LONGEST:
        raise Trouble("message", 422, most=LONGEST)
    return text.strip()


def room_for_a_turn(conversation: ChatSession) -> None:
    if len(conversation.turns) >= TURNS:
        raise Trouble("turns", most=TURNS)


def room_for_an_answer(conversation: ChatSession) -> None:
    if conversation.turns and len(conversation.turns[-1].others) + 1 >= ANSWERS:
        raise Trouble("answers", most=ANSWERS)


def as_text(conversation: ChatSession, say: Say) -> str:
    """What was said and thought, for reading."""
    saved = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [say("talk.file.head", model=conversation.model.name.partition("@")[0], saved=saved)]
    for turn in conversation.turns:
        said = turn.said + (f" {say('talk.file.picture', count=len(turn.images))}" if turn.images else "")
        parts += [f"{say('talk.you')}\n{said}", f"{say('talk.supporter')}\n{_answer(turn.answer, say)}"]
        parts += [f"{say('talk.other')}\n{_answer(other, say)}" for other in turn.others]
        for branch in turn.earlier:
            before = [f"{one.said}\n{one.answer.reply}" for one in branch]
            parts.append("\n".join([say("talk.file.earlier"), *before]))
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


SWEEP = 60.0  # seconds


def routes(settings: StudioSettings, memory: Memory | None = None) -> APIRouter:
    kept = memory or Memory()
    models, ratings = voices(settings), Ratings(settings.data)
    warming: dict[tuple[int, str, str | None], asyncio.Task[None]] = {}
    guard = Guard(open_model(settings.guard, base_url=settings.base_url, patience=PATIENCE)) if settings.guard else None
    country_of(settings.country)  # a wrong code is said at the start

    @asynccontextmanager
    async def life(_: object) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(kept))
        try:
            yield
        finally:
            sweeping.cancel()
            for task in warming.values():
                task.cancel()
            kept.forget_all()
            for voice in models:
                await voice.model.close()
            if guard is not None:
                await guard.close()

    router = APIRouter(lifespan=life)

    def home(request: Request) -> str | None:
        return visitor_country(settings.country, request.headers.get("accept-language"), visit(request).language)

    def opened(request: Request, which: str | None = None) -> Live:
        def begin() -> Live:
            where, think = home(request), kept.visit(_key(request)).think
            safety = ConversationGuard(country=where, use_locale=False, model=guard, breaks=Breaks())
            live = Live(ChatSession(models[0].model, ChatSettings(), safety), 0, where)
            live.speak(0, models[0], think)
            return live

        return kept.open(_key(request), begin, which)

    async def begun(request: Request, conversation: Optional = None) -> Live:
        """The conversation of a request, or a new one."""
        return opened(request, conversation)

    async def present(seen: Number, live: Live = Depends(begun)) -> Live:
        """The same, if it is the one that the page shows and nothing is being written in it."""
        return _present(live, seen)

    def shown(request: Request) -> Response:
        visited = kept.visit(_key(request))
        told_state = shown_state(visited, sampling_for(models[0].model).think, say_in(request), home(request))
        return JSONResponse(told_state | {"kept": ratings.scope(_key(request))})

    def warm(request: Request) -> None:
        """Prepare the model that will answer; each kind of answer once."""
        visited = kept.visit(_key(request))
        live = visited.lives.get(visited.current or "")
        kind = (live.voice if live else 0, visit(request).language, visited.think)
        if kind not in warming:
            warming[kind] = asyncio.create_task(models[kind[0]].warm(visit(request).language, visited.think))

    @router.get("")
    async def page(request: Request) -> Response:
        language = visit(request).language
        warm(request)
        what, call = opening(language)
        words = {key: say_in(request)(key) for key in say_in(request).words if key.startswith("talk.")}
        settled = {
            "words": words,
            "models": [msgspec.to_builtins(voice.as_dict()) for voice in models],
            "countries": sorted(helplines()),
            "picture": LARGEST,
            "longest": LONGEST,
            **vocabulary(language),
        }
        return pages(request).page(request, "talk/page.html", what=what, call=call, settled=settled)

    @router.get("/state")
    def state(request: Request) -> Response:
        return shown(request)

    @router.post("/say")
    async def say(
        request: Request,
        text: Text,
        pictures: Annotated[list[str] | None, Body(embed=True)] = None,
        live: Live = Depends(present),
    ) -> Response:
        if pictures and not live.conversation.model.sees:
            raise Trouble("picture_blind", 422)
        images = live.attached(pictures or [])
        room_for_a_turn(live.conversation)
        return Lines(_answer_lines(request, live, live.conversation.say(words(text), images=images)))

    @router.post("/again")
    async def again(request: Request, pins: Labels, live: Live = Depends(present)) -> Response:
        room_for_an_answer(live.conversation)
        fixed = with_pins(live.conversation.settings.pins, pins)
        return Lines(_answer_lines(request, live, live.conversation.again(Control(fixed))))

    @router.post("/edit")
    async def edit(request: Request, step: Text, text: Text, labels: Labels, live: Live = Depends(present)) -> Response:
        """A step in the person's words, and conclusions of it that they fix."""
        if not labels.keys() <= KEYS.keys():
            raise RequestRefused(422, "invalid", "unknown labels")
        room_for_an_answer(live.conversation)
        return Lines(_answer_lines(request, live, live.conversation.edit(step, text, **labels)))

    @router.post("/rewrite")
    async def rewrite(request: Request, number: Number, text: Text, live: Live = Depends(present)) -> Response:
        return Lines(_answer_lines(request, live, live.conversation.rewrite(number, words(text))))

    @router.post("/restore")
    async def restore(request: Request, number: Number, which: Number, live: Live = Depends(present)) -> Response:
        """A version of a message from before it was rewritten."""
        live.conversation.restore(number, which)
        return shown(request)

    @router.post("/rate")
    async def rate(
        request: Request,
        number: Number,
        thumb: Annotated[Thumb | None, Body(embed=True)],
        live: Live = Depends(present),
    ) -> Response:
        """A thumb on the answer to a message; None takes it back."""
        record(request, live, *live.rate(number, thumb))
        return shown(request)

    def record(request: Request, live: Live, turn: AnsweredTurn, thumbed: Thumbed) -> None:
        """Keep a rating, as far as the person agreed."""
        found = record_of(live.conversation, turn)
        if found is not None:
            ratings.rate(_key(request), thumbed.id, thumbed.thumb, found)

    @router.post("/consent")
    async def consent(
        request: Request, scope: Annotated[KeptScope, Body(embed=True)], conversation: Optional = None
    ) -> Response:
        """What is kept of ratings from now on, and of those in this conversation."""
        ratings.agree(_key(request), scope)
        live = kept.find(_key(request), conversation)
        if live is not None and scope != "off":
            for turn in live.conversation.turns:
                if (thumbed := live.thumbed(turn.answer)).thumb:
                    record(request, live, turn, thumbed)
        return shown(request)

    @router.get("/ratings.jsonl", dependencies=[Depends(needs("coordinator"))])
    def export(request: Request) -> Response:
        lines = b"".join(msgspec.json.encode(one) + b"\n" for one in ratings.export())
        headers = {"content-disposition": 'attachment; filename="ratings.jsonl"'}
        return Response(lines, media_type="application/jsonl; charset=utf-8", headers=headers)

    @router.post("/think")
    async def set_think(request: Request, think: Annotated[Think, Body(embed=True)]) -> Response:
        """How much is thought from now on, in all conversations of the visit."""
        kept.think(_key(request), think)
        for live in kept.visit(_key(request)).lives.values():
            live.speak(live.voice, models[live.voice], think)
        warm(request)
        return shown(request)

    @router.post("/new")
    async def new(request: Request) -> Response:
        kept.leave(_key(request))
        return shown(request)

    @router.post("/open", dependencies=[Depends(begun)])
    async def open_one(request: Request) -> Response:
        return shown(request)

    @router.post("/stop")
    async def stop(request: Request, conversation: Optional = None) -> Response:
        live = kept.find(_key(request), conversation)
        if live is not None:
            await live.stop()
        return shown(request)

    @router.post("/choose")
    async def choose(request: Request, which: Number, live: Live = Depends(present)) -> Response:
        live.choose(which)
        return shown(request)

    @router.post("/pins")
    async def fix(request: Request, pins: Labels, live: Live = Depends(begun)) -> Response:
        """Every conclusion that is fixed from now on; what is not named is released."""
        live.conversation.settings.pins = Pins.of(pins)
        return shown(request)

    @router.post("/model")
    async def model(request: Request, which: Number, live: Live = Depends(present)) -> Response:
        if not 0 <= which < len(models):
            raise RequestRefused(422, "invalid", "a model that is not here")
        live.speak(which, models[which], kept.visit(_key(request)).think)
        warm(request)
        return shown(request)

    @router.post("/country")
    async def move(request: Request, country: Optional, live: Live = Depends(begun)) -> Response:
        """Whose helplines to show; None: of several countries."""
        _present(live, None).move(country_of(country) if country else None)
        return shown(request)

    @router.post("/picture")
    async def attach(request: Request, which: str | None = None) -> Response:
        live = opened(request, which or None)
        if not live.conversation.model.sees:
            raise Trouble("picture_blind", 422)
        found = picture(await request.body())
        live.attach(found)
        return JSONResponse({"picture": found.key})

    @router.get("/picture/{key}")
    def seen(request: Request, key: str) -> Response:
        lives = kept.visit(_key(request)).lives.values()
        found = next((live.pictures[key] for live in lives if key in live.pictures), None)
        if found is None:
            raise RequestRefused(404, "missing", "a picture that is not in this conversation")
        return Response(found.data, media_type=found.kind, headers={"content-security-policy": "default-src 'none'"})

    @router.get("/conversation.{form}")
    def save(request: Request, form: str, which: str | None = None) -> Response:
        live = kept.find(_key(request), which)
        if live is None or form not in ("json", "txt"):
            raise RequestRefused(404, "missing", "no conversation to save")
        conversation = live.conversation
        text = conversation.as_json() if form == "json" else as_text(conversation, say_in(request))
        headers = {"content-disposition": f'attachment; filename="conversation.{form}"'}
        kind = "application/json" if form == "json" else "text/plain"
        return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)

    @router.post("/delete")
    async def delete(request: Request, conversation: Optional = None) -> Response:
        kept.forget(_key(request), conversation)
        return shown(request)

    return router


async def _answer_lines(
    request: Request, live: Live, events: AsyncGenerator[TurnEvent, None]
) -> AsyncGenerator[dict[str, Any], None]:
    """The lines of an answer: what it means for the banner, its pieces, the turn as a whole, or what went wrong."""
    say = say_in(request)
    try:
        async with aclosing(live.answer(events)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Assessed):
                    begun = {"conversation": live.id, "title": live.title, "reminder": live.reminder}
                    yield {"kind": "before", **begun, **shown_help(live, live.country, say)}
                elif isinstance(piece, Waiting):
                    yield {"kind": "wait"}
                elif isinstance(piece, Event):
                    yield msgspec.to_builtins(piece)
        turns = [shown_turn(live, turn, say) for turn in live.conversation.turns]
        yield {"kind": "turn", "turn": turns[-1], "turns": turns, **shown_help(live, live.country, say)}
    except UserError as error:
        yield {"kind": "error", "error": trouble_of(error).told(say, visit(request).person)}


class Lines(StreamingResponse):
    """A response that is written line by line while somebody reads it; the work ends as soon as they leave."""

    media_type = "application/x-ndjson"

    def __init__(self, told: AsyncGenerator[dict[str, Any], None]) -> None:
        self.told = told
        lines = (msgspec.json.encode(one) + b"\n" async for one in told)
        super().__init__(lines, headers={"x-accel-buffering": "no"})  # a proxy that collects the stream would spoil it

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self.told):  # not when its memory is tidied up
            await super().stream_response(send)


async def _sweep(memory: Memory) -> None:
    while True:
        await asyncio.sleep(SWEEP)
        memory.sweep()


def _key(request: Request) -> Key:
    visitor = visit(request)
    return (visitor.person.id if visitor.person else "", visitor.session.number)


def _present(live: Live, seen: int | None) -> Live:
    """The conversation, if nothing is being written in it and it is the one that the page shows."""
    if live.busy:
        raise Trouble("busy")
    if seen is not None and seen != len(live.conversation.turns):
        raise Trouble("elsewhere")
    return live
