"""Real HTTP servers in this process, on 127.0.0.1, that answer as a test tells them to."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web

from compeer.models.request import Patience, Request

#: enough for a test to see a retry, too little to wait for
QUICK = Patience(attempts=4, first=0.01, longest=0.05, patience=2.0, timeout=0.5)
HELLO = Request(messages=[{"role": "user", "content": "Hello."}], max_tokens=20)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Answers of `/chat/completions` come from `reply`; everything that was asked is kept in `bodies`."""

    def __init__(self, reply: Callable[[Server, dict[str, Any]], Any], owner: str | None = None) -> None:
        self.reply, self.owner = reply, owner
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.listings = 0
        self.in_flight = self.most_in_flight = 0
        self.starting = 0  # so many listings are answered 503, as llama.cpp does while it loads
        self.url = ""

    async def chat(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        self.headers.append(dict(request.headers))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            answer = self.reply(self, self.bodies[-1])
            if asyncio.iscoroutine(answer):
                answer = await answer
            if callable(answer):  # a handler that wants the connection itself
                response: web.StreamResponse = await answer(request)
                return response
            return answer if isinstance(answer, web.StreamResponse) else web.json_response(answer)
        finally:
            self.in_flight -= 1

    async def models(self, _: web.Request) -> web.StreamResponse:
        self.listings += 1
        if self.listings <= self.starting:
            return fault(503, "Loading model")
        if self.owner is None:
            return web.json_response({"error": "nothing here"}, status=404)
        return web.json_response({"object": "list", "data": [{"id": "m", "owned_by": self.owner}]})


@contextlib.asynccontextmanager
async def serving(reply: Callable[[Server, dict[str, Any]], Any], owner: str | None = None) -> AsyncIterator[Server]:
    server = Server(reply, owner)
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/v1/chat/completions", server.chat)
    app.router.add_get("/v1/models", server.models)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()


def said(content: str | None, **message: Any) -> dict[str, Any]:
    """A chat completion with one choice."""
    return {
        "model": "scripted",
        "choices": [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}},
    }


def fault(status: int, text: str = "", **headers: str) -> web.Response:
    return web.Response(status=status, text=text, headers={name.replace("_", "-"): headers[name] for name in headers})


def events(*pieces: bytes, pause: float = 0.0, close: bool = False) -> Handler:
    """A handler that writes these bytes as they are, as a stream of server-sent events."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(pause)
        if close:
            assert request.transport is not None
            request.transport.abort()
        return response

    return handler


def event(**delta: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}, ensure_ascii=False).encode() + b"\n\n"
