"""The server's HTTP interface, as any OpenAI client speaks it.

    GET  /v1/models             the one model behind it
    POST /v1/chat/completions   a turn, whole or streamed
    GET  /health                200 once the model is loaded, 503 before and while it stops
    GET  /metrics               for Prometheus

A request is read and screened, waits for a place, and is answered. A client that hangs up ends the work behind its
request at once. A person who may be in danger is never turned away by a failure: where the model fails, is too slow or
too busy, they get a reply that needs no model, with the helpline. Nothing that is said is kept or logged.

Running the server: listen, load the model, answer, and end in peace.

It listens at once and says at /health when it is ready. SIGTERM (or Ctrl-C) refuses what is new with 503 and finishes
what is under way, for so long as `grace` allows; what is left then is told so. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import msgspec
from aiohttp import web

from compeer.conversation.access import Admission, ServeMeter, admit, check_exposure, cross_origin
from compeer.conversation.messages import Album, Asked, asked
from compeer.conversation.turn import Streamed, Telling, Turn, Whole, Writer, care_for, warm, without_helpline
from compeer.conversation.wire import Refused, Settings, read_request
from compeer.errors import UserError
from compeer.models import ModelError
from compeer.models.embedded import Embedded
from compeer.models.endpoint import Endpoint

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Service:
    """The application around one model."""

    def __init__(self, model: Writer, settings: Settings) -> None:
        check_exposure(settings)
        self.model, self.settings, self.meter = model, settings, ServeMeter()
        self.admission = Admission(settings.places, settings.queue, self.meter)
        self.ready = self.stopping = False
        self._started = int(time.time())
        self._limits: set[asyncio.Timeout] = set()
        self.idle = asyncio.Event()
        self.idle.set()

    def application(self) -> web.Application:
        app = web.Application(client_max_size=self.settings.most_bytes, middlewares=[self._around])
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{id:.+}", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.on_response_prepare.append(self._headers)
        return app

    def halt(self) -> None:
        """End what is still under way; each client is told."""
        now = asyncio.get_running_loop().time()
        for limit in list(self._limits):
            limit.reschedule(now)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        began = time.monotonic()
        if self.stopping:
            raise Refused(503, "The server is stopping.", code="stopping", retry=5)
        if not self.ready:
            raise Refused(503, "The model is still loading.", code="loading", retry=2)
        chat = read_request(await request.read())
        if chat.model not in (None, "", self.settings.name):
            raise _no_such_model(str(chat.model), self.settings.name)
        album = Album()
        try:
            question = asked(chat, self.settings, album, self.model.sees, without_helpline)
            return await self._answer(request, question, began)
        finally:
            album.close()

    async def _answer(self, request: web.Request, question: Asked, began: float) -> web.StreamResponse:
        care, prompt = await care_for(question)
        turn = Turn(self.model, question, prompt, care)
        name = self.settings.name
        out: Telling = Streamed(request, name, question.usage) if question.stream else Whole(name)
        self.meter.safety.add(level=turn.care.level)
        self.meter.in_flight.add(1)
        request["log"] = out.id
        try:
            failure = None
            try:
                if care.urgent:
                    await out.open({"safety": care.as_dict()})
                await self._write(turn, out, began)
            except Refused as problem:
                self.meter.failures.add(kind=problem.code or str(problem.status))
                if not care.urgent:
                    return await out.fail(problem)
                failure = problem
                async for delta in turn.instead(problem):
                    await out.send(delta)
            self.meter.failures.add(care.error is not None and failure is None, kind="answered_for")
            end = turn.end(failure)
            self.meter.incomplete.add(not end.compeer["complete"])
            return await out.end(end)
        finally:
            self.meter.in_flight.add(-1)
            self._count_tokens(turn)

    async def _write(self, turn: Turn, out: Telling, began: float) -> None:
        """Wait for a place and write the turn; every way to fail is a Refused."""
        where, seen = "queue", False
        try:
            async with asyncio.timeout(self.settings.timeout) as limit:
                self._limits.add(limit)
                self.idle.clear()
                try:
                    async with self.admission.place():
                        where = "model"
                        async with aclosing(turn.deltas(self.settings.first)) as deltas:
                            async for delta in deltas:
                                if not seen:
                                    self.meter.first.see(time.monotonic() - began)
                                    seen = True
                                await out.send(delta)
                finally:
                    self._limits.discard(limit)
                    if not self._limits:
                        self.idle.set()
        except TimeoutError:
            if self.stopping:
                raise Refused(503, "The server was stopped before the answer was finished.", code="stopping") from None
            message = f"The answer was not finished within {self.settings.timeout:g} s."
            raise Refused(504, message, code="timeout") from None
        except (asyncio.CancelledError, ConnectionError):
            self.meter.cancelled.add(where=where)
            raise

    def _count_tokens(self, turn: Turn) -> None:
        usage = turn.ending.usage
        self.meter.tokens.add(usage.completion if usage else turn.written, kind="completion")
        if usage:
            self.meter.tokens.add(usage.prompt - usage.cached, kind="prompt")
            self.meter.tokens.add(usage.cached, kind="cached")

    async def _models(self, request: web.Request) -> web.Response:
        name = self.settings.name
        model = {"id": name, "object": "model", "created": self._started, "owned_by": "compeer"}
        if (wanted := request.match_info.get("id")) is None:
            return _json({"object": "list", "data": [model]})
        if wanted != name:
            raise _no_such_model(wanted, name)
        return _json(model)

    async def _health(self, _: web.Request) -> web.Response:
        state = "stopping" if self.stopping else "ready" if self.ready else "loading"
        return _json({"status": state, "model": self.settings.name}, 200 if state == "ready" else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        if isinstance(self.model, Embedded):
            self.meter.slots.set(self.model.busy)
        return web.Response(text=self.meter.page(), content_type="text/plain", charset="utf-8")

    async def _headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(cross_origin(request, self.settings))

    @web.middleware
    async def _around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Keys, errors in OpenAI's form, the count and the log of everything."""
        began = time.monotonic()
        path = request.path if request.match_info.http_exception is None else "other"
        status = "gone"
        try:
            response = await self._answered(request, handler)
            status = str(response.status)
        except ConnectionError:  # the client left in the middle of a stream
            return web.Response(status=499)
        finally:
            self.meter.requests.add(path="/v1/models" if path.startswith("/v1/models") else path, status=status)
            if path == "/v1/chat/completions":
                self.meter.seconds.see(time.monotonic() - began)
                if self.settings.log:
                    now = datetime.now(UTC).isoformat(timespec="seconds")
                    took = f"{time.monotonic() - began:.3f}s"
                    print(now, request.get("log", "-"), status, took, file=sys.stderr, flush=True)
        return response

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.method == "OPTIONS" and cross_origin(request, self.settings):
                return web.Response(status=204)
            admit(request, self.settings)
            return await handler(request)
        except Refused as refused:
            return _error(refused)
        except web.HTTPRequestEntityTooLarge:
            return _error(Refused(413, f"The request is larger than {self.settings.most_bytes:,} bytes."))
        except web.HTTPException as other:  # no such path, no such method
            return _error(Refused(other.status, f"{request.method} {request.path[:80]}: {other.reason}."))
        except UserError as error:
            return _error(Refused(500, str(error)))
        except ConnectionError:
            raise
        except Exception as error:
            # the kind alone: what it says may quote what somebody wrote
            print(f"a request failed: {type(error).__name__}", file=sys.stderr, flush=True)
            return _error(Refused(500, f"The server failed: {type(error).__name__}.", code="internal_error"))


