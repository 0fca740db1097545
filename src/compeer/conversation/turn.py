"""Text on its way to a client: no markup in it, and cut at a stop string.

A reply is plain words. Whatever looks like a tag (`<script>`, `</div>`, `<!--`) is taken out, and a `<` that might
still open one gets a blank behind it, so that no client that shows the text as a page can be made to run something.
`<3` and `a < b` stay. Both filters work on pieces as they come and hold back what is not decided yet.

Thinking on its way out: word by word, as long as no word gives cause to wait.

Harmless words are passed on as they come. From a word that harm may be made of (`SIGNS`) on, the text is held until its
sentence is whole and has been read together with all that stands before it in the step; the same is done at the end of
every other sentence. A step that says what must not be shown ends there, and the rest of it is never told.

Safety around one turn of a server that remembers nothing.

Risk is computed anew from everything the person has said in this request, so it is as sticky as in a conversation that
is kept. While it is high the model is told what matters, the helpline stands in `compeer.safety` from the first chunk
on and in the content itself, after the model's words or before ours, so that every client shows it; and a model that
fails, refuses or does harm is answered for. Findings are remembered by a hash of the message, so that a long
conversation is not screened again with each turn.

An answer on its way out, whole or in events, in OpenAI's form.

The reply is `content`, the thinking `reasoning`; what only this server knows stands in `compeer`, in the message of a
whole answer and in the delta of a stream's last chunk. Nothing is sent before the model's first token, so that a model
that fails before it is an ordinary error with an ordinary status.

One turn: the model's text as it is written, read by the contract, made plain, screened, and told in deltas.

Thinking and reply are told apart by the stream parser, so no tag of the contract reaches a client; other markup is
taken out. The thinking reads as three named steps with their conclusions. A model that does not stop is cut, one that
says nothing is an error, one that breaks the format is told as far as it can be read, and `compeer.problems` says what
is wrong. The work behind a turn ends with the generator: leaving it early frees the model.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from functools import cache
from typing import Any, Protocol, cast

import msgspec
from aiohttp import web

from compeer.conversation.messages import Asked
from compeer.conversation.session import LONGEST
from compeer.conversation.terminal import TITLES
from compeer.conversation.wire import Refused, bad
from compeer.errors import UserError
from compeer.models import ModelError, Request, Usage
from compeer.models.request import Ending, TooLong
from compeer.reasoning import LABELS, STEPS, Event, Parsed, Problem, StreamParser, violations
from compeer.reasoning.grammar import prefix
from compeer.reasoning.schema import COLON, KEYS
from compeer.safety import Finding, Guarded, Risk, screen
from compeer.safety.crisis import written
from compeer.safety.helplines import SEVERAL, helplines, lines
from compeer.safety.helplines import country as country_of
from compeer.safety.notice import Breaks
from compeer.safety.outgoing import review

#: longer than any tag a reply could hold by mistake; beyond it a "<" is not waited for any more
LONGEST_TAG = 300
_OPENS = re.compile(r"<(?=[A-Za-z/!?<]|\Z)")  # "<<" too: taking out "<b>" must not close up "<<b>script>"
_TAG = re.compile(rf"<[A-Za-z/!?][^<>]{{0,{LONGEST_TAG - 3}}}>")


class Plain:
    """Takes markup out of a text that comes in pieces."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str, *, final: bool = False) -> str:
        """What is certain now. With `final` nothing is held back any more."""
        text, self._held = self._held + piece, ""
        if "<" not in text:
            return text
        out: list[str] = []
        place = 0
        while (opened := _OPENS.search(text, place)) is not None:
            start = opened.start()
            out.append(text[place:start])
            tag = _TAG.match(text, start)
            if tag is not None:
                place = tag.end()
            elif not final and len(text) - start < LONGEST_TAG and "<" not in text[start + 1 :]:
                self._held = text[start:]
                return "".join(out)
            else:  # no tag, or none that ends: shown, but not as one
                out.append("< " if start + 1 < len(text) else "<")
                place = start + 1
        return "".join(out) + text[place:]


