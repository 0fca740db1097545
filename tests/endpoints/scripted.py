"""A real OpenAI-compatible server with scripted answers and scripted faults, in a process of its own.

    python -m tests.endpoints.scripted --port 0 --answer json --latency 0.01 --fail-every 10 --log answered.jsonl

It prints one line, `listening on http://127.0.0.1:PORT/v1`, and serves until it is ended. Answers are pure functions
of the request (`answers`). Faults come every k-th request; `--by hash` chooses them by the request itself, so that
two runs meet the same ones whatever the order, and a failed request succeeds when it is sent again.

Each request that got an answer stands in the log, flushed before the answer leaves: what is in the log but did not
reach the client was in flight. `GET /counters` tells what happened so far.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.endpoints.answers import ANSWERERS


class Script:
    """The server's behaviour and what it has done."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.answer = ANSWERERS[options.answer]
        self.log = Path(options.log).open("ab", buffering=0) if options.log else None  # noqa: SIM115
        self.counters: Counter[str] = Counter()
        self.failed: set[bytes] = set()

    async def chat(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        self.counters["requests"] += 1
        number = self.counters["requests"]
        self.counters["in_flight"] += 1
        self.counters["most_in_flight"] = max(self.counters["most_in_flight"], self.counters["in_flight"])
        digest = hashlib.sha256(data).digest()
        try:
            if self.options.latency:
                await asyncio.sleep(self.options.latency)
            return await self._respond(request, data, number, digest)
        finally:
            self.counters["in_flight"] -= 1

    async def _respond(self, request: web.Request, data: bytes, number: int, digest: bytes) -> web.StreamResponse:
        if self._due(self.options.fail_every, "fail", number, digest) and digest not in self.failed:
            self.failed.add(digest)
            self.counters["failed"] += 1
            headers = {"Retry-After": str(self.options.retry_after)} if self.options.retry_after else {}
            body = {"error": {"message": "scripted failure"}}
            return web.json_response(body, status=self.options.fail_status, headers=headers)
        body = json.loads(data)
        if not body.get("messages"):
            return web.json_response({"error": {"message": "messages is empty"}}, status=400)
        if self._due(self.options.broken_body_every, "body", number, digest) and digest not in self.failed:
            self.failed.add(digest)
            self.counters["broken_bodies"] += 1
            return web.Response(body=b'{"choices": [{"mess', content_type="application/json")
        said = self.answer(body)
        if self._due(self.options.broken_content_every, "content", number, digest):
            self.counters["broken_contents"] += 1
            said = said[: len(said) // 2]
        self.counters["answered"] += 1
        self._record(digest)
        return await self._stream(request, body, said) if body.get("stream") else self._whole(body, said)

    def _due(self, every: int, kind: str, number: int, digest: bytes) -> bool:
        if not every:
            return False
        if self.options.by == "hash":
            return int.from_bytes(hashlib.blake2b(kind.encode() + digest, digest_size=4).digest()) % every == 0
        return number % every == 0

    def _record(self, digest: bytes) -> None:
        if self.log:
            self.log.write(b'{"at": %.6f, "body": "%s"}\n' % (time.time(), digest.hex().encode()))

    def _whole(self, body: dict[str, Any], said: str) -> web.Response:
        message = {"role": "assistant", "content": said}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {**_head(body, "chat.completion"), "choices": [choice], "usage": _usage(body, said)}
        return web.Response(body=json.dumps(reply).encode(), content_type="application/json")

    async def _stream(self, request: web.Request, body: dict[str, Any], said: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        pieces = [said[start : start + 8] for start in range(0, len(said), 8)]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, *({"content": piece} for piece in pieces)]
        for delta in deltas:
            choice = {"index": 0, "delta": delta, "finish_reason": None}
            await _event(response, {**_head(body, "chat.completion.chunk"), "choices": [choice]})
            await asyncio.sleep(self.options.token_delay)
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        end = {**_head(body, "chat.completion.chunk"), "choices": [last], "usage": _usage(body, said)}
        await _event(response, end)
        await response.write(b"data: [DONE]\n\n")
        return response

    async def models(self, request: web.Request) -> web.Response:
        entry = {"id": self.options.model, "object": "model", "owned_by": self.options.owned_by}
        return web.json_response({"object": "list", "data": [entry]})

    async def told(self, request: web.Request) -> web.Response:
        return web.json_response(dict(self.counters))


def _head(body: dict[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": body.get("model", "scripted")}


def _usage(body: dict[str, Any], said: str) -> dict[str, int]:
    read = sum(len(str(message["content"])) for message in body["messages"]) // 4 + 1
    written = len(said) // 4 + 1
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


async def _event(response: web.StreamResponse, value: dict[str, Any]) -> None:
    await response.write(b"data: " + json.dumps(value).encode() + b"\n\n")


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--port", type=int, default=0, help="0 takes a free one")
    options.add_argument("--answer", choices=sorted(ANSWERERS), default="auto")
    options.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    options.add_argument("--token-delay", type=float, default=0.0, help="seconds between the pieces of a stream")
    options.add_argument("--fail-every", type=int, default=0, help="every k-th request fails")
    options.add_argument("--fail-status", type=int, default=500)
    options.add_argument("--retry-after", type=float, default=0.0, help="seconds, as a header of failures")
    options.add_argument("--broken-body-every", type=int, default=0, help="every m-th answer is no JSON at all")
    options.add_argument("--broken-content-every", type=int, default=0, help="every m-th answer's text is cut in half")
    options.add_argument("--by", choices=("count", "hash"), default="count", help="how faults are chosen")
    options.add_argument("--log", help="a line for every request that was answered")
    options.add_argument("--model", default="scripted")
    options.add_argument("--owned-by", default="scripted", help="vllm and llamacpp are dialects")
    return options


async def serve(options: argparse.Namespace) -> None:
    script = Script(options)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", script.chat)
    app.router.add_get("/v1/models", script.models)
    app.router.add_get("/counters", script.told)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", options.port, backlog=1024)
    await site.start()
    print(f"listening on http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser().parse_args()))
