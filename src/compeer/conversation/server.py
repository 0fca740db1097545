"""`compeer serve`: the conversation over HTTP, as any OpenAI client speaks it.

    GET  /v1/models             the one model behind it
    POST /v1/chat/completions   a turn, whole or streamed
    POST /v1/responses          the same in OpenAI's newer form; DELETE /v1/responses/ID forgets what was kept
    GET  /health                200 once the model is loaded, 503 before and while it stops
    GET  /metrics               for Prometheus; counts, never a word of what was said

The history is in the request, and the risk is read from all of it (`engine`). Nothing is kept except, in memory, the
conversations that /v1/responses may continue (`responses`). A request is read and assessed, waits for a place, and is
answered. A client that hangs up ends the work behind its request at once. A person who may be in danger is never turned
away by a failure: where the model fails, is too slow or too busy, they get a reply that needs no model, with the
helplines. Nothing that is said is logged or written to disk.

SIGTERM (or Ctrl-C) refuses what is new with 503 and finishes what is under way, for as long as `grace` allows; what is
left then is told so.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime

from aiohttp import web

from compeer.conversation.engine import NoFirstToken, TurnWriter, safety_fields, warm_up
from compeer.conversation.replies import ChatReply, ReplyEnd, ReplyText, compeer_field
from compeer.conversation.requests import (
    MOST_BYTES,
    ApiError,
    AskedTurn,
    ChatMessage,
    ChatRequest,
    ServerSettings,
    asked_turn,
    bad_request,
    read_request,
)
from compeer.conversation.responses import KeptConversations, ResponsesReply, chat_request, read_responses_request
from compeer.errors import UserError
from compeer.http_service import (
    Handler,
    Metrics,
    cross_origin_headers,
    has_json_body,
    has_key,
    json_response,
    known_path,
    require_key_if_exposed,
    run_until_stopped,
)
from compeer.models import Model, ModelError
from compeer.models.embedded import Embedded
from compeer.models.endpoint import Endpoint
from compeer.models.request import TooLong
from compeer.safety import ConversationGuard
from compeer.safety.guard import Guard as GuardModel

Reply = ChatReply | ResponsesReply
_OWN_HEADERS = "X-Compeer-Country, X-Compeer-Language"


class ServerMetrics(Metrics):
    """Everything on the page /metrics."""

    def __init__(self) -> None:
        super().__init__("compeer_serve")
        self.requests = self.counter("requests", "Requests. Status gone: the client left.", "path", "status")
        self.in_flight = self.gauge("in_flight", "Completions under way, including those that wait.")
        self.working = self.gauge("working", "Completions that have a place at the model.")
        self.waiting = self.gauge("queue", "Completions that wait for a place.")
        self.slots = self.gauge("slots_busy", "Slots of the embedded model that are decoding now.")
        self.tokens = self.counter("tokens", "Tokens. Kinds: prompt, cached, completion.", "kind")
        self.cancelled = self.counter("cancelled", "Clients that left, while queued or while answered.", "where")
        self.failures = self.counter("failures", "Turns in which the model failed.", "kind")
        self.incomplete = self.counter("incomplete", "Outputs that fell short of the contract.")
        self.safety = self.counter("safety", "Turns by level of risk.", "level")
        self.replaced = self.counter("safety_replaced", "Replies that our own words replaced.", "level", "why")
        self.asked = self.counter("safety_asked", "Replies that asked about safety.", "level")
        self.first_token = self.histogram("first_token_seconds", "Time from a request to its first token.")
        self.seconds = self.histogram("seconds", "Time from a request to the end of its answer.")


class Admission:
    """Limits the answers that are written at once; further requests wait in order.

    A model writes `places` answers side by side. Further requests wait in the order they came, at most `room` of them;
    one too many is told when to try again. Leaving (an answer, an error, a client that hangs up) gives the place to the
    next one at once.
    """

    def __init__(self, places: int, room: int, metrics: ServerMetrics) -> None:
        self.places, self.room, self.metrics = places, room, metrics
        self._free = asyncio.Semaphore(places)
        self._waiting = self._taken = 0
        self._usual = 2.0  # seconds per answer, as seen lately

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place and hold it; ApiError 429 when too many wait already."""
        if self._free.locked() and self._waiting >= self.room:
            again = min(60, max(1, math.ceil(self._usual * (1 + self._waiting / self.places))))
            message = f"Too many requests are waiting; try again in {again} s."
            raise ApiError(429, message, code="queue_full", retry=again)
        self._count(waiting=1)
        try:
            await self._free.acquire()
        finally:
            self._count(waiting=-1)
        self._count(taken=1)
        began = time.monotonic()
        try:
            yield
        finally:
            self._usual += 0.2 * (time.monotonic() - began - self._usual)
            self._count(taken=-1)
            self._free.release()

    def _count(self, waiting: int = 0, taken: int = 0) -> None:
        self._waiting += waiting
        self._taken += taken
        self.metrics.working.set(self._taken)
        self.metrics.waiting.set(self._waiting)


