"""A conversation in the room Talk: its model, its pictures, the answer that is being written; and all conversations.

Conversations are in this process, by session, and nowhere else; a session may have several. One is forgotten when it is
deleted, when nobody has written in it for two hours, and when the process ends. When there is no room for another, the
one that has been quiet for longest makes way, if it has been quiet for a while.

An answer is written by a task of its own, so that help is shown before the model has said a word, and so that deleting
everything ends it. Whoever reads the answer and leaves ends it too: the message is then without an answer, and can be
answered after all.

Errors are said so that the person knows what is safe and what to do (words `talk.error.KIND`). What a server or a
library said about it is a detail for whoever runs the studio. Pictures are checked by their first bytes, kept in
memory and handed to the model as data.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from compeer.conversation import AnsweredTurn, ChatSession, TurnResult, sampling_for
from compeer.conversation.engine import Assessed, HistoryTurn, TurnEvent, TurnRequest, TurnWriter, warm_up
from compeer.errors import UserError
from compeer.http_service import picture_type
from compeer.models import Model, ModelError, open_model
from compeer.models.request import Patience, TooLong
from compeer.models.shipped import Steering, steering
from compeer.models.spec import is_embedded, is_small
from compeer.models.weights import Weights, of_base, published
from compeer.reasoning import ControlError
from compeer.reasoning.ontology import Language
from compeer.reasoning.prompt import Think
from compeer.safety import ConversationGuard
from compeer.studio.access import RequestRefused, StudioPerson, visit
from compeer.studio.pages import Say, say_in
from compeer.studio.rooms.talk.ratings import Thumb
from compeer.studio.settings import StudioSettings

Kind = Literal[
    "model", "long", "control", "busy", "elsewhere", "message", "turns", "answers", "gone", "stopped", "refused",
    "picture_large", "picture_kind", "picture_blind", "picture_many", "conversations",
]  # fmt: skip


class Trouble(UserError):
    """Raise it where the page is to say something. `values` fill the gaps of the sentence."""

    def __init__(self, kind: Kind, status: int = 409, detail: str = "", **values: Any) -> None:
        super().__init__(kind)
        self.kind, self.status, self.detail, self.values = kind, status, detail, values

    def told(self, say: Say, person: StudioPerson | None) -> dict[str, Any]:
        """For the page. The detail may name servers, so it is for those who run them, or about one's own words."""
        shown = self.kind in ("control", "refused") or (person is not None and person.role == "coordinator")
        what = say(f"talk.error.{self.kind}", **self.values)
        return {"kind": self.kind, "what": what, "detail": self.detail[:600] if shown else ""}


def trouble_of(error: UserError) -> Trouble:
    """An error of the conversation, as trouble."""
    if isinstance(error, Trouble):
        return error
    if isinstance(error, ControlError):
        return Trouble("control", 422, str(error))
    if isinstance(error, TooLong):
        return Trouble("long", 422, str(error))
    if isinstance(error, ModelError):
        return Trouble("model", 502, str(error))
    return Trouble("refused", 422, str(error))


def explain(request: Request, error: UserError) -> Response:
    """Trouble as an object that the script of the page shows."""
    found = trouble_of(error)
    return JSONResponse({"error": found.told(say_in(request), visit(request).person)}, found.status)


#: bytes of one picture, and pictures of one conversation
LARGEST, MOST = 6 << 20, 6


class Picture(msgspec.Struct, frozen=True):
    """A picture in memory. `key` is what the page knows it by."""

    key: str
    kind: str
    data: bytes
    address: str  # the same as a data: address, which is how models take it


def picture(data: bytes) -> Picture:
    """The picture that some bytes are; Trouble when they are none, or too many."""
    if len(data) > LARGEST:
        raise Trouble("picture_large", 413, most=LARGEST >> 20)
    kind = picture_type(data)
    if kind is None:
        raise Trouble("picture_kind", 415)
    key = hashlib.sha256(data).hexdigest()[:24]
    return Picture(key, kind, data, f"data:{kind};base64,{base64.b64encode(data).decode()}")