def _no_such_model(wanted: str, served: str) -> Refused:
    message = f"There is no model {wanted[:80]!r} here; this server has {served!r}."
    return Refused(404, message, param="model", code="model_not_found")


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def _error(refused: Refused) -> web.Response:
    response = _json(refused.as_dict(), refused.status)
    if refused.retry is not None:
        response.headers["Retry-After"] = str(refused.retry)
    return response


async def serve(model: Writer, settings: Settings) -> None:
    """Run until SIGTERM or Ctrl-C. UserError when the model cannot be loaded or the port is taken."""
    service = Service(model, settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(service.application(), handler_cancellation=True, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host or None, settings.port).start()
    except OSError as error:
        await runner.cleanup()
        raise UserError(f"Cannot listen on {settings.host} port {settings.port}: {error.strerror or error}.") from None
    try:
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host or "0.0.0.0"
        print(f"listening on http://{shown}:{runner.addresses[0][1]}/v1", flush=True)
        await _until_stopped(service, stop)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # a second one ends it at once
            loop.remove_signal_handler(number)
        await _finish(service)
        await runner.cleanup()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(model.close(), 5)


async def _until_stopped(service: Service, stop: asyncio.Event) -> None:
    began = time.monotonic()
    stopped = asyncio.create_task(stop.wait())
    loading = asyncio.create_task(_load(service.model))
    await asyncio.wait({stopped, loading}, return_when=asyncio.FIRST_COMPLETED)
    if not loading.done():
        loading.cancel()
        return
    loading.result()
    service.ready = True
    print(f"ready after {time.monotonic() - began:.1f} s: {service.model.name}", file=sys.stderr, flush=True)
    await stopped


async def _load(model: Writer) -> None:
    """The weights, or a first look at the server that has them: where it is away, it may still come."""
    await asyncio.to_thread(warm)
    if isinstance(model, Endpoint):
        try:
            await model.models()
        except ModelError as problem:
            print(f"warning: {problem}", file=sys.stderr, flush=True)
    else:
        await asyncio.to_thread(model.load)  # type: ignore[attr-defined]


async def _finish(service: Service) -> None:
    """Wait for what is under way, and end what takes too long."""
    service.stopping = True
    for seconds in (service.settings.grace, 2.0):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(service.idle.wait(), seconds)
        service.halt()
