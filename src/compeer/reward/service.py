"""The judge over HTTP: `compeer reward serve`.

    POST /v1/judge    {"cases": […], "orders": "one"}       judgements, in the order of the cases
    POST /v1/score    {"items": […]}                        items of the dataset, or {history, output, reference}
    GET  /health      200 once the weights are loaded and have judged something, 503 before
    GET  /identity    which judge this is
    GET  /metrics     for Prometheus

Requests wait in a bounded queue and are judged in batches. A batch begins with the oldest request; others may join for
a few milliseconds, or until it is full. A request is never cut, so the cases of a group stay together, and cases with
the same history are put side by side even when they come from different requests. When the judge fails on a batch, it
is asked about each request alone, so that one request cannot spoil another. The judge works in its own thread, so the
service answers while it computes.

An image is inside the request as a data URL, or in the one folder that the operator allowed. The service opens no other
file and fetches no address that a request names.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from aiohttp import web

from compeer import __version__, http_service
from compeer.cer.item import PastTurn, decode_item
from compeer.errors import UserError
from compeer.models.request import ModelError, image_bytes
from compeer.reasoning import parse
from compeer.reasoning.ontology import Language, detect
from compeer.reward.background_loop import BackgroundLoop
from compeer.reward.case import Case, case_of, case_of_parsed, order_by_history, trial_case
from compeer.reward.judge import (
    Judge,
    JudgeError,
    Judgement,
    Orders,
    Scored,
    failure_kind,
    fingerprint,
    reply_problem,
    score_of,
)
from compeer.reward.remote_judge import UNREADABLE, JudgeReply, JudgeRequest, ServiceInfo, with_pictures
from compeer.typed import from_json, from_plain

T = TypeVar("T")
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_DATA_URL = re.compile(r"data:image/[a-z+]+;base64,", re.IGNORECASE)


class ModelOutput(msgspec.Struct, forbid_unknown_fields=True):
    """A model's output for a history, for callers without a dataset. The language is detected if not given."""

    history: tuple[PastTurn, ...]
    output: str
    reference: str
    language: Language | None = None
    id: str | None = None


class ScoreRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Items of the dataset, or outputs of a model, which have a field `output`."""

    items: list[msgspec.Raw]
    orders: Orders | None = None


class ScoreReply(msgspec.Struct):
    """A row per item, in the order of the items."""

    scores: list[Scored]
    judge: str


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    host: str = "127.0.0.1"
    port: int = 8020
    api_key: str | None = None
    orders: Orders = "one"
    batch: int = 32  # cases judged together
    patience: float = 0.005  # maximum wait for a batch to fill, in seconds
    room: int = 4096  # cases that may wait
    timeout: float = 120.0  # seconds per request
    most_cases: int = 1024  # per request
    most_bytes: int = 32 << 20  # per request
    pictures: Path | None = None  # the folder whose images requests may name
    grace: float = 30.0  # seconds for requests in flight when the service is stopped


class ServiceMetrics(http_service.Metrics):
    """Everything on the page /metrics."""

    def __init__(self) -> None:
        super().__init__("compeer_judge")
        self.requests = self.counter("requests", "Requests.", "path", "status")
        self.cases = self.counter("cases", "Cases judged.")
        self.failures = self.counter("failures", "Cases without a judgement.", "kind")
        self.taken = self.counter("taken", "Requests taken from the queue.")
        self.cancelled = self.counter("cancelled", "Requests cancelled before their answer.")
        self.tokens = self.counter("tokens", "Tokens encoded.")
        self.waiting = self.gauge("queue_requests", "Requests waiting.")
        self.waiting_cases = self.gauge("queue_cases", "Cases waiting.")
        self.batches = self.histogram("batch_cases", "Cases judged together.", _SIZES)
        self.joined = self.histogram("batch_requests", "Requests judged together.", _SIZES)
        self.work = self.histogram("batch_seconds", "Time per batch.")
        self.latency = self.histogram("seconds", "Time from a request to its judgements.")


class Refused(Exception):
    """An error answer with its HTTP status, and in how many seconds to try again."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


