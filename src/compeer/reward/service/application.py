"""The judge's HTTP interface.

    POST /v1/judge    {"cases": […], "orders": "one"}       judgements, in the order of the cases
    POST /v1/score    {"items": […]}                        items of the dataset, or {history, output, reference}
    GET  /health      200 once the weights are loaded and have judged something, 503 before
    GET  /identity    whose judgements these are, and what may be sent
    GET  /metrics     for Prometheus

Requests are validated before they may wait, wait in a bounded queue (503 with Retry-After when it is full), and are
judged in batches (`queueing`). Bodies must be sent as application/json, which a web page of somebody else's cannot
do unasked. Errors are JSON, {"error": {"message": …}}.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from compeer import __version__
from compeer.cer.item import Item
from compeer.errors import UserError
from compeer.reasoning import parse
from compeer.reasoning.language import detect
from compeer.reward.case import Case, case_of, case_of_parsed
from compeer.reward.client.trial import GOOD
from compeer.reward.judge import Judge, Judgement, Orders
from compeer.reward.service.enclosures import PictureRefused, unpacked
from compeer.reward.service.meter import Meter
from compeer.reward.service.queueing import JudgeQueue, QueueFull, Stopping
from compeer.reward.service.wire import (
    About,
    JudgeReply,
    JudgeRequest,
    Output,
    ScoreReply,
    ScoreRequest,
    fingerprint,
    scored,
)
from compeer.typed import from_json, from_plain

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")
_OPEN = ("/health",)  # answered without a key


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How the service runs. `patience` is how long a batch waits for company, in seconds."""

    host: str = "127.0.0.1"
    port: int = 8020
    api_key: str | None = None
    orders: Orders = "one"
    batch: int = 32
    patience: float = 0.005
    room: int = 4096  # cases that may wait
    timeout: float = 120.0  # for one request
    most_cases: int = 1024  # in one request
    most_bytes: int = 32 << 20
    pictures: Path | None = None  # the folder whose pictures may be named in requests
    grace: float = 30.0  # for what is in flight when the service is stopped


