"""The judge over HTTP.

serve        listen, load, stop
application  the endpoints
queueing     requests that wait together are judged together
meter        Prometheus text
enclosures   pictures
wire         requests, replies, kinds of failure
http         the other side: a judge behind such a service

What the judge's service counts, as Prometheus reads it.

Requests that wait together are judged together.

A batch is begun with the request that has waited longest; for a few milliseconds, or until it is full, others may
join it. A request is never cut: the cases of a group stay together, and one that is larger than a batch is a batch
of its own. Cases of one history are put side by side even when different requests brought them. Whoever gives up
waiting leaves the queue at once. A judge that fails on a batch is asked about each request alone, so that one
request's trouble stays its own.

The judge works in a thread of its own, so the service answers while it computes.

The judge's HTTP interface.

    POST /v1/judge    {"cases": […], "orders": "one"}       judgements, in the order of the cases
    POST /v1/score    {"items": […]}                        items of the dataset, or {history, output, reference}
    GET  /health      200 once the weights are loaded and have judged something, 503 before
    GET  /identity    whose judgements these are, and what may be sent
    GET  /metrics     for Prometheus

Requests are validated before they may wait, wait in a bounded queue (503 with Retry-After when it is full), and are
judged in batches (`queueing`). Bodies must be sent as application/json, which a web page of somebody else's cannot
do unasked. Errors are JSON, {"error": {"message": …}}.

Running the judge's service: listen, load the weights, answer, and end in peace.

The service listens at once and says at /health when it is ready. It listens on this machine alone unless a key is
set. SIGTERM (or Ctrl-C) takes no new connections and finishes what is in flight, for so long as `grace` allows; a
second one ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import math
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from compeer import __version__
from compeer.cer.item import Item
from compeer.errors import UserError
from compeer.models.meter import SECONDS, Counter, Gauge, Histogram, Metrics
from compeer.reasoning import parse
from compeer.reasoning.ontology import detect
from compeer.reward.background_loop import Background
from compeer.reward.case import Case, case_of, case_of_parsed, gathered
from compeer.reward.judge import Judge, Judgement, Orders
from compeer.reward.rehearsal import GOOD
from compeer.reward.wire import (
    About,
    JudgeError,
    JudgeReply,
    JudgeRequest,
    Output,
    PictureRefused,
    ScoreReply,
    ScoreRequest,
    failure_kind,
    fingerprint,
    problem_with,
    scored,
    unpacked,
)
from compeer.typed import from_json, from_plain

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Meter(Metrics):
    """Everything on the page /metrics."""

    def __init__(self) -> None:
        self.requests = Counter("compeer_judge_requests_total", "Requests, by path and status.")
        self.cases = Counter("compeer_judge_cases_total", "Cases that were judged.")
        self.failures = Counter("compeer_judge_failures_total", "Cases without a judgement, by kind.")
        self.cancelled = Counter("compeer_judge_cancelled_total", "Requests that were given up before their answer.")
        self.taken = Counter("compeer_judge_taken_total", "Requests that were taken from the queue.")
        self.tokens = Counter("compeer_judge_tokens_total", "Tokens encoded.")
        self.waiting = Gauge("compeer_judge_queue_requests", "Requests that wait.")
        self.waiting_cases = Gauge("compeer_judge_queue_cases", "Cases that wait.")
        self.batches = Histogram("compeer_judge_batch_cases", "Cases that were judged together.", BATCHES)
        self.joined = Histogram("compeer_judge_batch_requests", "Requests that were judged together.", BATCHES)
        self.latency = Histogram("compeer_judge_seconds", "From a request to its judgements.", SECONDS)
        self.work = Histogram("compeer_judge_batch_seconds", "What the judge took for a batch.", SECONDS)


class QueueFull(Exception):
    """No room for this request now; `retry_after` seconds from now there may be."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full; try again in {retry_after} s")
        self.retry_after = retry_after


class Stopping(Exception):
    """The service goes away."""


class _Waiting:
    """A request in the queue."""

    def __init__(self, cases: Sequence[Case], orders: Orders) -> None:
        self.cases, self.orders = cases, orders
        self.answer: asyncio.Future[list[Judgement]] = asyncio.get_running_loop().create_future()