class ConversationServer:
    """The application around one model."""

    def __init__(self, model: Model, settings: ServerSettings, guard_model: GuardModel | None = None) -> None:
        require_key_if_exposed(settings.host, settings.keys, "--key, --key-file or COMPEER_API_KEY")
        self.model, self.settings, self.metrics = model, settings, ServerMetrics()
        self.admission = Admission(settings.places, settings.queue, self.metrics)
        self.ready = self.stopping = False
        self._guard_model = guard_model
        self._guards: dict[str | None, ConversationGuard] = {}
        self._kept = KeptConversations()
        self.guard(settings.country)  # a wrong code is said at the start
        self._started = int(time.time())
        self._limits: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def application(self) -> web.Application:
        app = web.Application(client_max_size=MOST_BYTES, middlewares=[self._around])
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{id:.+}", self._models)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/responses", self._responses)
        app.router.add_delete("/v1/responses/{id}", self._forget)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        app.on_response_prepare.append(self._add_headers)
        return app

    def guard(self, country: str | None) -> ConversationGuard:
        """The safety of conversations in a country; UserError where there is no such code."""
        if country not in self._guards:
            self._guards[country] = ConversationGuard(country=country, use_locale=False, model=self._guard_model)
        return self._guards[country]

    async def load(self) -> str:
        """Load the weights, or look at the endpoint that has them: where it is away, it may still come."""
        await asyncio.to_thread(warm_up)
        if isinstance(self.model, Endpoint):
            try:
                await self.model.models()
            except ModelError as problem:
                print(f"warning: {problem}", file=sys.stderr, flush=True)
        else:
            await asyncio.to_thread(self.model.load)  # type: ignore[attr-defined]
        self.ready = True
        return self.model.name

    def under_way(self) -> int:
        return len(self._limits)

    async def finish(self) -> None:
        """Refuse what is new, wait for what is under way, and end what takes too long; each client is told."""
        self.stopping = True
        for seconds in (self.settings.grace, 2.0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), seconds)
            now = asyncio.get_running_loop().time()
            for limit in list(self._limits):
                limit.reschedule(now)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        began = time.monotonic()
        chat = read_request(await self._body(request))
        asked, guard = self._asked(request, chat)
        out = ChatReply(self.settings.name, request if asked.stream else None, asked.stream_usage)
        return await self._answer(asked, guard, out, began)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        began = time.monotonic()
        given = read_responses_request(await self._body(request))
        key = request.headers.get("Authorization", "")
        earlier = self._kept.find(key, given.previous_response_id) if given.previous_response_id else ()
        chat = chat_request(given, earlier)
        try:
            asked, guard = self._asked(request, chat)
        except ApiError as problem:
            if (problem.param or "").startswith("messages"):
                problem.param = "input"
            raise

        def keep(name: str, reply: str) -> None:
            said = chat.messages[1:] if given.instructions else chat.messages  # instructions are not carried over
            self._kept.keep(key, name, [*said, ChatMessage("assistant", reply)])

        kept = None if given.store is False else keep
        out = ResponsesReply(given, self.settings.name, kept, request if asked.stream else None)
        return await self._answer(asked, guard, out, began)

    async def _forget(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        if not self._kept.forget(request.headers.get("Authorization", ""), name):
            raise ApiError(404, f"There is no kept response {name[:80]!r}.", code="response_not_found")
        return json_response({"id": name, "object": "response", "deleted": True})

    async def _body(self, request: web.Request) -> bytes:
        if self.stopping:
            raise ApiError(503, "The server is stopping.", code="stopping", retry=5)
        if not self.ready:
            raise ApiError(503, "The model is still loading.", code="loading", retry=2)
        return await request.read()

    def _asked(self, request: web.Request, chat: ChatRequest) -> tuple[AskedTurn, ConversationGuard]:
        """The turn that a request asks for, and the guard of its country."""
        if chat.model not in (None, "", self.settings.name):
            raise _no_such_model(str(chat.model), self.settings.name)
        asked = asked_turn(chat, self.settings, self.model.sees, request.headers)
        try:
            return asked, self.guard(asked.country)
        except UserError as problem:
            raise bad_request(str(problem), "compeer.country") from None

    async def _answer(self, asked: AskedTurn, guard: ConversationGuard, out: Reply, began: float) -> web.StreamResponse:
        turn = TurnWriter(self.model, asked.turn, guard)
        assessment = await turn.assess()
        notice = asked.opening and self.settings.no_notice_because is None
        text = ReplyText(asked, assessment, guard.notice(asked.turn.language) if notice else ())
        self.metrics.safety.labels(assessment.level).inc()
        self.metrics.in_flight.inc()
        failure: ApiError | None = None
        try:
            try:
                if assessment.urgent:
                    await out.open({"safety": safety_fields(assessment)})
                    await out.send(text.opening())
                await self._write(turn, text, out, began)
            except ApiError as problem:
                self.metrics.failures.labels(problem.code or str(problem.status)).inc()
                if not assessment.urgent:
                    return await out.fail(problem)
                failure = problem
                for event in turn.without_model(str(problem)):
                    await out.send(text.delta(event))
            return await self._end(turn, text, out, asked, failure)
        finally:
            self.metrics.in_flight.dec()
            self._count_tokens(turn)

    async def _write(self, turn: TurnWriter, text: ReplyText, out: Reply, began: float) -> None:
        """Wait for a place and write the turn; every way to fail is an ApiError."""
        where, seen = "queue", False
        try:
            async with asyncio.timeout(self.settings.timeout) as limit, contextlib.AsyncExitStack() as place:
                self._limits.add(limit)
                self._idle.clear()
                place.callback(self._left, limit)
                if turn.assessment.ask_model:
                    await place.enter_async_context(self.admission.place())
                where = "model"
                async with aclosing(turn.events(self.settings.first_token)) as events:
                    async for event in events:
                        if not seen:
                            self.metrics.first_token.observe(time.monotonic() - began)
                            seen = True
                        if delta := text.delta(event):
                            await out.send(delta)
        except TimeoutError:
            if self.stopping:
                message = "The server was stopped before the answer was finished."
                raise ApiError(503, message, code="stopping") from None
            message = f"The answer was not finished within {self.settings.timeout:g} s."
            raise ApiError(504, message, code="timeout") from None
        except (asyncio.CancelledError, ConnectionError):
            self.metrics.cancelled.labels(where).inc()
            raise
        except ModelError as problem:
            raise _model_failure(problem) from None
        if not turn.shown.strip() and turn.result().finish != "length":
            raise ApiError(502, f"{self.model.name} wrote no reply.", code="empty_reply")

    def _left(self, limit: asyncio.Timeout) -> None:
        self._limits.discard(limit)
        if not self._limits:
            self._idle.set()

    async def _end(
        self, turn: TurnWriter, text: ReplyText, out: Reply, asked: AskedTurn, failure: ApiError | None
    ) -> web.StreamResponse:
        result = turn.result()
        level, outcome = result.assessment.level, result.outcome
        if result.error is not None and failure is None:
            self.metrics.failures.labels("answered_for").inc()
        if outcome.replaced:
            self.metrics.replaced.labels(level, outcome.replaced).inc()
        if outcome.asked and level != "none":
            self.metrics.asked.labels(level).inc()
        if delta := text.closing(result):
            await out.send(delta)
        compeer = compeer_field(asked, result, turn.dropped(), failure.code if failure else None)
        self.metrics.incomplete.inc(not compeer["complete"])
        return await out.end(ReplyEnd("stop" if failure else result.finish, result.usage, compeer))

    def _count_tokens(self, turn: TurnWriter) -> None:
        usage = turn.ending.usage
        self.metrics.tokens.labels("completion").inc(usage.completion if usage else turn.pieces)
        if usage:
            self.metrics.tokens.labels("prompt").inc(usage.prompt - usage.cached)
            self.metrics.tokens.labels("cached").inc(usage.cached)

    async def _models(self, request: web.Request) -> web.Response:
        name = self.settings.name
        model = {"id": name, "object": "model", "created": self._started, "owned_by": "compeer"}
        if (wanted := request.match_info.get("id")) is None:
            return json_response({"object": "list", "data": [model]})
        if wanted != name:
            raise _no_such_model(wanted, name)
        return json_response(model)

    async def _health(self, _: web.Request) -> web.Response:
        state = "stopping" if self.stopping else "ready" if self.ready else "loading"
        return json_response({"status": state, "model": self.settings.name}, 200 if state == "ready" else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        if isinstance(self.model, Embedded):
            self.metrics.slots.set(self.model.busy)
        return self.metrics.response()

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(cross_origin_headers(request, self.settings.origins, _OWN_HEADERS))

    @web.middleware
    async def _around(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """For every request: the key, errors in OpenAI's form, metrics, the log."""
        began = time.monotonic()
        path = known_path(request)
        status, name = "gone", "-"
        try:
            response = await self._answered(request, handler)
            status, name = str(response.status), response.headers.get("X-Request-Id", "-")
        except ConnectionError:  # the client left in the middle of a stream
            return web.Response(status=499)
        finally:
            path = next((known for known in ("/v1/models", "/v1/responses") if path.startswith(known)), path)
            self.metrics.requests.labels(path, status).inc()
            took = time.monotonic() - began
            if request.method == "POST" and path in ("/v1/chat/completions", "/v1/responses"):
                self.metrics.seconds.observe(took)
            if self.settings.log and path not in ("/health", "/metrics"):  # those are asked every few seconds
                now = datetime.now(UTC).isoformat(timespec="seconds")
                print(now, request.method, path, status, f"{took:.3f}s", name, file=sys.stderr, flush=True)
        return response

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.method == "OPTIONS" and cross_origin_headers(request, self.settings.origins):
                return web.Response(status=204)
            if not has_key(request, self.settings.keys):
                raise ApiError(401, "A key is needed: Authorization: Bearer KEY.", code="invalid_api_key")
            if not has_json_body(request):
                raise ApiError(415, "Send the body as Content-Type: application/json.")
            return await handler(request)
        except ApiError as error:
            return json_response(error.as_dict(), error.status, error.retry)
        except web.HTTPRequestEntityTooLarge:
            found = ApiError(413, f"The request is larger than {MOST_BYTES:,} bytes.")
        except web.HTTPException as other:  # no such path, no such method
            found = ApiError(other.status, f"{request.method} {request.path[:80]}: {other.reason}.")
        except UserError as error:
            found = ApiError(500, str(error))
        except ConnectionError:
            raise
        except Exception as error:
            # the kind alone: the message may quote what somebody wrote
            print(f"a request failed: {type(error).__name__}", file=sys.stderr, flush=True)
            found = ApiError(500, f"The server failed: {type(error).__name__}.", code="internal_error")
        return json_response(found.as_dict(), found.status)


def _no_such_model(wanted: str, served: str) -> ApiError:
    message = f"There is no model {wanted[:80]!r} here; this server has {served!r}."
    return ApiError(404, message, param="model", code="model_not_found")


def _model_failure(problem: ModelError) -> ApiError:
    if isinstance(problem, TooLong):
        return ApiError(400, str(problem), param="messages", code="context_length_exceeded")
    if isinstance(problem, NoFirstToken):
        return ApiError(504, str(problem), code="first_token_timeout")
    return ApiError(502, str(problem), code="model_error")


async def serve(model: Model, settings: ServerSettings, guard_model: GuardModel | None = None) -> None:
    """Run until SIGTERM or Ctrl-C. UserError when the model cannot be loaded or the port is taken."""
    server = ConversationServer(model, settings, guard_model)
    if settings.no_notice_because is not None:
        print(f"no opening notice in replies, because: {settings.no_notice_because}", file=sys.stderr, flush=True)
    try:
        await run_until_stopped(
            server.application(),
            settings.host,
            settings.port,
            load=server.load,
            finish=server.finish,
            under_way=server.under_way,
            path="/v1",
        )
    finally:
        for opened in (model, guard_model):
            if opened is not None:
                with contextlib.suppress(Exception):
                    await asyncio.wait_for(opened.close(), 5)