class Until:
    """Passes text on up to the first of some stop strings."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = tuple(stop for stop in stops if stop)
        self.reached = False
        self._held = ""

    def feed(self, piece: str, *, final: bool = False) -> str:
        if self.reached or not self.stops:
            return "" if self.reached else piece
        text = self._held + piece
        cut = min((place for stop in self.stops if (place := text.find(stop)) >= 0), default=-1)
        if cut >= 0:
            self.reached, self._held = True, ""
            return text[:cut]
        keep = 0 if final else self._undecided(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def _undecided(self, text: str) -> int:
        """How many characters at the end may still become a stop string."""
        sizes = (size for stop in self.stops for size in range(1, len(stop)) if text.endswith(stop[:size]))
        return max(sizes, default=0)


#: beginnings of words, and Chinese characters, that instructions and encouragement to do harm are made of
_STEMS = """
alcohol antifreeze balcony belt benzo bleach bleed bottle bridge burden burn bury carbon charcoal coward cut
cyanide dead death die disappear dose drown drug dying end_it end_your exhaust fatal gas gram gone gun hang
harm helium hide hurt inject insulin jump kill knife knot kys lethal medicat meds method mg milligram
monoxide neck nembutal nitr noose opioid overdos painkill painless paracetamol pathetic pill poison razor
roof rope scar scratch self-harm shoot sleeping slic slit sodium starv suffocat suicid tablet take_your
thigh throat train tylenol unalive useless vein waste without_you worthless wrist
"""
STEMS = tuple(stem.replace("_", " ") for stem in _STEMS.split())
_HAN = "死杀残伤割划跳吊绳炭煤药毒刀枪血命腕脉溺窒氰硝氦氮片粒颗克累负废垃拖解脱"
_LONGEST = max(map(len, STEMS))
_BEGINNINGS = frozenset(stem[:size] for stem in STEMS for size in range(3, len(stem) + 1))
SIGNS = re.compile(rf"(?<![a-z])(?:{'|'.join(STEMS)})|[{_HAN}]", re.IGNORECASE)
_SENTENCE = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|[。！？…]+[”’」』）]*|\n")
_TAIL = 4 * _LONGEST  # characters at the end that are looked at; words that fill them all are no sign
_LAST_WORDS = re.compile(r"[A-Za-z-]+(?: [A-Za-z-]*)?\Z")


class Thinking:
    """The text of one step."""

    def __init__(self) -> None:
        self._read = ""
        self._shown = 0
        self._begun = 0  # where the current sentence begins
        self._safe = 0  # characters that were found to be safe
        self._clear = 0  # no sign begins before this in the current sentence, whatever may follow
        self.hidden = False

    def feed(self, piece: str) -> str:
        """What may be told now."""
        self._read += piece
        if self.hidden:
            return ""
        ends = max((end.end() for end in _SENTENCE.finditer(self._read, self._begun)), default=self._begun)
        if ends > self._begun and self._unsafe(ends):
            return ""
        self._begun = ends
        sign = SIGNS.search(self._read, max(ends, self._clear))
        self._clear = len(self._read) - _LONGEST  # a sign that is not whole yet can begin from here on
        if sign:
            self._clear = min(self._clear, sign.start())
            return self._upto(sign.start())
        return self._upto(len(self._read) - _undecided(self._read[max(ends, len(self._read) - _TAIL) :]))

    def finish(self) -> str:
        """The rest of the step."""
        return "" if self.hidden or self._unsafe(len(self._read)) else self._upto(len(self._read))

    def _unsafe(self, end: int) -> bool:
        if end != self._safe:  # a step with several conclusions ends several times
            self.hidden = review(self._read[:end]) is not None
            self._safe = end
        return self.hidden

    def _upto(self, end: int) -> str:
        piece, self._shown = self._read[self._shown : max(end, self._shown)], max(end, self._shown)
        return piece


def _undecided(text: str) -> int:
    """How many characters at the end may still become a sign; one or two letters of it give nothing away.

    >>> _undecided("They feel ove"), _undecided("They feel"), _undecided("They are with")
    (3, 0, 4)
    """
    found = _LAST_WORDS.search(text)
    if found is None:
        return 0
    both = found.group().lower()
    last = both.rpartition(" ")[2]
    return next((len(tail) for tail in (both, last) if tail in _BEGINNINGS), 0)


_MOST = 4096
_findings: dict[bytes, Finding] = {}


class Care:
    """What was found in the person's messages, and what follows from it."""

    def __init__(self, question: Asked, guarded: Guarded, risk: Risk, banner: str | None, reminder: str | None) -> None:
        self.question, self.risk = question, risk
        self.level, self.urgent = risk.level, risk.level == "high"
        self._guarded, self._banner, self._reminder = guarded, banner, reminder
        self._lines = tuple(lines(country_of(question.country, question.language), question.language))
        self._ours = {written(risk, question.language, time) for time in range(2)}
        self._said = False  # the helpline, in the content
        self.hidden: list[str] = []  # steps whose rest was not told

    async def stream(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        """The events that may be shown. What is ours comes with the helpline before it, the model's with it after."""
        replied = False
        async with aclosing(cast(AsyncGenerator[Event, None], self._guarded.stream(events))) as shown:
            async for event in shown:
                if event.kind == "reply" and (ours := event.text.strip()) in self._ours:
                    yield Event("reply", None, ("\n\n" if replied else "") + f"{self._helpline()}\n\n{ours}")
                else:
                    yield event
                replied = replied or event.kind == "reply"
        after = self._guarded.after()
        if self.urgent and not self._said:
            yield Event("reply", None, f"\n\n{self._helpline()}")
            if after.check_in:
                yield Event("reply", None, f"\n\n{after.check_in}")

    async def instead(self, failure: Refused) -> AsyncIterator[Event]:
        """A turn without the model."""

        async def failed() -> AsyncIterator[Event]:
            raise failure
            yield Event("reply")

        async for event in self.stream(failed()):
            yield event

    @property
    def error(self) -> str | None:
        """What failed, where the turn was answered without the model."""
        return self._guarded.after().error

    def as_dict(self) -> dict[str, Any]:
        after = self._guarded.after()
        told: dict[str, Any] = {"level": self.level, "banner": self._banner}
        told["helpline"] = list(self._lines) if self.level != "none" or after.replaced else None
        more = {"replaced": after.replaced, "note": after.note, "hidden": self.hidden, "reminder": self._reminder}
        return told | {name: value for name, value in more.items() if value}

    def _helpline(self) -> str:
        self._said = True
        return self._lines[0]


async def care_for(question: Asked) -> tuple[Care, Request]:
    """Screen what was said; the request, with what a supporter must know now."""
    breaks = Breaks(minutes=0)
    try:
        guarded = Guarded(country=question.country, breaks=breaks)
    except UserError as problem:
        raise bad(str(problem), "compeer.country") from None
    risk = Risk()
    for text in question.said[:-1]:
        risk = risk.after(_finding(text))
        breaks.after_message(question.language)
    guarded.recall(risk, question.replied)
    before = await guarded.before(question.said[-1], question.language)
    banner = str(before.banner) if before.banner else None
    request = question.request
    if before.guidance:
        first, *rest = request.messages
        told = {**first, "content": f"{first['content']}\n\n{before.guidance}"}
        request = msgspec.structs.replace(request, messages=[told, *rest])
    return Care(question, guarded, before.risk, banner, before.reminder), request


def warm() -> None:
    """Read the lexicons before the first person comes."""
    for text in ("warm", "暖"):
        screen(text)
        review(text)


def without_helpline(reply: str) -> str:
    """An old reply without the helpline that we put into it: the model must not learn to write it."""
    kept = [line for line in reply.split("\n") if line.strip() not in _all_lines()]
    return "\n".join(kept).strip()


@cache
def _all_lines() -> frozenset[str]:
    places = [None, *SEVERAL, *helplines()]
    return frozenset(lines(place, language)[0] for place in places for language in ("en", "zh"))


def _finding(text: str) -> Finding:
    key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    found = _findings.get(key)
    if found is None:
        if len(_findings) >= _MOST:
            _findings.clear()
        found = _findings[key] = msgspec.structs.replace(screen(text), spans=())
    return found


class Delta(msgspec.Struct, frozen=True):
    """What is new: thinking, reply, or both."""

    reasoning: str = ""
    content: str = ""

    def __bool__(self) -> bool:
        return bool(self.reasoning or self.content)


class End(msgspec.Struct, frozen=True):
    """How an answer ended, and what is known of it."""

    finish: str  # "stop" | "length"
    usage: Usage | None
    compeer: dict[str, Any]


class Telling(Protocol):
    """One of the two ways to tell an answer."""

    id: str
    begun: bool

    async def open(self, compeer: dict[str, Any]) -> None:
        """Begin at once, with what cannot wait for the model."""
        ...

    async def send(self, delta: Delta) -> None: ...

    async def end(self, end: End) -> web.StreamResponse: ...

    async def fail(self, failure: Refused) -> web.StreamResponse: ...


class Whole:
    """Everything in one piece."""

    def __init__(self, model: str) -> None:
        self.id, self.model = _new_id(), model
        self.begun = False
        self._reasoning: list[str] = []
        self._content: list[str] = []

    async def open(self, compeer: dict[str, Any]) -> None:
        pass

    async def send(self, delta: Delta) -> None:
        self._reasoning.append(delta.reasoning)
        self._content.append(delta.content)

    async def end(self, end: End) -> web.StreamResponse:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._content)}
        if reasoning := "".join(self._reasoning):
            message["reasoning"] = reasoning
        message["compeer"] = end.compeer
        choice = {"index": 0, "message": message, "finish_reason": end.finish, "logprobs": None}
        head = _head(self.id, "chat.completion", self.model)
        body = head | {"choices": [choice], "usage": _usage(end.usage)}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    async def fail(self, failure: Refused) -> web.StreamResponse:
        raise failure