class JudgeQueue:
    """A judge and those who wait for it."""

    def __init__(self, judge: Judge, meter: Meter, *, batch: int = 32, patience: float = 0.005, room: int = 4096):
        self.judge, self.meter = judge, meter
        self.batch, self.patience, self.room = batch, patience, room
        self.apart = Background("judge")
        self._waiting: deque[_Waiting] = deque()
        self._under_way: list[_Waiting] = []
        self._came = asyncio.Event()
        self._stopped = False

    async def submit(self, cases: Sequence[Case], orders: Orders) -> list[Judgement]:
        """Wait for the judgements of these cases. Cancelling it gives up the place in the queue."""
        if self._stopped:
            raise Stopping
        waiting = sum(len(one.cases) for one in self._waiting)
        if self._waiting and waiting + len(cases) > self.room:  # alone even a large request may come in
            raise QueueFull(self._retry_after(waiting))
        mine = _Waiting(cases, orders)
        self._waiting.append(mine)
        self._count()
        self._came.set()
        try:
            return await mine.answer
        except asyncio.CancelledError:
            self.meter.cancelled.add()
            raise
        finally:
            if mine in self._waiting:
                self._waiting.remove(mine)
                self._count()

    async def work(self) -> None:
        """Judge batch after batch, for ever."""
        while True:
            while not self._waiting:
                self._came.clear()
                await self._came.wait()
            await self._others()
            self._under_way = self._take()
            if self._under_way:
                await self._judge(self._under_way)
                self._under_way = []

    def stop(self) -> None:
        """Nobody is answered any more."""
        self._stopped = True
        for one in [*self._waiting, *self._under_way]:
            if not one.answer.done():
                one.answer.set_exception(Stopping())

    async def _others(self) -> None:
        """A few milliseconds for others to come, unless the batch is full already."""
        ends = time.monotonic() + self.patience
        while sum(len(one.cases) for one in self._waiting) < self.batch and (left := ends - time.monotonic()) > 0:
            self._came.clear()
            try:
                await asyncio.wait_for(self._came.wait(), left)
            except TimeoutError:
                return

    def _take(self) -> list[_Waiting]:
        """The requests of the next batch: the oldest, and those behind it that ask in the same way and fit."""
        taken: list[_Waiting] = []
        size = 0
        for one in list(self._waiting):
            if taken and (one.orders != taken[0].orders or size + len(one.cases) > self.batch):
                continue
            taken.append(one)
            size += len(one.cases)
            self._waiting.remove(one)
            if size >= self.batch:
                break
        self._count()
        self.meter.taken.add(len(taken))
        return taken

    async def _judge(self, requests: list[_Waiting]) -> None:
        cases = [case for one in requests for case in one.cases]
        places = gathered(cases)
        began = time.monotonic()
        try:
            answers = await self.apart.elsewhere(
                self.judge.judge([cases[place] for place in places], orders=requests[0].orders)
            )
            if problem := problem_with([cases[place] for place in places], answers):
                raise JudgeError("nonsense", f"{self.judge.name} gave {problem}")
        except Exception as error:
            waiting = [one for one in requests if not one.answer.done()]
            if len(requests) > 1:
                for one in waiting:
                    await self._judge([one])
                return
            self.meter.failures.add(len(cases), kind=error.kind if isinstance(error, JudgeError) else "judge")
            if waiting:
                waiting[0].answer.set_exception(error)
            return
        self.meter.work.see(time.monotonic() - began)
        self.meter.batches.see(len(cases))
        self.meter.joined.see(len(requests))
        for answer in answers:
            self.meter.tokens.add(answer.tokens)
            if answer.failure is None:
                self.meter.cases.add()
            else:
                self.meter.failures.add(kind=failure_kind(answer.failure))
        in_order = dict(zip(places, answers, strict=True))
        place = 0
        for one in requests:
            if not one.answer.done():
                one.answer.set_result([in_order[place + offset] for offset in range(len(one.cases))])
            place += len(one.cases)

    def _retry_after(self, waiting: int) -> int:
        """Seconds until what waits now is judged, as far as one can tell, between 1 and 30."""
        work, batches = self.meter.work, self.meter.batches
        a_case = work.sum / batches.sum if batches.sum else 0.0
        return min(30, max(1, math.ceil(waiting * a_case)))

    def _count(self) -> None:
        self.meter.waiting.set(len(self._waiting))
        self.meter.waiting_cases.set(sum(len(one.cases) for one in self._waiting))


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


async def serve(judge: Judge, settings: Settings) -> None:
    """Run until SIGTERM or Ctrl-C. UserError when the judge cannot be loaded or the port is taken."""
    service = Service(judge, settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(
        service.application(), handler_cancellation=True, access_log=None, shutdown_timeout=settings.grace + 1
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host or None, settings.port).start()
    except OSError as error:
        await runner.cleanup()
        reason = error.strerror or str(error)
        raise UserError(f"Cannot listen on {settings.host} port {settings.port}: {reason}.") from None
    working = asyncio.create_task(service.queue.work())
    try:
        print(f"listening on http://{_shown(settings.host)}:{runner.addresses[0][1]}", flush=True)
        await _until_stopped(service, stop)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # a second one ends it at once
            loop.remove_signal_handler(number)
        service.stopping = True
        late = loop.call_later(settings.grace, service.queue.stop)
        await runner.cleanup()
        late.cancel()
        working.cancel()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(service.queue.apart.elsewhere(judge.close()), 5)
        service.queue.apart.close()


async def _until_stopped(service: Service, stop: asyncio.Event) -> None:
    began = time.monotonic()
    stopped = asyncio.create_task(stop.wait())
    loading = asyncio.create_task(service.load())
    await asyncio.wait({stopped, loading}, return_when=asyncio.FIRST_COMPLETED)
    if not loading.done():
        loading.cancel()
        return
    about = loading.result()
    print(f"ready after {time.monotonic() - began:.1f} s: {about.name}, {about.kind}", file=sys.stderr, flush=True)
    await stopped


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host or "0.0.0.0"
