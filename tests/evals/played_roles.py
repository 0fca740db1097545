"""Seekers, supporters and judges behind a real port, in a process of their own: rules instead of models.

    python -m tests.evals.played_roles --latency 1 --log bodies.jsonl

The model's name says who answers: a name with "seeker", "judge" or anything else (a supporter). Every answer is a
function of the request, so that two runs can be compared. The log has every request as it came, flushed before the
answer leaves. `GET /counters` tells how many there were and how many were in flight at once.

A seeker's mood moves by -10, 0 or 10, drawn from the persona's text; `--change` fixes it. A persona with the word
"farewell" says goodbye in its second turn, one with "mumbles" never names a change. Words with "unspeakable" are refused.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.request import urlopen

from aiohttp import web
from tests.endpoints.process import ROOT, environment

from compeer.reasoning import Reasoning, render

SECRET = "what only the reasoning says"
LABELS: dict[str, str | int] = {
    "stage": "exploration",
    "sentiment": "negative",
    "emotion": "anxiety",
    "intensity": 3,
    "strategy": "question",
}


def drawn(text: str) -> int:
    return hashlib.blake2b(text.encode(), digest_size=2).digest()[0]


def supporter(messages: list[dict[str, str]]) -> str:
    heard = messages[-1]["content"]
    chinese = any("\u4e00" <= sign <= "\u9fff" for sign in heard)
    reply = f"我听见了，第 {len(messages)} 句。" if chinese else f"I hear you, line {len(messages)}."
    if messages[0]["role"] != "system" or "<strategy>" not in messages[0]["content"]:
        return reply
    steps = dict.fromkeys(("history", "emotion", "strategy"), SECRET)
    return render(Reasoning.of(steps, LABELS, "zh" if chinese else "en"), reply)


def seeker(messages: list[dict[str, str]], change: int | None) -> str:
    asked = messages[-1]["content"]
    if "带正负号的整数" in asked or "a whole number with its sign" in asked:  # SAGE's plan
        if "mumbles" in asked:
            return "变化：说不上来"
        moved = change if change is not None else (drawn(asked[:200]) % 3 - 1) * 10
        return f"感受：嗯。\n变化：{moved:+d}"
    if "只写你接下来" in asked or "Write only what you say next" in asked:  # SAGE's reply
        return "我先走了，再见。" if "farewell" in asked else f"我还是很烦，{drawn(asked) % 7}。"
    return (
        f"It is hard, part {len(messages)}." if messages[0]["content"].isascii() else f"很难，第 {len(messages)} 次。"
    )


def judge(name: str, messages: list[dict[str, str]]) -> str:
    score = drawn(messages[-1]["content"]) % 5
    silent = "mute" in name or ("moody" in name and score % 2)
    return "no idea" if silent else f"Score: {score}" if "wordy" in name else str(score)


class People:
    """The server's state."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.log = Path(options.log).open("ab", buffering=0) if options.log else None  # noqa: SIM115
        self.requests = self.in_flight = self.most = 0

    async def chat(self, request: web.Request) -> web.Response:
        data = await request.read()
        body = json.loads(data)
        self.requests += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            if self.log:
                self.log.write(data + b"\n")
            if self.options.latency:
                await asyncio.sleep(self.options.latency)
            name, messages = body["model"], body["messages"]
            if "unspeakable" in messages[-1]["content"]:
                return web.json_response({"error": {"message": "scripted refusal"}}, status=404)
            said = (
                seeker(messages, self.options.change) if "seeker" in name
                else judge(name, messages) if "judge" in name
                else supporter(messages)
            )  # fmt: skip
            choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
            usage = {"prompt_tokens": len(data) // 4, "completion_tokens": len(said), "total_tokens": 0}
            whole = {"id": "x", "object": "chat.completion", "created": 0, "model": name}
            return web.json_response(whole | {"choices": [choice], "usage": usage})
        finally:
            self.in_flight -= 1

    async def models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "people", "owned_by": "tests"}]})

    async def counters(self, request: web.Request) -> web.Response:
        return web.json_response({"requests": self.requests, "most": self.most, "in_flight": self.in_flight})


async def serve(options: argparse.Namespace) -> None:
    people = People(options)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", people.chat)
    app.router.add_get("/v1/models", people.models)
    app.router.add_get("/counters", people.counters)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    print(f"listening on http://127.0.0.1:{runner.addresses[0][1]}/v1", flush=True)
    await asyncio.Event().wait()


class PeopleServer:
    """`with PeopleServer(latency=1) as server`: `server.base_url`, `server.bodies()`, `server.counters()`."""

    def __init__(self, **options: Any) -> None:
        self.options, self.base_url = options, ""

    def __enter__(self) -> PeopleServer:
        words = [f"--{name}={value}" for name, value in self.options.items()]
        command = [sys.executable, "-m", "tests.evals.played_roles", *words]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.base_url = self.process.stdout.readline().removeprefix("listening on ").strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def bodies(self, model: str = "") -> list[dict[str, Any]]:
        """Every request so far, or those to a model."""
        lines = Path(self.options["log"]).read_text("utf-8").splitlines()
        return [body for line in lines if model in (body := json.loads(line))["model"]]

    def counters(self) -> dict[str, int]:
        with urlopen(self.base_url.removesuffix("/v1") + "/counters", timeout=10) as response:
            told: dict[str, int] = json.load(response)
        return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--log")
    parser.add_argument("--change", type=int)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args()))