class Streamed:
    """Server-sent events. What does not change from one chunk to the next is encoded once."""

    def __init__(self, request: web.Request, model: str, usage: bool) -> None:
        self.id = _new_id()
        self.begun = False
        self._request, self._with_usage = request, usage
        self._head = _head(self.id, "chat.completion.chunk", model)
        self._before = b"data: " + msgspec.json.encode(self._head)[:-1] + b',"choices":[{"index":0,"delta":{'
        self._after = b'},"finish_reason":null}]' + (b',"usage":null' if usage else b"") + b"}\n\n"
        self._response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-cache",
                "X-Accel-Buffering": "no",  # a proxy that collects the stream would spoil it
            }
        )

    async def open(self, compeer: dict[str, Any]) -> None:
        await self._begin()
        told = b'"role":"assistant","content":"","compeer":' + msgspec.json.encode(compeer)
        await self._response.write(self._before + told + self._after)

    async def send(self, delta: Delta) -> None:
        parts = []
        if not self.begun:
            await self._begin()
            parts.append(b'"role":"assistant"')
        if delta.reasoning:
            parts.append(b'"reasoning":' + msgspec.json.encode(delta.reasoning))
        if delta.content:
            parts.append(b'"content":' + msgspec.json.encode(delta.content))
        await self._response.write(self._before + b",".join(parts) + self._after)

    async def end(self, end: End) -> web.StreamResponse:
        if not self.begun:
            await self.send(Delta())
        choice = {"index": 0, "delta": {"compeer": end.compeer}, "finish_reason": end.finish}
        events = [self._head | {"choices": [choice]} | ({"usage": None} if self._with_usage else {})]
        if self._with_usage and end.usage is not None:
            events.append(self._head | {"choices": [], "usage": _usage(end.usage)})
        return await self._finish(*events)

    async def fail(self, failure: Refused) -> web.StreamResponse:
        if not self.begun:
            raise failure
        return await self._finish(failure.as_dict())

    async def _begin(self) -> None:
        self.begun = True
        await self._response.prepare(self._request)

    async def _finish(self, *events: dict[str, Any]) -> web.StreamResponse:
        lines = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)
        await self._response.write(lines + b"data: [DONE]\n\n")
        await self._response.write_eof()
        return self._response


