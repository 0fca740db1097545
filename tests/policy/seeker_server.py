"""A seeker behind a real HTTP port: answers by rule, keeps every request, and can be told to fail."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from aiohttp import web


def asked(shown: str) -> dict[str, Any]:
    """Does the last reply ask? That does good."""
    return {"felt": "They ask.", "change": 25 if "?" in shown.rpartition(":\n> ")[2].partition("\n")[0] else -3,
            "reply": "Okay.", "leaves": False}  # fmt: skip


#: by what the seeker said first: how it reacts
SCRIPT: dict[str, Any] = {
    "I lost my job.": asked,
    "My dog died.": {"felt": "Too much.", "change": -4, "reply": "I have to go now, bye.", "leaves": True},
    "I can't sleep.": "I would rather not answer in JSON.",
    "We broke up.": 400,
}


class SeekerServer:
    """`with SeekerServer() as server`: `server.base_url`, and `server.bodies`, every request as it came."""

    def __init__(self, script: dict[str, Any] | None = None) -> None:
        self.script = SCRIPT if script is None else script
        self.bodies: list[dict[str, Any]] = []
        self.base_url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> SeekerServer:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", lambda _: web.json_response({"data": [{"id": "seeker", "owned_by": "test"}]}))
        runner = web.AppRunner(app, access_log=None)
        self._loop.run_until_complete(runner.setup())
        self._loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
        self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())

    async def _chat(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        shown = body["messages"][1]["content"]
        answer = next((answer for first, answer in self.script.items() if f"> {first}" in shown), None)
        if callable(answer):
            answer = answer(shown)
        if not isinstance(answer, dict | str):
            return web.json_response({"error": {"message": "no such person"}}, status=answer or 404)
        said = answer if isinstance(answer, str) else json.dumps(answer)
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        return web.json_response({"id": "x", "object": "chat.completion", "model": "seeker", "choices": [choice]})
