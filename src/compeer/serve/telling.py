"""An answer on its way out, whole or in events, in OpenAI's form.

The reply is `content`, the thinking `reasoning`; what only this server knows stands in `compeer`, in the message of a
whole answer and in the delta of a stream's last chunk. Nothing is sent before the model's first token, so that a model
that fails before it is an ordinary error with an ordinary status.
"""

from __future__ import annotations

import secrets
import time
from typing import Any, Protocol

import msgspec
from aiohttp import web

from compeer.models import Usage
from compeer.serve.refusal import Refused


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
