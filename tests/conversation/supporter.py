"""A real OpenAI-compatible server that keeps pins and given steps, records what reaches it, and misbehaves on request.

It reads the control from the prompt alone, as a server without grammars would, so what a person fixed must have
reached it in words. Set `manner` to change how it answers:

    contract    a complete three-step output that keeps the control (the default)
    says        `text`, whatever it is
    raw         `text` as the whole body, with status `status`
    endless     `text` again and again, for ever
    nothing     a stream without content
    hang        no answer at all, until `manner` changes
    cut         half an output, then the connection is closed
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from compeer.reasoning import LABELS, STEPS, Reasoning, render
from compeer.reasoning.ontology import EMOTIONS, Language
from compeer.reasoning.schema import match_label_line, read_value

WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "history": "They lost their job and told nobody at home.",
        "emotion": "They are ashamed, and afraid of being seen.",
        "strategy": "Stay close and ask before offering anything.",
    },
    "zh": {
        "history": "对方丢了工作，家里人还不知道。",
        "emotion": "对方觉得羞愧，也怕被人看见。",
        "strategy": "先陪着对方，问清楚再说别的。",
    },
}
REPLY: dict[Language, str] = {"en": "That sounds heavy to carry alone", "zh": "一个人扛着这些，一定很累"}
_GIVEN = re.compile(r"<(history|emotion|strategy)>\n(.*?)\n</\1>", re.DOTALL)


class Supporter:
    """The server: start it with `running()`."""

    def __init__(self) -> None:
        self.base_url = ""
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.reset()

    def reset(self) -> None:
        """Forget what was asked, and behave."""
        self.bodies.clear()
        self.keys.clear()
        self.manner, self.text, self.status = "contract", "", 200
        self.piece = 7  # characters a chunk, so that tags are torn apart
        self.delay = 0.0  # seconds before each chunk
        self.headers: dict[str, str] = {}
        self.looked = 0  # requests for the list of models
        self.left = 0  # streams that the client closed before their end

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        self.keys.append(request.headers.get("Authorization", ""))
        while self.manner == "hang":
            await asyncio.sleep(0.02)
        if self.manner == "raw":
            return web.Response(body=self.text.encode(), status=self.status, headers=self.headers)
        if not body.get("stream"):
            message = {"role": "assistant", "content": self._said(body)}
            return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        with contextlib.suppress(
            ConnectionError
        ):  # the client may leave early, even before the first byte; `left` tells
            await response.prepare(request)
            for piece in self._pieces(body):
                choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
                await asyncio.sleep(self.delay)
                await response.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")
            if self.manner == "cut":
                assert request.transport is not None
                request.transport.abort()
                return response
            await response.write(b"data: [DONE]\n\n")
            return response
        self.left += 1
        return response

    async def models(self, request: web.Request) -> web.Response:
        self.looked += 1
        return web.json_response(
            {"object": "list", "data": [{"id": "kind-7b", "object": "model", "owned_by": "tests"}]}
        )

    def _said(self, body: dict[str, Any]) -> str:
        if self.manner == "contract":
            return contract(body, len(self.bodies))
        return self.text if self.manner == "says" else ""

    def _pieces(self, body: dict[str, Any]) -> Iterator[str]:
        if self.manner == "endless":
            while True:
                yield self.text
        said = contract(body, len(self.bodies))[:150] if self.manner == "cut" else self._said(body)
        yield from (said[start : start + self.piece] for start in range(0, len(said), self.piece))


def contract(body: dict[str, Any], number: int) -> str:
    """An output that keeps what the prompt fixes; the reply carries `number`, so that answers differ."""
    system = str(body["messages"][0]["content"])
    chinese = "你是" in system
    language: Language = "zh" if chinese else "en"
    _, _, fixed = system.partition("这一次以下内容已经确定" if chinese else "the following is fixed; keep it:")
    texts = dict(WORDS[language])
    labels: dict[str, str | int] = {"stage": "exploration", "intensity": 4, "strategy": "question"}
    for line in _GIVEN.sub("", fixed).splitlines():
        for step in STEPS:
            found = match_label_line(step, line)
            if found and (value := read_value(found[0], found[2], language)) is not None:
                labels[found[0]] = value
    emotion = str(labels.setdefault("emotion", "joy" if labels.get("sentiment") == "positive" else "shame"))
    labels.setdefault("sentiment", EMOTIONS.get(emotion).sentiments[0])
    instructions = system.index("You are" if not chinese else "你是")
    for step, text in _GIVEN.findall(system[instructions:]):
        if not any(match_label_line(step, line) for line in text.splitlines()):  # the form itself has labelled lines
            texts[step] = text
    assert set(labels) == {label for names in LABELS.values() for label in names}
    end = "。" if chinese else "."
    return render(Reasoning.of(texts, labels, language), f"{REPLY[language]} {number}{end}")


@contextlib.contextmanager
def running() -> Iterator[Supporter]:
    """The server in a thread of its own, on a free port."""
    supporter = Supporter()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> web.AppRunner:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", supporter.chat)
        app.router.add_get("/v1/models", supporter.models)
        # connections are closed soon, as vLLM does: a person takes longer to write than a server waits
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, keepalive_timeout=0.3)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        supporter.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield supporter
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
