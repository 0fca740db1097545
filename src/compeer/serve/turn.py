"""One turn: the model's text as it is written, read by the contract, made plain, screened, and told in deltas.

Thinking and reply are told apart by the stream parser, so no tag of the contract reaches a client; other markup is
taken out. The thinking reads as three named steps with their conclusions. A model that does not stop is cut, one that
says nothing is an error, one that breaks the format is told as far as it can be read, and `compeer.problems` says what
is wrong. The work behind a turn ends with the generator: leaving it early frees the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Protocol, cast

from compeer.chat.session import LONGEST
from compeer.chat.view import TITLES
from compeer.models import ModelError, Request
from compeer.models.request import Ending, TooLong
from compeer.reasoning import LABELS, STEPS, Event, Parsed, Problem, StreamParser, violations
from compeer.reasoning.grammar import prefix
from compeer.reasoning.schema import COLON, KEYS
from compeer.serve.asked import Asked
from compeer.serve.care import Care
from compeer.serve.plain import Plain, Until
from compeer.serve.refusal import Refused
from compeer.serve.telling import Delta, End
from compeer.serve.thinking import Thinking


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
