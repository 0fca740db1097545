"""What the server counts, as Prometheus reads it. Never a word of what was said.

Who may ask: keys, origins, and which addresses are safe without either.

Keys are compared in constant time, and every one of them each time, so that how long a refusal takes tells nothing.
Pages of other origins get no answer they could read unless an origin was allowed; bodies must be sent as
application/json, which a page cannot do unasked.

Who is answered now, who waits, and who is sent away.

A model writes so many answers side by side; that many requests have a place. The others wait in the order they came,
so many and no more: one too many is told to come again, and after how long. Leaving (an answer, an error, a client that
hangs up) gives the place to the next one at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from aiohttp import web

from compeer.conversation.wire import Refused, Settings
from compeer.errors import UserError
from compeer.models.meter import SECONDS, Counter, Gauge, Histogram, Metrics


class ServeMeter(Metrics):
    """Everything on the page /metrics."""

    def __init__(self) -> None:
        self.requests = Counter("compeer_serve_requests_total", "Requests, by path and status; gone: the client left.")
        self.in_flight = Gauge("compeer_serve_in_flight", "Completions under way, waiting ones included.")
        self.working = Gauge("compeer_serve_working", "Completions that have a place at the model.")
        self.waiting = Gauge("compeer_serve_queue", "Completions that wait for a place.")
        self.slots = Gauge("compeer_serve_slots_busy", "Slots of the embedded model that are decoding now.")
        self.tokens = Counter("compeer_serve_tokens_total", "Tokens, by kind: prompt, cached, completion.")
        self.cancelled = Counter("compeer_serve_cancelled_total", "Clients that left, by where: queue or model.")
        self.failures = Counter("compeer_serve_failures_total", "Turns in which the model failed, by kind.")
        self.incomplete = Counter("compeer_serve_incomplete_total", "Outputs that fell short of the contract.")
        self.safety = Counter("compeer_serve_safety_total", "Turns by level of risk.")
        self.first = Histogram("compeer_serve_first_token_seconds", "From a request to its first token.", SECONDS)
        self.seconds = Histogram("compeer_serve_seconds", "From a request to the end of its answer.", SECONDS)


OPEN = ("/health",)  # answered without a key


def check_exposure(settings: Settings) -> None:
    """A server that others can reach needs a key."""
    if not settings.keys and not is_local(settings.host):
        raise UserError(
            f"{settings.host or '0.0.0.0'} can be reached from other machines, and no key is set. "
            "Give one with --key, --key-file or COMPEER_API_KEY, or listen on 127.0.0.1."
        )


def read_keys(keys: Sequence[str], file: Path | None) -> tuple[str, ...]:
    """Keys from the command line and from a file with one a line (# begins a comment)."""
    found = list(keys)
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"The keys in {file} cannot be read: {error}.") from None
        found += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if len(found) == len(keys):
            raise UserError(f"{file} holds no key; write one a line.")
    if any(not key.strip() for key in found):
        raise UserError("A key is empty; leave --key out, or give a real one.")
    return tuple(dict.fromkeys(key.strip() for key in found))


def admit(request: web.Request, settings: Settings) -> None:
    """Let a request in, or say why not."""
    if settings.keys and request.path not in OPEN:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ").strip().encode()
        fits = [hmac.compare_digest(given, key.encode()) for key in settings.keys]
        if not any(fits):
            raise Refused(401, "A key is needed: Authorization: Bearer KEY.", code="invalid_api_key")
    if request.method == "POST" and request.content_type != "application/json":
        raise Refused(415, "Send the body as Content-Type: application/json.")


def cross_origin(request: web.Request, settings: Settings) -> dict[str, str]:
    """The headers that let a page of an allowed origin read the answer; none for the others."""
    origin = request.headers.get("Origin")
    if origin is None or not ("*" in settings.origins or origin in settings.origins):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
        "Access-Control-Allow-Headers": "Authorization, Content-Type",
        "Access-Control-Max-Age": "600",
        "Vary": "Origin",
    }


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_local("127.0.0.1"), is_local("0.0.0.0"), is_local("")
    (True, False, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Admission:
    """`places` at once, `room` more may wait."""

    def __init__(self, places: int, room: int, meter: ServeMeter) -> None:
        self.places, self.room, self.meter = places, room, meter
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._usual = 2.0  # seconds an answer takes, as seen lately

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place and hold it; Refused (429) when too many wait already."""
        await self._enter()
        began = time.monotonic()
        try:
            yield
        finally:
            self._usual += 0.2 * (time.monotonic() - began - self._usual)
            self._leave()

    async def _enter(self) -> None:
        if self._taken < self.places and not self._waiting:
            self._taken += 1
            self._count()
            return
        if len(self._waiting) >= self.room:
            again = min(60, max(1, math.ceil(self._usual * (1 + len(self._waiting) / self.places))))
            raise Refused(
                429, f"Too many requests wait already; try again in {again} s.", code="queue_full", retry=again
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._count()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the place came in the same moment: it goes on to the next one
                self._leave()
            else:
                self._waiting.remove(turn)
                self._count()
            raise

    def _leave(self) -> None:
        self._taken -= 1
        while self._waiting and self._taken < self.places:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._taken += 1
        self._count()

    def _count(self) -> None:
        self.meter.working.set(self._taken)
        self.meter.waiting.set(len(self._waiting))