#: someone is waiting: a busy server is asked a few times more, not for minutes as in a pipeline
PATIENCE = Patience(attempts=4, longest=10, patience=120, timeout=120)


class Voice(msgspec.Struct, frozen=True):
    """One model, as it is shown: its name, and where what is written goes (None: nowhere but here). `languages`: those
    that it knows; empty where that is not known."""

    name: str
    place: str | None
    model: Model
    languages: tuple[str, ...] = ()
    steering: Steering | None = None

    @property
    def small(self) -> bool:
        """The model that comes along: it works everywhere, and often makes no sense."""
        return is_small(self.model.name)

    def as_dict(self) -> dict[str, object]:
        told = {"name": self.name, "place": self.place, "sees": self.model.sees, "small": self.small}
        no_chinese = bool(self.languages) and "Chinese" not in self.languages
        return told | {"no_chinese": no_chinese, "steering": self.steering, "thinks": sampling_for(self.model).think}

    async def warm(self, language: Language, think: Think | None) -> None:
        """Load a model of this process and have it read its instruction, so that the first word comes soon."""
        await asyncio.to_thread(warm_up)
        if is_embedded(self.model.name.partition("+")[0]):
            usual = sampling_for(self.model)
            sampling = msgspec.structs.replace(usual, think=think or usual.think)
            request = TurnRequest(history=(HistoryTurn("seeker", "…"),), language=language, sampling=sampling)
            asked = TurnWriter(self.model, request, ConversationGuard()).model_request()
            with contextlib.suppress(ModelError):  # whoever writes is told
                await self.model.ask(msgspec.structs.replace(asked, plan=None, max_tokens=1))


def voices(settings: StudioSettings) -> list[Voice]:
    """Every model of the settings; ModelError where one cannot be named."""
    opened = [open_model(spec, base_url=settings.base_url, patience=PATIENCE) for spec in settings.models]
    return [_voice(model) for model in opened]


def _voice(model: Model) -> Voice:
    name, _, address = model.name.partition("@")
    _, _, short = name.partition(":")
    weights = getattr(model, "weights", None) or of_base(str(getattr(model, "path", "")))
    languages = weights.languages if isinstance(weights, Weights) and published() else ()
    adapter = getattr(model, "adapter", None)
    measured = steering(Path(adapter)) if adapter else None
    return Voice(short or name, urlsplit(address).netloc or None, model, languages, measured)


#: seconds of silence after which the page is told that the answer is still being waited for
PULSE = 10.0


class Waiting(msgspec.Struct, frozen=True):
    """Nothing new yet."""


class Thumbed(msgspec.Struct):
    """An answer with its thumb; `id` names the record, where one is kept."""

    answer: TurnResult
    thumb: Thumb | None
    id: str