_STOPPING = (503, "the service is stopping", 5)


class _Waiting:
    def __init__(self, cases: Sequence[Case], orders: Orders) -> None:
        self.cases, self.orders = cases, orders
        self.answer: asyncio.Future[list[Judgement]] = asyncio.get_running_loop().create_future()


class JudgeQueue:
    def __init__(self, judge: Judge, metrics: ServiceMetrics, settings: ServiceSettings) -> None:
        self.judge, self.metrics, self.settings = judge, metrics, settings
        self.judge_loop = BackgroundLoop("judge")
        self._waiting: deque[_Waiting] = deque()
        self._in_work: list[_Waiting] = []
        self._arrived = asyncio.Event()
        self._stopped = False

    async def submit(self, cases: Sequence[Case], orders: Orders) -> list[Judgement]:
        """The judgements of these cases. Cancelling the call gives up the place in the queue."""
        if self._stopped:
            raise Refused(*_STOPPING)
        waiting = sum(len(one.cases) for one in self._waiting)
        if self._waiting and waiting + len(cases) > self.settings.room:  # a large request may come in alone
            raise Refused(503, "the queue is full; try again in a second", 1)
        mine = _Waiting(cases, orders)
        self._waiting.append(mine)
        self._count()
        self._arrived.set()
        try:
            return await mine.answer
        except asyncio.CancelledError:
            self.metrics.cancelled.inc()
            raise
        finally:
            if mine in self._waiting:
                self._waiting.remove(mine)
                self._count()

    async def work(self) -> None:
        """Judge batch after batch, until cancelled."""
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            await self._fill_batch()
            self._in_work = self._take()
            if self._in_work:
                await self._judge(self._in_work)

    def stop(self) -> None:
        """Refuse all waiting requests and all new ones."""
        self._stopped = True
        for one in [*self._waiting, *self._in_work]:
            if not one.answer.done():
                one.answer.set_exception(Refused(*_STOPPING))

    async def _fill_batch(self) -> None:
        """Wait a few milliseconds for other requests, unless the batch is full."""
        ends = time.monotonic() + self.settings.patience
        full = self.settings.batch
        while sum(len(one.cases) for one in self._waiting) < full and (left := ends - time.monotonic()) > 0:
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), left)
            except TimeoutError:
                return

    def _take(self) -> list[_Waiting]:
        """The requests of the next batch: the oldest, and later ones with the same orders that fit."""
        taken: list[_Waiting] = []
        size = 0
        for one in list(self._waiting):
            if taken and (one.orders != taken[0].orders or size + len(one.cases) > self.settings.batch):
                continue
            taken.append(one)
            size += len(one.cases)
            self._waiting.remove(one)
            if size >= self.settings.batch:
                break
        self._count()
        self.metrics.taken.inc(len(taken))
        return taken

    def _count(self) -> None:
        self.metrics.waiting.set(len(self._waiting))
        self.metrics.waiting_cases.set(sum(len(one.cases) for one in self._waiting))

    async def _judge(self, requests: list[_Waiting]) -> None:
        cases = [case for one in requests for case in one.cases]
        places = order_by_history(cases)
        ordered = [cases[place] for place in places]
        began = time.monotonic()
        try:
            answers = await self.judge_loop.run(self.judge.judge(ordered, orders=requests[0].orders))
            if problem := reply_problem(ordered, answers):
                raise JudgeError("nonsense", f"{self.judge.name} gave {problem}")
        except Exception as error:
            waiting = [one for one in requests if not one.answer.done()]
            if len(requests) > 1:
                for one in waiting:
                    await self._judge([one])
                return
            self.metrics.failures.labels(error.kind if isinstance(error, JudgeError) else "judge").inc(len(cases))
            if waiting:
                waiting[0].answer.set_exception(error)
            return
        self.metrics.work.observe(time.monotonic() - began)
        self.metrics.joined.observe(len(requests))
        self.metrics.batches.observe(len(cases))
        for answer in answers:
            self.metrics.tokens.inc(answer.tokens)
            if answer.failure is None:
                self.metrics.cases.inc()
            else:
                self.metrics.failures.labels(failure_kind(answer.failure)).inc()
        by_place = dict(zip(places, answers, strict=True))
        in_order = iter([by_place[place] for place in range(len(cases))])
        for one in requests:
            own = [next(in_order) for _ in one.cases]
            if not one.answer.done():
                one.answer.set_result(own)


