"""An answer in OpenAI's form: what of a turn is `content`, what `reasoning`, what `compeer`; whole or streamed.

The reply is `content`, the thinking `reasoning`: three titled steps with their conclusions. What only this server knows
is in `compeer`, in the message of a whole answer and in the delta of a stream's last chunk.

An ordinary client shows `content` and nothing else, so what a person must see is in it: the emergency number and every
helpline above the reply while risk is high, one line under it at watch, the notice in the first reply of a
conversation. Each of these lines begins with a mark (`requests.ADDED`), by which it is found and removed when the
client sends the conversation back. While risk is high no thinking and no steps are told.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp import web

from compeer.conversation.display import STEP_TITLES
from compeer.conversation.engine import TurnResult, help_shown, safety_fields
from compeer.conversation.requests import HELP_MARK, NOTICE_MARK, ApiError, AskedTurn
from compeer.http_service import json_response
from compeer.models import Usage
from compeer.reasoning import LABELS, STEPS, Event
from compeer.reasoning.schema import COLON, KEYS
from compeer.reasoning.stream import without_foreign_markup, without_markup
from compeer.safety import Assessment

STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # a proxy that collects the stream would spoil it
}


class Delta(msgspec.Struct, frozen=True):
    """What is new: thinking, reply, or both."""

    reasoning: str = ""
    content: str = ""

    def __bool__(self) -> bool:
        return bool(self.reasoning or self.content)


class ReplyText:
    """Turns the events of one turn into text for ordinary clients."""

    def __init__(self, asked: AskedTurn, assessment: Assessment, notice: Sequence[str]) -> None:
        """`notice`: lines for the first reply of a conversation, none for others."""
        self._asked, self._assessment = asked, assessment
        self._notice = "\n".join(NOTICE_MARK + line for line in notice)
        self._language = asked.turn.language
        self._steps = 0
        self._replied = False

    def opening(self) -> Delta:
        """What stands above everything while risk is high."""
        if not self._assessment.urgent:
            return Delta()
        return Delta(content=_help(help_shown(self._assessment)) + "\n\n")

    def delta(self, event: Event) -> Delta:
        """One event, as text."""
        if event.kind == "reply":
            before = ""
            if not self._replied and self._notice and not self._assessment.urgent:
                before, self._notice = self._notice + "\n\n", ""
            self._replied = True
            return Delta(content=before + event.text)
        if event.kind == "step" and event.step:
            self._steps += 1
            return Delta(("\n\n" if self._steps > 1 else "") + STEP_TITLES[self._language][event.step] + "\n")
        if event.kind == "text":
            return Delta(event.text)
        if event.kind == "label" and event.label:
            key = KEYS[event.label][self._language] + COLON[self._language]
            return Delta(f"\n{key}{without_markup(event.text)}")
        return Delta()

    def closing(self, result: TurnResult) -> Delta:
        """What stands under the reply: a line of help, or the notice where help stood above."""
        under: list[str] = []
        if not self._assessment.urgent:
            under = help_shown(self._assessment) or [result.outcome.banner or "", *result.outcome.lines]
        parts = [_help(under), self._notice]
        return Delta(content="".join(f"\n\n{part}" for part in parts if part))


def _help(lines: Sequence[str]) -> str:
    return "\n".join(HELP_MARK + line for line in lines if line)


def compeer_field(asked: AskedTurn, result: TurnResult, dropped: int, failure: str | None) -> dict[str, Any]:
    """`compeer`: everything that only this server knows. `failure`: the code of what went wrong with the model."""
    problems = [{"code": one.code, "message": without_foreign_markup(str(one))} for one in result.problems]
    if result.error:
        problems.insert(0, {"code": failure or "failed", "message": without_foreign_markup(result.error)})
    told: dict[str, Any] = {"language": asked.turn.language, "complete": not problems, "problems": problems}
    if asked.turn.show_thinking and not result.assessment.urgent:
        told["steps"] = {
            step: {"text": _step_text(result, step)}
            | {label: result.parsed.labels.get(label) for label in LABELS[step]}
            for step in STEPS
        }
    told["safety"] = safety_fields(result.assessment, result)
    if dropped:
        told["dropped"] = dropped
    if asked.ignored:
        told["ignored"] = list(asked.ignored)
    return told


def _step_text(result: TurnResult, step: str) -> str | None:
    text = result.parsed.texts.get(step)
    return None if text is None else without_markup(text)


class ReplyEnd(msgspec.Struct, frozen=True):
    """How an answer ended, and what is known of it."""

    finish: str  # "stop" | "length"
    usage: Usage | None
    compeer: dict[str, Any]


class WholeReply:
    """Everything in one piece."""

    def __init__(self, model: str) -> None:
        self.id, self.model = _new_id(), model
        self._reasoning: list[str] = []
        self._content: list[str] = []

    async def open(self, compeer: dict[str, Any]) -> None:
        """Nothing can be told before the end."""

    async def send(self, delta: Delta) -> None:
        self._reasoning.append(delta.reasoning)
        self._content.append(delta.content)

    async def end(self, end: ReplyEnd) -> web.StreamResponse:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._content)}
        if reasoning := "".join(self._reasoning):
            message["reasoning"] = reasoning
        message["compeer"] = end.compeer
        choice = {"index": 0, "message": message, "finish_reason": end.finish, "logprobs": None}
        head = _head(self.id, "chat.completion", self.model)
        response = json_response(head | {"choices": [choice], "usage": _usage(end.usage)})
        response.headers["X-Request-Id"] = self.id
        return response

    async def fail(self, failure: ApiError) -> web.StreamResponse:
        raise failure


class StreamedReply:
    """Server-sent events. What does not change from one chunk to the next is encoded once.

    Nothing is sent before the first delta, so that a model that fails before it is an ordinary error with its status.
    """

    def __init__(self, request: web.Request, model: str, usage: bool) -> None:
        self.id = _new_id()
        self._begun = False
        self._request, self._with_usage = request, usage
        self._head = _head(self.id, "chat.completion.chunk", model)
        self._before = b"data: " + msgspec.json.encode(self._head)[:-1] + b',"choices":[{"index":0,"delta":{'
        self._after = b'},"finish_reason":null}]' + (b',"usage":null' if usage else b"") + b"}\n\n"
        self._response = web.StreamResponse(headers=STREAM_HEADERS | {"X-Request-Id": self.id})

    async def open(self, compeer: dict[str, Any]) -> None:
        """Begin at once, with what cannot wait for the model."""
        await self._begin()
        told = b'"role":"assistant","content":"","compeer":' + msgspec.json.encode(compeer)
        await self._response.write(self._before + told + self._after)

    async def send(self, delta: Delta) -> None:
        parts = []
        if not self._begun:
            await self._begin()
            parts.append(b'"role":"assistant"')
        if delta.reasoning:
            parts.append(b'"reasoning":' + msgspec.json.encode(delta.reasoning))
        if delta.content:
            parts.append(b'"content":' + msgspec.json.encode(delta.content))
        await self._response.write(self._before + b",".join(parts) + self._after)

    async def end(self, end: ReplyEnd) -> web.StreamResponse:
        if not self._begun:
            await self.send(Delta())
        choice = {"index": 0, "delta": {"compeer": end.compeer}, "finish_reason": end.finish}
        events = [self._head | {"choices": [choice]} | ({"usage": None} if self._with_usage else {})]
        if self._with_usage and end.usage is not None:
            events.append(self._head | {"choices": [], "usage": _usage(end.usage)})
        return await self._finish(*events)

    async def fail(self, failure: ApiError) -> web.StreamResponse:
        if not self._begun:
            raise failure
        return await self._finish(failure.as_dict())

    async def _begin(self) -> None:
        self._begun = True
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
