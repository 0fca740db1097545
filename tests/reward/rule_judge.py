"""A judge by rule, as fast as the service around it, and a process that serves it with faults on demand.

Verdicts come from a hash of the case, so two runs can be compared. It has its weights ("salt"), may take its time,
fails on a case whose reply holds POISON, and says so itself of one that holds UNJUDGEABLE.

    python -m tests.reward.rule_judge --port 0 --delay 0.1
    POST /fault/hang | garbage | half | 500 | shuffled | none
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from compeer.cer.item import Preference
from compeer.reward import service as serving
from compeer.reward.case import Case
from compeer.reward.judge import Judgement, Orders, PairVerdict, StepVerdict, shown_orders
from compeer.reward.service import JudgeService, ServiceSettings
from compeer.reward.verdict import PREFERENCES, Kind

Step3 = tuple[StepVerdict, StepVerdict, StepVerdict]


class RuleJudge:
    """Verdicts drawn from a hash of the text; `delay` seconds for each call but the first, which warms it up."""

    def __init__(self, salt: str = "a", kind: Kind = "unified", delay: float = 0.0) -> None:
        self.salt, self.kind, self.delay = salt, kind, delay
        self.name = f"rule:{salt}"
        self.calls: list[int] = []
        self.seen: list[str] = []

    async def identity(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "weights": self.salt}

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        self.calls.append(len(cases))
        self.seen += [case.id for case in cases]
        await asyncio.sleep(self.delay if len(self.calls) > 1 else 0.0)
        if any("POISON" in case.reply for case in cases):
            raise RuntimeError("the weights did not like this")
        return [self._one(case, orders) for case in cases]

    async def close(self) -> None:
        pass

    def _one(self, case: Case, orders: Orders) -> Judgement:
        if "UNJUDGEABLE" in case.reply:
            return Judgement(id=case.id, complete=case.complete, failure="the reply is too long")
        first, second, third = (self._step(case, step) for step in case.steps)
        pairs = tuple(self._pair(case, order) for order in shown_orders(case, orders)) if self.kind != "prm" else ()
        return Judgement(id=case.id, complete=case.complete, steps=(first, second, third), pairs=pairs, tokens=100)

    def _step(self, case: Case, step: str | None) -> StepVerdict:
        if step is None or self.kind == "orm":
            return StepVerdict()
        p = _draw(self.salt, case.history[-1].text, step).random()
        return StepVerdict(p > 0.5, p)

    def _pair(self, case: Case, candidate_first: bool) -> PairVerdict:
        rng = _draw(self.salt, case.id, case.reply, str(candidate_first))
        weights = [rng.random() for _ in PREFERENCES]
        p: dict[Preference, float] = {
            name: weight / sum(weights) for name, weight in zip(PREFERENCES, weights, strict=True)
        }
        return PairVerdict(candidate_first, max(PREFERENCES, key=lambda name: p[name]), p)


class Awkward(RuleJudge):
    """A judge in this process that misbehaves."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        if self.how == "raises":
            raise MemoryError("no more")
        if self.how == "blocks":
            time.sleep(6)  # noqa: ASYNC251  a judge that blocks its loop
        if self.how == "stubborn":
            for _ in range(50):
                try:
                    await asyncio.sleep(0.2)
                except asyncio.CancelledError:
                    continue
        answers = await super().judge(cases, orders=orders)
        return answers[:-1] if self.how == "short" else answers


def _draw(*texts: str) -> random.Random:
    return random.Random(hashlib.sha256("\x1f".join(texts).encode()).digest())


class Faulty(JudgeService):
    """The real service, with a switch for what it does to requests on their way out."""

    fault = "none"

    def application(self) -> web.Application:
        app = super().application()
        app.middlewares.insert(0, self._spoil)
        app.router.add_post("/fault/{fault}", self._switch)
        return app

    def _admit(self, request: web.Request) -> None:
        if not request.path.startswith("/fault/"):
            super()._admit(request)

    async def _switch(self, request: web.Request) -> web.Response:
        self.fault = request.match_info["fault"]
        return web.Response()

    @web.middleware
    async def _spoil(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.Response]]
    ) -> web.StreamResponse:
        if self.fault == "none" or request.path.startswith("/fault/"):
            return await handler(request)
        if self.fault == "hang":
            await asyncio.sleep(3600)
        if self.fault == "500":
            return web.json_response({"error": {"message": "out of memory"}}, status=500)
        if self.fault == "garbage":
            return web.Response(text="<html>the cat walked over the keyboard</html>")
        response = await handler(request)
        body = response.body
        assert isinstance(body, bytes)
        if self.fault == "half":  # the length of the whole, and half of it
            broken = web.StreamResponse(headers={"Content-Length": str(len(body)), "Content-Type": "application/json"})
            await broken.prepare(request)
            await broken.write(body[: len(body) // 2])
            assert request.transport is not None
            request.transport.close()
            return broken
        return web.Response(body=body.replace(b'"id":"', b'"id":"not-'), content_type="application/json")


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--port", type=int, default=0)
    words.add_argument("--salt", default="a")
    words.add_argument("--kind", default="unified")
    words.add_argument("--delay", type=float, default=0.0)
    words.add_argument("--load", type=float, default=0.0)
    words.add_argument("--batch", type=int, default=32)
    words.add_argument("--room", type=int, default=4096)
    words.add_argument("--timeout", type=float, default=120.0)
    words.add_argument("--grace", type=float, default=30.0)
    words.add_argument("--key", default=None)
    words.add_argument("--most-cases", type=int, default=1024)
    words.add_argument("--most-bytes", type=int, default=1 << 22)
    given = words.parse_args()
    judge = RuleJudge(given.salt, given.kind, given.delay)
    if given.load:
        quick = judge.identity

        async def slow() -> Mapping[str, Any]:
            await asyncio.sleep(given.load)
            return await quick()

        judge.identity = slow  # type: ignore[method-assign]
    settings = ServiceSettings(
        port=given.port,
        batch=given.batch,
        room=given.room,
        timeout=given.timeout,
        grace=given.grace,
        api_key=given.key,
        most_cases=given.most_cases,
        most_bytes=given.most_bytes,
    )
    serving.JudgeService = Faulty  # type: ignore[misc]
    asyncio.run(serving.serve(judge, settings))


if __name__ == "__main__":
    main()