class Service:
    """The application around one judge."""

    def __init__(self, judge: Judge, settings: Settings) -> None:
        if not settings.api_key and not _is_local(settings.host):
            raise UserError(
                f"{settings.host or '0.0.0.0'} can be reached from other machines, and no key is set. "
                "Give one with --api-key or COMPEER_API_KEY, or listen on 127.0.0.1."
            )
        if settings.pictures is not None and not settings.pictures.is_dir():
            raise UserError(f"There is no folder {settings.pictures} with pictures.")
        self.judge, self.settings, self.meter = judge, settings, Meter()
        self.about: About | None = None
        self.stopping = False
        self.queue = JudgeQueue(judge, self.meter, batch=settings.batch, patience=settings.patience, room=settings.room)

    def application(self) -> web.Application:
        app = web.Application(client_max_size=self.settings.most_bytes, middlewares=[self._around])
        app.router.add_post("/v1/judge", self._judge)
        app.router.add_post("/v1/score", self._score)
        app.router.add_get("/health", self._health)
        app.router.add_get("/identity", self._identity)
        app.router.add_get("/metrics", self._metrics)
        return app

    async def load(self) -> About:
        """Load the weights by judging something; from then on the service is ready."""
        settings, judge, apart = self.settings, self.judge, self.queue.apart
        identity = dict(await apart.elsewhere(_identity_of(judge)))
        first = (await apart.elsewhere(judge.judge([GOOD["en"]], orders="one")))[0]
        if first.failure is not None:
            raise UserError(f"{judge.name} cannot judge a first, easy case: {first.failure}")
        self.about = About(
            name=judge.name,
            kind=judge.kind,
            identity=identity,
            fingerprint=fingerprint(identity),
            orders=settings.orders,
            most_cases=settings.most_cases,
            most_bytes=settings.most_bytes,
            version=__version__,
        )
        return self.about

    async def _judge(self, request: web.Request) -> web.Response:
        about = self._ready()
        body = _decoded(await request.read(), JudgeRequest)
        judgements = await self._judged(body.cases, body.orders)
        return _json(JudgeReply(judgements, about.fingerprint))

    async def _score(self, request: web.Request) -> web.Response:
        about = self._ready()
        body = _decoded(await request.read(), ScoreRequest)
        cases = [_case(raw, f"$.items[{number}]") for number, raw in enumerate(body.items)]
        judgements = await self._judged(cases, body.orders)
        return _json(ScoreReply([scored(one) for one in judgements], about.fingerprint))

    async def _judged(self, cases: Sequence[Case], orders: Orders | None) -> list[Judgement]:
        if len(cases) > self.settings.most_cases:
            raise _Refused(413, f"{len(cases)} cases in one request; at most {self.settings.most_cases} are taken")
        if not cases:
            return []
        with contextlib.ExitStack() as files:
            made: list[Path] = []

            def folder() -> Path:
                if not made:
                    made.append(Path(files.enter_context(tempfile.TemporaryDirectory(prefix="compeer-"))))
                return made[0]

            ready = unpacked(cases, folder, self.settings.pictures)
            async with asyncio.timeout(self.settings.timeout):
                return await self.queue.submit(ready, orders or self.settings.orders)

    async def _health(self, _: web.Request) -> web.Response:
        state = "stopping" if self.stopping else "ready" if self.about else "loading"
        return _json({"status": state}, 200 if state == "ready" else 503)

    async def _identity(self, _: web.Request) -> web.Response:
        return _json(self._ready())

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(text=self.meter.page(), content_type="text/plain", charset="utf-8")

    def _ready(self) -> About:
        if self.about is None:
            raise _Refused(503, "the judge is still loading", retry_after=2)
        return self.about

    @web.middleware
    async def _around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Keys, errors as JSON, and the count of everything."""
        began = time.monotonic()
        try:
            response = await self._answered(request, handler)
        except asyncio.CancelledError:
            self.meter.requests.add(path=_path(request), status="gone")
            raise
        self.meter.requests.add(path=_path(request), status=str(response.status))
        if request.path.startswith("/v1/"):
            self.meter.latency.see(time.monotonic() - began)
        return response

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._admit(request)
            return await handler(request)
        except _Refused as refused:
            return _error(refused.status, str(refused), refused.retry_after)
        except PictureRefused as refused:
            return _error(400, str(refused))
        except QueueFull as full:
            return _error(503, str(full), full.retry_after)
        except Stopping:
            return _error(503, "the service is stopping", 5)
        except TimeoutError:
            return _error(504, f"no judgement within {self.settings.timeout:g} s")
        except web.HTTPRequestEntityTooLarge:
            return _error(413, f"the request is larger than {self.settings.most_bytes:,} bytes")
        except web.HTTPException as other:  # no such path, no such method
            return _error(other.status, other.reason)
        except UserError as error:
            return _error(500, str(error))
        except Exception as error:
            return _error(500, f"the judge failed: {type(error).__name__}: {error}")

    def _admit(self, request: web.Request) -> None:
        key = self.settings.api_key
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if key and request.path not in _OPEN and not hmac.compare_digest(given.encode(), key.encode()):
            raise _Refused(401, "a key is needed: Authorization: Bearer KEY")
        if request.method == "POST" and request.content_type != "application/json":
            raise _Refused(415, "send the body as Content-Type: application/json")


async def _identity_of(judge: Judge) -> dict[str, Any]:
    return dict(await judge.identity())


class _Refused(Exception):
    """An answer other than judgements."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return from_json(data, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise _Refused(400, f"the request cannot be read: {problem}") from None


def _case(raw: msgspec.Raw, place: str) -> Case:
    """The case of an item, or of a model's output."""
    try:
        fields = msgspec.json.decode(raw)
        if not isinstance(fields, dict) or "output" not in fields:
            return case_of(from_plain(fields, Item))
        given = from_plain(fields, Output)
    except msgspec.MsgspecError as problem:
        raise _Refused(400, f"{place} cannot be read: {problem}") from None
    except UserError as problem:
        raise _Refused(400, f"{place}: {problem}") from None
    language = given.language or detect(" ".join(turn.text for turn in given.history) + given.reference)
    return case_of_parsed(given.id or place, language, given.history, given.reference, parse(given.output))


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _error(status: int, message: str, retry_after: int | None = None) -> web.Response:
    response = _json({"error": {"message": message}}, status)
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    return response


def _path(request: web.Request) -> str:
    """A known path, or one word for all others, so that nobody can fill the metrics with inventions."""
    return request.path if request.match_info.http_exception is None else "other"


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
