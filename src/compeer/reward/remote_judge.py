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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp
import msgspec

from compeer.models.endpoint import is_address, server_message
from compeer.models.request import RETRIED_STATUS, Patience, Tries, retry_after
from compeer.reward.background_loop import never_collect
from compeer.reward.case import Case, split_by_history
from compeer.reward.judge import Judgement, Orders
from compeer.reward.verdict import Kind
from compeer.reward.wire import (
    FailureKind,
    JudgeError,
    JudgeReply,
    JudgeRequest,
    PictureRefused,
    Retry,
    ServiceInfo,
    failed_judgement,
    reply_problem,
    with_embedded_pictures,
)
from compeer.typed import from_json


class RemoteJudge:
    """A judge in another process. `most` is the number of cases per request."""

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
        self.url = url.rstrip("/").removesuffix("/v1")
        self.api_key = api_key or os.environ.get("COMPEER_API_KEY")
        self.patience, self.most = patience, most
        self.info: ServiceInfo | None = None
        self.fingerprint: str | None = None
        self._session: aiohttp.ClientSession | None = None
        self._home: tuple[int, asyncio.AbstractEventLoop] | None = None

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
        self._remember(_read_info(await self._asked("GET", "/identity"), self.url))
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
                ready.append((place, with_embedded_pictures(case)))
            except PictureRefused as problem:
                found[place] = failed_judgement(case, "refused", str(problem))
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

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None and self._home == _here():
            await session.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_session": None, "_home": None}

    async def _judged(self, cases: list[Case], orders: Orders) -> list[Judgement]:
        body = msgspec.json.encode(JudgeRequest(cases, orders))
        tries = Tries(self.patience)
        while True:
            try:
                data = await self._asked("POST", "/v1/judge", body, tries)
                return self._read(data, cases)
            except _Nonsense as problem:
                await self._pause(tries, "nonsense", str(problem), None)

    def _read(self, data: bytes, cases: list[Case]) -> list[Judgement]:
        try:
            reply = from_json(data, JudgeReply)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _Nonsense(f"{data[:80]!r} ({error})") from None
        if problem := reply_problem(cases, reply.judgements):
            raise _Nonsense(problem)
        if reply.judge != self.fingerprint:
            raise JudgeError("refused", self._another(reply.judge), "never")
        return reply.judgements

    async def _asked(self, method: str, path: str, body: bytes | None = None, tries: Tries | None = None) -> bytes:
        """The body of an answer with status 200; everything else is retried or ends in a JudgeError."""
        tries = tries or Tries(self.patience)
        while True:
            kind: FailureKind = "connection"
            wait, allowed = None, tries.begin()
            limit = aiohttp.ClientTimeout(total=allowed, sock_connect=min(10.0, allowed))
            try:
                request = self._http.request(method, self.url + path, data=body, timeout=limit, allow_redirects=False)
                async with request as response:
                    data = await response.read()
                    if response.status == 200:
                        return data
                    kind, problem = "refused", f"it answered {response.status}: {server_message(data)}"
                    wait = retry_after(response.headers.get("Retry-After"))
                    if response.status not in RETRIED_STATUS:
                        again: Retry = "smaller" if response.status in (400, 413) else "never"
                        raise JudgeError("refused", self._refused(response.status, problem), again)
            except TimeoutError:
                kind, problem = "time", f"it did not answer within {allowed:.3g} s"
            except aiohttp.ClientPayloadError as error:
                problem = f"it broke off in the middle of its answer ({error})"
            except (aiohttp.ClientError, OSError) as error:
                problem = f"the connection failed: {error or type(error).__name__}"
            await self._pause(tries, kind, problem, wait)

    async def _pause(self, tries: Tries, kind: FailureKind, problem: str, wait: float | None) -> None:
        pause = tries.pause(wait)
        if pause is None:
            tried = f" after {tries.made} attempts" if tries.made > 1 else ""
            advice = "Is it running (compeer reward serve), and is the address right?"
            raise JudgeError(kind, f"No judgement from {self.url}{tried}: {problem}. {advice}")
        await asyncio.sleep(pause)

    @property
    def _http(self) -> aiohttp.ClientSession:
        if self._session is None or self._home != _here():  # a session belongs to one loop of one process
            if self._session is not None and self._home is not None and self._home[0] != os.getpid():
                never_collect(self._session)
            headers = {"Content-Type": "application/json"}
            if self.api_key:
                headers["Authorization"] = f"Bearer {self.api_key}"
            self._session = aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0))
            self._home = _here()
        return self._session

    async def _fetch_info(self) -> ServiceInfo:
        """What the service says about itself, in a loop of its own."""
        try:
            return _read_info(await self._asked("GET", "/identity"), self.url)
        finally:
            await self.close()

    def _remember(self, info: ServiceInfo) -> None:
        if self.fingerprint not in (None, info.fingerprint):
            raise JudgeError("refused", self._another(info.fingerprint), "never")
        self.info, self.fingerprint = info, info.fingerprint

    def _another(self, fingerprint: str) -> str:
        return (
            f"Another judge answers at {self.url}: its fingerprint is {fingerprint or 'not given'}, before it was "
            f"{self.fingerprint}. Rewards of two judges cannot be mixed; start the first one again."
        )

    def _refused(self, status: int, problem: str) -> str:
        advice = {
            401: "Set COMPEER_API_KEY to the key the service was started with.",
            404: "Is this the address of `compeer reward serve`?",
            413: "Send fewer cases at once, or start the service with a larger limit.",
        }.get(status, "The service's own messages may say more.")
        return f"The judge at {self.url} refused: {problem}. {advice}"


class _Nonsense(Exception):
    """An answer without the judgements that were asked for."""


def _read_info(data: bytes, url: str) -> ServiceInfo:
    try:
        return from_json(data, ServiceInfo)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        answer = f"it answers {data[:80]!r}"
        raise JudgeError("nonsense", f"{url} is not a judge: {answer}. Is this `compeer reward serve`?") from None


def _here() -> tuple[int, asyncio.AbstractEventLoop]:
    return os.getpid(), asyncio.get_running_loop()