class Live:
    """A conversation in memory. `voice` is the number of the model that answers, `country` whose helplines show."""

    def __init__(self, conversation: ChatSession, voice: int, country: str | None) -> None:
        self.conversation, self.voice, self.country = conversation, voice, country
        self.id = secrets.token_hex(6)
        self.used = 0.0
        self.thumbs: list[Thumbed] = []
        self.pictures: dict[str, Picture] = {}
        self.banner: str | None = None  # its words; once shown it stays
        self.reminder: str | None = None
        self._work: asyncio.Task[None] | None = None
        self._told: asyncio.Queue[TurnEvent | None] = asyncio.Queue()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended = False

    @property
    def busy(self) -> bool:
        return self._work is not None

    def end(self) -> None:
        """Nothing of it is left, not even half an answer."""
        self._ended = True
        if self._work is not None:
            self._work.cancel()
        self.conversation.forget()
        self.pictures.clear()
        self.thumbs.clear()
        self.banner = self.reminder = None

    async def stop(self) -> None:
        """End the answer that is being written, if there is one; the message stays without one."""
        if self._work is not None:
            self._work.cancel()
        await self._idle.wait()

    @property
    def title(self) -> str:
        """How it begins, for the list."""
        left = self.conversation.unanswered
        said = [turn.said for turn in self.conversation.turns[:1]] or ([left.text] if left else [""])
        return " ".join(said[0].split())[:60]

    def speak(self, voice: int, with_: Voice, think: Think | None) -> None:
        """Another model answers from now on, or the same one thinks more or less; None: as it usually does."""
        usual = sampling_for(with_.model)
        self.conversation.settings.sampling = msgspec.structs.replace(usual, think=think or usual.think)
        self.voice, self.conversation.model = voice, with_.model

    def thumbed(self, answer: TurnResult) -> Thumbed:
        """The thumb of an answer, which may be none."""
        found = next((one for one in self.thumbs if one.answer is answer), None)
        return found or Thumbed(answer, None, secrets.token_hex(8))

    def rate(self, number: int, thumb: Thumb | None) -> tuple[AnsweredTurn, Thumbed]:
        """Thumb up or down on the answer to message `number`; None takes it back."""
        turns = self.conversation.turns
        if not 0 < number <= len(turns) or not turns[number - 1].answer.reply:
            raise Trouble("elsewhere")
        found = self.thumbed(turns[number - 1].answer)
        self.thumbs = [one for one in self.thumbs if one is not found]
        found.thumb = thumb
        self.thumbs.append(found)
        return turns[number - 1], found

    def move(self, country: str | None) -> None:
        """Helplines of another country from now on; what is known of the risk stays."""
        self.country = self.conversation.guard.country = country

    def attach(self, picture: Picture) -> None:
        """A picture for the next message; those that no message used make way for it."""
        used = self._used()
        self.pictures = {key: kept for key, kept in self.pictures.items() if kept.address in used}
        if picture.key not in self.pictures and len(self.pictures) >= MOST:
            raise Trouble("picture_many", 413, most=MOST)
        self.pictures[picture.key] = picture

    def attached(self, keys: list[str]) -> tuple[str, ...]:
        """The pictures that a message names, as models take them."""
        if not all(key in self.pictures for key in keys):
            raise Trouble("elsewhere")
        return tuple(self.pictures[key].address for key in dict.fromkeys(keys))

    def keys_of(self, images: tuple[str, ...]) -> list[str]:
        return [key for image in images for key, kept in self.pictures.items() if kept.address == image]

    def choose(self, which: int) -> None:
        """Go on with an earlier answer to the last message; the present one stays beside it."""
        turns = self.conversation.turns
        if not turns or not 0 <= which < len(turns[-1].others):
            raise Trouble("elsewhere")
        self.conversation.choose(which)

    async def answer(self, events: AsyncGenerator[TurnEvent, None]) -> AsyncGenerator[TurnEvent | Waiting, None]:
        """Events of an answer that is being written; leaving ends the work. Errors of the model are raised."""
        if self._work is not None:
            raise Trouble("busy")
        told = self._told = asyncio.Queue()
        work = self._work = asyncio.create_task(self._write(events))
        self._idle.clear()
        work.add_done_callback(self._done)
        try:
            while True:
                try:
                    async with asyncio.timeout(PULSE):
                        event = await told.get()
                except TimeoutError:
                    yield Waiting()
                    continue
                if event is None:
                    break
                yield event
            if self._ended:
                raise Trouble("gone", 410)
            if work.cancelled():
                raise Trouble("stopped")
            if error := work.exception():
                raise error
            self.banner = self.conversation.turns[-1].answer.outcome.banner or self.banner
        finally:
            work.cancel()

    def _done(self, work: asyncio.Task[None]) -> None:
        """Free the conversation for the next answer, however the work ended."""
        self._work = None
        self._idle.set()
        self._told.put_nowait(None)
        if not work.cancelled():
            work.exception()  # whoever reads raises it; when nobody does, it needs no line in the log
        if self._ended:  # an answer may have come in after all was deleted
            self.conversation.forget()

    async def _write(self, events: AsyncGenerator[TurnEvent, None]) -> None:
        async with aclosing(events) as pieces:
            async for event in pieces:
                if isinstance(event, Assessed):
                    self.banner = event.assessment.banner or self.banner
                    self.reminder = event.assessment.reminder
                self._told.put_nowait(event)

    def _used(self) -> set[str]:
        left = self.conversation.unanswered
        kept = {image for turn in self.conversation.turns for image in turn.images}
        return kept | set(left.images if left else ())