class JudgeService:
    def __init__(self, judge: Judge, settings: ServiceSettings) -> None:
        self._keys = (settings.api_key,) if settings.api_key else ()
        http_service.require_key_if_exposed(settings.host, self._keys, "--api-key or COMPEER_API_KEY")
        if settings.pictures is not None and not settings.pictures.is_dir():
            raise UserError(f"There is no folder {settings.pictures} with pictures.")
        self.judge, self.settings, self.metrics = judge, settings, ServiceMetrics()
        self.info: ServiceInfo | None = None
        self.stopping = False
        self.queue = JudgeQueue(judge, self.metrics, settings)

    def application(self) -> web.Application:
        app = web.Application(client_max_size=self.settings.most_bytes, middlewares=[self._around])
        app.router.add_post("/v1/judge", self._judge)
        app.router.add_post("/v1/score", self._score)
        app.router.add_get("/health", self._health)
        app.router.add_get("/identity", self._identity)
        app.router.add_get("/metrics", self._metrics)
        return app

    async def load(self) -> ServiceInfo:
        """Load the weights by judging a case; from then on the service is ready."""
        settings, judge, loop = self.settings, self.judge, self.queue.judge_loop
        identity = dict(await loop.run(judge.identity()))
        first = (await loop.run(judge.judge([trial_case("good", "en")], orders="one")))[0]
        if first.failure is not None:
            raise UserError(f"{judge.name} cannot judge a first, easy case: {first.failure}")
        self.info = ServiceInfo(
            name=judge.name,
            kind=judge.kind,
            identity=identity,
            fingerprint=fingerprint(identity),
            orders=settings.orders,
            version=__version__,
        )
        return self.info

    async def _judge(self, request: web.Request) -> web.Response:
        info = self._ready()
        body = _decoded(await request.read(), JudgeRequest)
        judgements = await self._judged(body.cases, body.orders)
        return http_service.json_response(JudgeReply(judgements, info.fingerprint))

    async def _score(self, request: web.Request) -> web.Response:
        info = self._ready()
        body = _decoded(await request.read(), ScoreRequest)
        cases = [_case(raw, f"$.items[{number}]") for number, raw in enumerate(body.items)]
        judgements = await self._judged(cases, body.orders)
        return http_service.json_response(ScoreReply([score_of(one) for one in judgements], info.fingerprint))

    async def _judged(self, cases: Sequence[Case], orders: Orders | None) -> list[Judgement]:
        if len(cases) > self.settings.most_cases:
            raise Refused(413, f"{len(cases)} cases in one request; the maximum is {self.settings.most_cases}")
        if not cases:
            return []
        check = partial(checked_picture, allowed=self.settings.pictures)
        ready = [with_pictures(case, check) for case in cases]
        async with asyncio.timeout(self.settings.timeout):
            return await self.queue.submit(ready, orders or self.settings.orders)

    async def _health(self, _: web.Request) -> web.Response:
        state = "stopping" if self.stopping else "ready" if self.info else "loading"
        return http_service.json_response({"status": state}, 200 if state == "ready" else 503)

    async def _identity(self, _: web.Request) -> web.Response:
        return http_service.json_response(self._ready())

    async def _metrics(self, _: web.Request) -> web.Response:
        return self.metrics.response()

    def _ready(self) -> ServiceInfo:
        if self.info is None:
            raise Refused(503, "the judge is still loading", retry_after=2)
        return self.info

    @web.middleware
    async def _around(self, request: web.Request, handler: http_service.Handler) -> web.StreamResponse:
        """Key check, errors as JSON, and the metrics of every request."""
        began = time.monotonic()
        response: web.StreamResponse
        try:
            self._admit(request)
            response = await handler(request)
        except Refused as refused:
            response = _error(refused.status, str(refused), refused.retry_after)
        except TimeoutError:
            response = _error(504, f"no judgement within {self.settings.timeout:g} s")
        except web.HTTPRequestEntityTooLarge:
            response = _error(413, f"the request is larger than {self.settings.most_bytes:,} bytes")
        except web.HTTPException as other:  # no such path, no such method
            response = _error(other.status, other.reason)
        except UserError as error:
            response = _error(500, str(error))
        except asyncio.CancelledError:
            self.metrics.requests.labels(http_service.known_path(request), "gone").inc()
            raise
        except Exception as error:
            response = _error(500, f"the judge failed: {type(error).__name__}: {error}")
        self.metrics.requests.labels(http_service.known_path(request), str(response.status)).inc()
        if request.path.startswith("/v1/"):
            self.metrics.latency.observe(time.monotonic() - began)
        return response

    def _admit(self, request: web.Request) -> None:
        if not http_service.has_key(request, self._keys):
            raise Refused(401, "a key is needed: Authorization: Bearer KEY")
        if not http_service.has_json_body(request):
            raise Refused(415, "send the body as Content-Type: application/json")


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return from_json(data, kind)
    except UNREADABLE as problem:
        raise Refused(400, f"the request cannot be read: {problem}") from None


