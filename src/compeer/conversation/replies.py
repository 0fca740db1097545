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
_DONE = b"data: [DONE]\n\n"


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
    if result.prepared:
        told["prepared"] = True
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


class EventStream:
    """The server-sent events of one answer. Nothing is sent before the first of them, so that a model that fails before
    it is an ordinary error with its status."""

    def __init__(self, request: web.Request, name: str) -> None:
        self.begun = False
        self._request = request
        self._response = web.StreamResponse(headers=STREAM_HEADERS | {"X-Request-Id": name})

    async def send(self, data: dict[str, Any], kind: str = "") -> None:
        if not self.begun:
            self.begun = True
            await self._response.prepare(self._request)
        head = f"event: {kind}\n".encode() if kind else b""
        await self._response.write(head + b"data: " + msgspec.json.encode(data) + b"\n\n")

    async def end(self, last: bytes = b"") -> web.StreamResponse:
        await self._response.write_eof(last)
        return self._response


class ChatReply:
    """An answer of /v1/chat/completions. `request`: the one that is answered by a stream; None: everything in one
    piece."""

    def __init__(self, model: str, request: web.Request | None = None, with_usage: bool = False) -> None:
        self.id = "chatcmpl-" + secrets.token_hex(12)
        self._stream = None if request is None else EventStream(request, self.id)
        self._with_usage = with_usage
        kind = "chat.completion" if request is None else "chat.completion.chunk"
        self._head = {"id": self.id, "object": kind, "created": int(time.time()), "model": model}
        self._written: list[Delta] = []

    async def open(self, compeer: dict[str, Any]) -> None:
        """Begin a stream at once, with what cannot wait for the model."""
        await self._chunk({"content": "", "compeer": compeer})

    async def send(self, delta: Delta) -> None:
        self._written.append(delta)
        await self._chunk({name: text for name, text in msgspec.structs.asdict(delta).items() if text})

    async def end(self, end: ReplyEnd) -> web.StreamResponse:
        if self._stream is not None:
            if not self._stream.begun:
                await self._chunk({})
            await self._chunk({"compeer": end.compeer}, end.finish)
            if self._with_usage and end.usage is not None:
                await self._stream.send(self._head | {"choices": [], "usage": _usage(end.usage)})
            return await self._stream.end(_DONE)
        message: dict[str, Any] = {"role": "assistant", "content": "".join(one.content for one in self._written)}
        if reasoning := "".join(one.reasoning for one in self._written):
            message["reasoning"] = reasoning
        message["compeer"] = end.compeer
        choice = {"index": 0, "message": message, "finish_reason": end.finish, "logprobs": None}
        response = json_response(self._head | {"choices": [choice], "usage": _usage(end.usage)})
        response.headers["X-Request-Id"] = self.id
        return response

    async def fail(self, failure: ApiError) -> web.StreamResponse:
        if self._stream is None or not self._stream.begun:
            raise failure
        await self._stream.send(failure.as_dict())
        return await self._stream.end(_DONE)

    async def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> None:
        if self._stream is None:
            return
        role = {} if self._stream.begun else {"role": "assistant"}
        choice = {"index": 0, "delta": role | delta, "finish_reason": finish}
        await self._stream.send(self._head | {"choices": [choice]} | ({"usage": None} if self._with_usage else {}))


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