#: seconds without a word after which a conversation is forgotten
IDLE = 2 * 3600.0
#: seconds after which it may give way to another
QUIET = 600.0
MOST_CONVERSATIONS, MOST_OF_ONE = 200, 20

Key = tuple[str, str]


class TalkVisit:
    """The conversations of one session, which of them the page shows, and how much is thought in all of them."""

    def __init__(self) -> None:
        self.lives: dict[str, Live] = {}
        self.current: str | None = None
        self.think: Think | None = None  # None: as the model usually does
        self.used = 0.0


class Memory:
    """Conversations by person and session."""

    def __init__(
        self,
        most: int = MOST_CONVERSATIONS,
        idle: float = IDLE,
        quiet: float = QUIET,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most, self.idle, self.quiet, self._clock = most, idle, quiet, clock
        self._visits: dict[Key, TalkVisit] = {}

    def __len__(self) -> int:
        return sum(len(visit.lives) for visit in self._visits.values())

    def visit(self, key: Key) -> TalkVisit:
        """What is kept of a session, without what is too old; it is nothing before a conversation begins."""
        self.sweep()
        return self._visits.get(key) or TalkVisit()

    def find(self, key: Key, which: str | None = None) -> Live | None:
        """A conversation of a session: the one with this id, or the one that its page shows."""
        visit = self.visit(key)
        return visit.lives.get(which or visit.current or "")

    def open(self, key: Key, begin: Callable[[], Live], which: str | None = None) -> Live:
        """A conversation of a session, begun if need be; it counts as used now, and is the one that the page shows."""
        live = self.find(key, which)
        if live is None and which is not None:
            raise Trouble("elsewhere")
        if live is None:
            if len(self.visit(key).lives) >= MOST_OF_ONE:
                raise Trouble("conversations", most=MOST_OF_ONE)
            self._make_room()
            live = begin()
        visit = self._visits.setdefault(key, TalkVisit())
        visit.lives[live.id], visit.current, live.used = live, live.id, self._clock()
        return live

    def think(self, key: Key, think: Think) -> None:
        """How much is thought in this session from now on."""
        visit = self._visits.setdefault(key, TalkVisit())
        visit.think, visit.used = think, self._clock()

    def leave(self, key: Key) -> None:
        """The page shows none of the conversations; the next message begins another."""
        self.visit(key).current = None

    def forget(self, key: Key, which: str | None = None) -> None:
        """One conversation, or everything of a session, at once."""
        visit = self._visits.get(key) or TalkVisit()
        for live in [live for live in visit.lives.values() if which in (None, live.id)]:
            del visit.lives[live.id]
            live.end()
        if which is None:
            self._visits.pop(key, None)

    def sweep(self) -> None:
        """Forget what nobody has used for long; an answer that is being written is being used."""
        now = self._clock()
        for key, live in self._resting():
            if now - live.used > self.idle:
                self.forget(key, live.id)
        for key in [key for key, one in self._visits.items() if not one.lives and now - one.used > self.idle]:
            del self._visits[key]

    def forget_all(self) -> None:
        for key in list(self._visits):
            self.forget(key)

    def _resting(self) -> list[tuple[Key, Live]]:
        return [(key, live) for key, visit in self._visits.items() for live in visit.lives.values() if not live.busy]

    def _make_room(self) -> None:
        if len(self) < self.most:
            return
        key, live = min(self._resting(), default=(None, None), key=lambda found: found[1].used)
        wait = (live.used if live else self._clock()) + self.quiet - self._clock()
        if key is None or live is None or wait > 0:
            raise RequestRefused(503, "busy", "as many conversations as there is room for", wait=max(wait, 30.0))
        self.forget(key, live.id)