def _case(raw: msgspec.Raw, place: str) -> Case:
    """The case of an item, or of a model's output."""
    try:
        fields = msgspec.json.decode(raw)
        if not isinstance(fields, dict) or "output" not in fields:
            return case_of(decode_item(bytes(raw)))
        given = from_plain(fields, ModelOutput)
    except msgspec.MsgspecError as problem:
        raise Refused(400, f"{place} cannot be read: {problem}") from None
    except UserError as problem:
        raise Refused(400, f"{place}: {problem}") from None
    language = given.language or detect(" ".join(turn.text for turn in given.history) + given.reference)
    return case_of_parsed(given.id or place, language, given.history, given.reference, parse(given.output))


def checked_picture(name: str, allowed: Path | None) -> str:
    """The data URL of a real image, or the path of a file in the folder `allowed`; everything else is refused."""
    if name[:5].lower() != "data:":
        return _allowed_file(name, allowed)
    encoded = name.partition(",")[2]
    try:
        kind = http_service.picture_type(image_bytes("data:," + encoded)) if _DATA_URL.match(name) else None
    except ModelError as error:
        raise Refused(400, str(error)) from None
    if kind is None:
        raise Refused(400, "An image is a PNG, JPEG, GIF, WebP or BMP file, sent as data:image/png;base64,….")
    return f"data:{kind};base64,{encoded}"


def _allowed_file(name: str, allowed: Path | None) -> str:
    if allowed is None:
        raise Refused(400, "This service opens no files. Send images as data:image/…;base64,… inside the request.")
    try:
        path = (allowed / name).resolve()
        inside = path.is_relative_to(allowed.resolve()) and path.is_file()
    except (OSError, ValueError):
        inside = False
    if not inside:  # do not tell whether the file exists elsewhere
        raise Refused(400, f"There is no picture {name[:200]!r} in the folder that this service may read.")
    return str(path)


def _error(status: int, message: str, retry_after: int | None = None) -> web.Response:
    return http_service.json_response({"error": {"message": message}}, status, retry_after)


async def serve(judge: Judge, settings: ServiceSettings) -> None:
    """Run until SIGTERM or Ctrl-C. UserError when the judge cannot be loaded or the port is taken."""
    service = JudgeService(judge, settings)
    queue = service.queue
    working = asyncio.create_task(queue.work())

    async def load() -> str:
        info = await service.load()
        return f"{info.name}, {info.kind}"

    async def finish() -> None:
        service.stopping = True
        asyncio.get_running_loop().call_later(settings.grace, queue.stop)

    try:
        await http_service.run_until_stopped(
            service.application(),
            settings.host,
            settings.port,
            load=load,
            finish=finish,
            shutdown_timeout=settings.grace + 1,  # what is in flight has its time, then the queue tells it no
        )
    finally:
        working.cancel()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(queue.judge_loop.run(judge.close()), 5)
        queue.judge_loop.close()
