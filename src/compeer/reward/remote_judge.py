"""A judge behind `compeer reward serve`, and what the two exchange.

    judge = RemoteJudge("http://127.0.0.1:8020")
    judgements = await judge.judge(cases, orders="both")

Everything is JSON. A reply carries the fingerprint of the judge that gave it: the service is asked for its identity
first, and from then on an answer of another judge at the same address is refused, because rewards of two judges cannot
be mixed. A failure that may pass (no connection, no answer in time, 5xx, 429, garbage) is retried with growing pauses,
a bounded number of times and within a time limit. Images travel inside the request as data URLs.
"""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import aiohttp
import msgspec
from yarl import URL

from compeer.http_service import picture_type
from compeer.models.endpoint import Garbage, JsonServer, is_address
from compeer.models.request import RETRIED_STATUS, FailureKind, ModelError, Patience, Retry, image_bytes
from compeer.reward.case import Case, split_by_history
from compeer.reward.judge import JudgeError, Judgement, Orders, failed_judgement, reply_problem
from compeer.reward.verdict import Kind
from compeer.typed import from_json

T = TypeVar("T")
#: what reading a text that is no JSON of the right form raises
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class JudgeRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Cases to judge, those of one group next to each other. `orders` None: the service's default."""

    cases: list[Case]
    orders: Orders | None = None


class JudgeReply(msgspec.Struct):
    """A judgement per case, in the order of the cases, and the fingerprint of the judge."""

    judgements: list[Judgement]
    judge: str = ""


class ServiceInfo(msgspec.Struct, kw_only=True):
    """Which judge is served."""

    name: str
    kind: Kind
    identity: dict[str, Any]
    fingerprint: str
    orders: Orders
    version: str


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
            raise JudgeError(
                "refused", f"{url!r} is not the address of a judge; write it like http://127.0.0.1:8020.", "never"
            )
        super().__init__(api_key or os.environ.get("COMPEER_API_KEY"), patience, concurrency=1000)
        self.url, self.most = url.rstrip("/").removesuffix("/v1"), most
        self.info: ServiceInfo | None = None
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
        info = await self._asked("GET", "/identity", None, self._read_info)
        self._remember(info)
        return info.identity

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        """Judgements of all cases; JudgeError when the service gave none. Only the case with a missing image fails."""
        if self.info is None:
            await self.identity()
        found: dict[int, Judgement] = {}
        ready: list[tuple[int, Case]] = []
        for place, case in enumerate(cases):
            try:
                ready.append((place, with_pictures(case, data_url)))
            except ModelError as problem:
                found[place] = failed_judgement(case, "refused", str(problem))
        for piece in split_by_history([case for _, case in ready], self.most):
            places, some = zip(*(ready[number] for number in piece), strict=True)
            body = msgspec.json.encode(JudgeRequest(list(some), orders))
            answers = await self._asked("POST", "/v1/judge", body, partial(self._read, cases=some))
            found |= zip(places, answers, strict=True)
        return [found[place] for place in range(len(cases))]

    def without_retries(self, timeout: float) -> RemoteJudge:
        """The same judge with one attempt per call, for callers that retry themselves."""
        once = Patience(attempts=1, patience=timeout, timeout=timeout)
        other = RemoteJudge(self.url, self.api_key, patience=once, most=self.most)
        other.info, other.fingerprint = self.info, self.fingerprint
        return other

    async def _asked(self, method: str, path: str, body: bytes | None, read: Callable[[bytes], T]) -> T:
        async def payload() -> bytes | None:
            return body

        return await self._tried(method, URL(self.url + path), payload, read)

    def _read(self, data: bytes, cases: Sequence[Case]) -> list[Judgement]:
        try:
            reply = from_json(data, JudgeReply)
        except UNREADABLE as error:
            raise Garbage(f"{data[:80]!r} ({error})") from None
        if problem := reply_problem(cases, reply.judgements):
            raise Garbage(problem)
        self._must_be_known(reply.judge)
        return reply.judgements

    async def _fetch_info(self) -> ServiceInfo:
        """What the service says about itself, in a loop of its own."""
        try:
            return await self._asked("GET", "/identity", None, self._read_info)
        finally:
            await self.close()

    def _read_info(self, data: bytes) -> ServiceInfo:
        try:
            return from_json(data, ServiceInfo)
        except UNREADABLE:
            words = f"{self.url} is not a judge: it answers {data[:80]!r}. Is this `compeer reward serve`?"
            raise JudgeError("nonsense", words) from None

    def _remember(self, info: ServiceInfo) -> None:
        self._must_be_known(info.fingerprint)
        self.info, self.fingerprint = info, info.fingerprint

    def _must_be_known(self, fingerprint: str) -> None:
        if self.fingerprint not in (None, fingerprint):
            words = (
                f"Another judge answers at {self.url}: its fingerprint is {fingerprint or 'not given'}, before it was "
                f"{self.fingerprint}. Rewards of two judges cannot be mixed; start the first one again."
            )
            raise JudgeError("refused", words, "never")

    def silence(self, kind: FailureKind, problem: str, attempts: int) -> JudgeError:
        tried = f" after {attempts} attempts" if attempts > 1 else ""
        advice = "Is it running (compeer reward serve), and is the address right?"
        return JudgeError(kind, f"No judgement from {self.url}{tried}: {problem}. {advice}")

    def refusal(self, response: aiohttp.ClientResponse, problem: str) -> JudgeError | None:
        if response.status in RETRIED_STATUS:
            return None
        advice = {
            401: "Set COMPEER_API_KEY to the key the service was started with.",
            404: "Is this the address of `compeer reward serve`?",
            413: "Send fewer cases at once, or start the service with a larger limit.",
        }.get(response.status, "The service's own messages may say more.")
        again: Retry = "smaller" if response.status in (400, 413) else "never"
        return JudgeError("refused", f"The judge at {self.url} refused: {problem}. {advice}", again)


def with_pictures(case: Case, change: Callable[[str], str]) -> Case:
    """The case with each of its images replaced."""
    if not any(turn.images for turn in case.history):
        return case
    history = [msgspec.structs.replace(turn, images=tuple(map(change, turn.images))) for turn in case.history]
    return msgspec.structs.replace(case, history=tuple(history))


def data_url(path: str) -> str:
    """An image as a data URL; ModelError when it cannot be read."""
    if path.startswith("data:"):
        return path
    data = image_bytes(path)
    return f"data:{picture_type(data) or 'image/png'};base64,{base64.b64encode(data).decode()}"