def _new_id() -> str:
    return "chatcmpl-" + secrets.token_hex(12)


def _head(name: str, kind: str, model: str) -> dict[str, Any]:
    return {"id": name, "object": kind, "created": int(time.time()), "model": model}


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    """Tokens as the protocol names them; None where the model's server does not tell."""
    if usage is None:
        return None
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


class Writer(Protocol):
    """A model that writes in pieces and says how it ended: any of the three homes."""

    @property
    def name(self) -> str: ...

    @property
    def sees(self) -> bool: ...

    def stream(self, request: Request, ending: Ending | None = None) -> AsyncIterator[str]: ...

    async def close(self) -> None: ...


class Turn:
    """A turn that is being written. Take its `deltas`, then its `end`."""

    def __init__(self, model: Writer, asked: Asked, request: Request, care: Care) -> None:
        self.model, self.asked, self.request, self.care = model, asked, request, care
        self.ending = Ending()
        self.written = 0  # pieces that came from the model, about a token each
        self.replied = False
        self._parser = StreamParser()
        self._until = Until(asked.stops)
        self._plain = {"reasoning": Plain(), "content": Plain()}
        self._thinking = Thinking()
        self._thought: list[str] = []  # to be told with the next delta
        self._cut: Problem | None = None
        self._steps = 0

    async def deltas(self, first: float) -> AsyncGenerator[Delta, None]:
        """What is new, as it comes. `first`: seconds for the first token. Refused says why there is no answer."""
        async with aclosing(self._told(self.care.stream(self._events(first)))) as told:
            async for delta in told:
                yield delta
        if not self.replied and self.finish != "length":
            raise Refused(502, f"{self.model.name} wrote no reply.", code="empty_reply")

    async def instead(self, failure: Refused) -> AsyncIterator[Delta]:
        """An answer without the model, for a person who must not be left without one."""
        async for delta in self._told(self.care.instead(failure)):
            yield delta

    async def _told(self, events: AsyncIterator[Event]) -> AsyncGenerator[Delta, None]:
        async with aclosing(cast(AsyncGenerator[Event, None], events)) as shown:
            async for event in shown:
                reply = event.text if event.kind == "reply" else ""
                self.replied = self.replied or bool(reply.strip())
                if delta := Delta("".join(self._thought), reply):
                    yield delta
                self._thought.clear()

    async def _events(self, first: float) -> AsyncIterator[Event]:
        """The model's reply, made plain. Its thinking, screened, is put aside; an event says that there is some."""
        stream = cast(AsyncGenerator[str, None], self.model.stream(self.request, self.ending))
        known = len(prefix(self.request.plan or ()))
        length = 0
        try:
            async with aclosing(stream) as pieces:
                piece = await self._first(pieces, first)
                while piece is not None:
                    self.written += 1
                    for event in self._read(self._parser.feed(piece)):
                        yield event
                    length += len(piece)
                    if self._until.reached:
                        break
                    if length > LONGEST + known:
                        self._cut = Problem("endless", f"it did not stop, and was cut after {LONGEST:,} characters")
                        break
                    piece = await anext(pieces, None)
        except TooLong as problem:
            raise Refused(400, str(problem), param="messages", code="context_length_exceeded") from None
        except ModelError as problem:
            raise Refused(502, str(problem), code="model_error") from None
        for event in self._read(self._parser.finish(), final=True):
            yield event

    @property
    def finish(self) -> str:
        return "length" if self._cut or (self.ending.finish == "length" and not self._until.reached) else "stop"

    def end(self, failure: Refused | None = None) -> End:
        """How it ended. `failure` is what went wrong where the turn was answered nevertheless."""
        parsed = self._parser.parsed
        problems: list[Problem] = [*parsed.problems, *violations(parsed, self.asked.control)]
        if self._cut:
            problems.insert(0, self._cut)
        if failure is not None:
            problems.insert(0, Problem(failure.code or "failed", str(failure)))
        elif self.care.error:
            problems.insert(0, Problem("failed", self.care.error))
        told: dict[str, Any] = {
            "language": self.asked.language,
            "complete": not problems,
            "problems": [{"code": one.code, "message": _plain(str(one))} for one in problems],
        }
        if self.asked.show:
            told["steps"] = self._told_steps(parsed)
        told["safety"] = self.care.as_dict()
        if self.asked.dropped:
            told["dropped"] = self.asked.dropped
        if self.asked.ignored:
            told["ignored"] = list(self.asked.ignored)
        return End("stop" if failure else self.finish, self.ending.usage, told)

    async def _first(self, pieces: AsyncGenerator[str, None], seconds: float) -> str | None:
        """The first piece that the model wrote itself, with what was known beforehand in front of it."""
        try:
            async with asyncio.timeout(seconds):
                piece = await anext(pieces, None)
                if piece and piece == prefix(self.request.plan or ()):
                    piece += await anext(pieces, "")
                return piece
        except TimeoutError:
            message = f"The model wrote nothing within {seconds:g} s."
            raise Refused(504, message, code="first_token_timeout") from None

    def _read(self, events: Sequence[Event], *, final: bool = False) -> list[Event]:
        reply: list[str] = []
        for event in events:
            if event.kind == "reply":
                reply.append(event.text)
            elif self.asked.show:
                self._think(event)
        told = [Event("close")] if self._thought else []
        words = self._plain["content"].feed("".join(reply), final=final)
        if said := self._until.feed(words, final=final):
            told.append(Event("reply", None, said))
        return told

    def _think(self, event: Event) -> None:
        """An event of the thinking as text: a title, its words, its conclusions."""
        language = self.asked.language
        said = ""
        if event.kind == "step" and event.step:
            self._steps += 1
            self._thinking = Thinking()
            said = ("\n\n" if self._steps > 1 else "") + TITLES[language][event.step] + "\n"
        elif event.kind == "text":
            said = self._thinking.feed(self._plain["reasoning"].feed(event.text))
        elif event.kind == "label" and event.label:
            line = f"\n{KEYS[event.label][language]}{COLON[language]}{_plain(event.text)}"
            said = self._end_of_text(event.step) + line
        elif event.kind == "close":
            said = self._end_of_text(event.step)
        if said:
            self._thought.append(said)

    def _end_of_text(self, step: str | None) -> str:
        """The rest of a step's words, once they are whole."""
        rest = self._thinking.feed(self._plain["reasoning"].feed("", final=True)) + self._thinking.finish()
        if self._thinking.hidden and step and step not in self.care.hidden:
            self.care.hidden.append(step)
        return rest

    def _told_steps(self, parsed: Parsed) -> dict[str, Any]:
        """The steps that were found: text and labels, null where one is missing."""
        return {
            step: {
                "text": _plain(parsed.texts[step]) if step in parsed.texts and step not in self.care.hidden else None
            }
            | {label: parsed.labels.get(label) for label in LABELS[step]}
            for step in STEPS
        }


def _plain(text: str) -> str:
    return Plain().feed(text, final=True)
