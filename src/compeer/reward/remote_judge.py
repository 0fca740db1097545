"""A judge behind `compeer reward serve`.

    judge = RemoteJudge("http://127.0.0.1:8020")
    judgements = await judge.judge(cases, orders="both")

A failure that may pass (no connection, no answer in time, 5xx, 429, garbage) is retried with growing pauses, a bounded
number of times and within a time limit. The service is asked for its identity first. From then on an answer of another
judge at the same address is refused, because rewards of two judges cannot be mixed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import aiohttp
import msgspec
from yarl import URL

from compeer.models.endpoint import Garbage, JsonServer, is_address
from compeer.models.request import RETRIED_STATUS, FailureKind, Patience, Retry
from compeer.reward import wire
from compeer.reward.case import Case, split_by_history
from compeer.reward.judge import Judgement, Orders
from compeer.reward.verdict import Kind
from compeer.typed import from_json

T = TypeVar("T")


class RemoteJudge(JsonServer):
    """A judge in another process. `most` is the number of cases per request."""

    redirects = False

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        patience: Patience = Patience(attempts=6, longest=15.0, patience=180.0),
        most: int = 256,
    ) -> None:
        if not is_address(url):
            raise wire.JudgeError(
                "refused", f"{url!r} is not the address of a judge; write it like http://127.0.0.1:8020.", "never"
            )
        super().__init__(api_key or os.environ.get("COMPEER_API_KEY"), patience, concurrency=1000)
        self.url, self.most = url.rstrip("/").removesuffix("/v1"), most
        self.info: wire.ServiceInfo | None = None
        self.fingerprint: str | None = None

    @property
    def name(self) -> str:
        return self.info.name if self.info else self.url

    @property
    def kind(self) -> Kind:
        """The kind of judge; the service is asked once."""
        if self.info is None:
            # the caller may be in an event loop, which cannot wait for itself
            with ThreadPoolExecutor(1) as thread:
                self._remember(thread.submit(asyncio.run, self.without_retries(10.0)._fetch_info()).result())
        assert self.info is not None
        return self.info.kind

    async def identity(self) -> Mapping[str, Any]:
        """The identity of the judge behind the service, asked again every time."""
        self._remember(await self._asked("GET", "/identity", None, self._read_info))
        assert self.info is not None
        return self.info.identity

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        """Judgements of all cases; JudgeError when the service gave none. Only the case with a missing image fails."""
        if self.info is None:
            await self.identity()
        found: dict[int, Judgement] = {}
        ready: list[tuple[int, Case]] = []
        for place, case in enumerate(cases):
            try:
                ready.append((place, wire.with_embedded_pictures(case)))
            except wire.PictureRefused as problem:
                found[place] = wire.failed_judgement(case, "refused", str(problem))
        for piece in split_by_history([case for _, case in ready], self.most):
            asked = [ready[place] for place in piece]
            answers = await self._judged([case for _, case in asked], orders)
            found |= {place: answer for (place, _), answer in zip(asked, answers, strict=True)}
        return [found[place] for place in range(len(cases))]

    def without_retries(self, timeout: float) -> RemoteJudge:
        """The same judge with one attempt per call, for callers that retry themselves."""
        once = Patience(attempts=1, patience=timeout, timeout=timeout)
        other = RemoteJudge(self.url, self.api_key, patience=once, most=self.most)
        other.info, other.fingerprint = self.info, self.fingerprint
        return other

    async def _judged(self, cases: list[Case], orders: Orders) -> list[Judgement]:
        body = msgspec.json.encode(wire.JudgeRequest(cases, orders))
        return await self._asked("POST", "/v1/judge", body, lambda data: self._read(data, cases))

    async def _asked(self, method: str, path: str, body: bytes | None, read: Callable[[bytes], T]) -> T:
        async def payload() -> bytes | None:
            return body

        return await self._tried(method, URL(self.url + path), payload, read)

    def _read(self, data: bytes, cases: list[Case]) -> list[Judgement]:
        try:
            reply = from_json(data, wire.JudgeReply)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Garbage(f"{data[:80]!r} ({error})") from None
        if problem := wire.reply_problem(cases, reply.judgements):
            raise Garbage(problem)
        if reply.judge != self.fingerprint:
            raise wire.JudgeError("refused", self._another(reply.judge), "never")
        return reply.judgements

    def silence(self, kind: FailureKind, problem: str, attempts: int) -> wire.JudgeError:
        tried = f" after {attempts} attempts" if attempts > 1 else ""
        advice = "Is it running (compeer reward serve), and is the address right?"
        return wire.JudgeError(kind, f"No judgement from {self.url}{tried}: {problem}. {advice}")

    def refusal(self, response: aiohttp.ClientResponse, problem: str) -> wire.JudgeError | None:
        if response.status in RETRIED_STATUS:
            return None
        advice = {
            401: "Set COMPEER_API_KEY to the key the service was started with.",
            404: "Is this the address of `compeer reward serve`?",
            413: "Send fewer cases at once, or start the service with a larger limit.",
        }.get(response.status, "The service's own messages may say more.")
        again: Retry = "smaller" if response.status in (400, 413) else "never"
        return wire.JudgeError("refused", f"The judge at {self.url} refused: {problem}. {advice}", again)

    async def _fetch_info(self) -> wire.ServiceInfo:
        """What the service says about itself, in a loop of its own."""
        try:
            return await self._asked("GET", "/identity", None, self._read_info)
        finally:
            await self.close()

    def _remember(self, info: wire.ServiceInfo) -> None:
        if self.fingerprint not in (None, info.fingerprint):
            raise wire.JudgeError("refused", self._another(info.fingerprint), "never")
        self.info, self.fingerprint = info, info.fingerprint

    def _another(self, fingerprint: str) -> str:
        return (
            f"Another judge answers at {self.url}: its fingerprint is {fingerprint or 'not given'}, before it was "
            f"{self.fingerprint}. Rewards of two judges cannot be mixed; start the first one again."
        )

    def _read_info(self, data: bytes) -> wire.ServiceInfo:
        try:
            return from_json(data, wire.ServiceInfo)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            words = f"{self.url} is not a judge: it answers {data[:80]!r}. Is this `compeer reward serve`?"
            raise wire.JudgeError("nonsense", words) from None
