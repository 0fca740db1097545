"""What every HTTP service of this project shares: addresses, keys, origins, pictures, metrics, a graceful stop.

The supporter's server (`conversation.server`) and the judge's service (`reward.service`) are aiohttp applications with
different endpoints and the same surroundings:

- A service that other machines can reach needs a key. Every key is compared in constant time, so the duration of a
  refusal tells nothing.
- Bodies are accepted as application/json only, which a web page of another origin cannot send unasked. Pages of other
  origins cannot read an answer unless their origin was allowed.
- Pictures are recognised by their first bytes, never by what a client calls them.
- SIGTERM or Ctrl-C finishes what is under way; a second one ends the process at once.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from compeer.errors import UserError

disable_created_metrics()  # type: ignore[no-untyped-call]  # times of creation, which nobody here uses

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

#: bounds of histograms of time
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
#: paths that are answered without a key
OPEN_PATHS = ("/health",)

#: first bytes of picture files, and their media type
_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0"), is_loopback("")
    (True, False, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_key_if_exposed(host: str, keys: Collection[str], how: str) -> None:
    """Refuse to start a service that others can reach without a key. `how` names the options that give one."""
    if not keys and not is_loopback(host):
        raise UserError(
            f"{host or '0.0.0.0'} can be reached from other machines, and no key is set. "
            f"Give one with {how}, or listen on 127.0.0.1."
        )


def read_keys(keys: Sequence[str], file: Path | None) -> tuple[str, ...]:
    """Keys from the command line, and from a file with one key per line (# begins a comment)."""
    found = list(keys)
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"The keys in {file} cannot be read: {error}.") from None
        found += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        if len(found) == len(keys):
            raise UserError(f"{file} holds no key; write one key per line.")
    if any(not key.strip() for key in found):
        raise UserError("A key is empty; leave --key out, or give a real one.")
    return tuple(dict.fromkeys(key.strip() for key in found))


def has_key(request: web.Request, keys: Collection[str]) -> bool:
    """Whether a request carries one of the keys, or needs none."""
    if not keys or request.path in OPEN_PATHS:
        return True
    given = request.headers.get("Authorization", "").removeprefix("Bearer ").strip().encode()
    fits = [hmac.compare_digest(given, key.encode()) for key in keys]  # every one, whatever the first says
    return any(fits)


def has_json_body(request: web.Request) -> bool:
    """Whether the body of a POST is declared as JSON."""
    return request.method != "POST" or request.content_type == "application/json"


def cross_origin_headers(request: web.Request, origins: Collection[str], headers: str = "") -> dict[str, str]:
    """The headers that let a page of an allowed origin read the answer; none for other origins."""
    origin = request.headers.get("Origin")
    if origin is None or not ("*" in origins or origin in origins):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
        "Access-Control-Allow-Headers": ", ".join(filter(None, ("Authorization, Content-Type", headers))),
        "Access-Control-Max-Age": "600",
        "Vary": "Origin",
    }


def picture_type(data: bytes) -> str | None:
    """The media type of a picture by its first bytes; None for everything else.

    >>> picture_type(b"GIF89a..."), picture_type(b"<svg onload=alert(1)>")
    ('image/gif', None)
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begins, kind in _PICTURES if data.startswith(begins)), None)


def json_response(value: Any, status: int = 200, retry_after: int | None = None) -> web.Response:
    """A response with a JSON body."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    body = msgspec.json.encode(value)
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def known_path(request: web.Request) -> str:
    """A path of the service, or "other": nobody can fill the metrics with inventions."""
    return request.path if request.match_info.http_exception is None else "other"


class Metrics:
    """The counters, gauges and histograms of one service, and the page that Prometheus reads."""

    def __init__(self, prefix: str) -> None:
        self._prefix, self._registry = prefix, CollectorRegistry()

    def counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"{self._prefix}_{name}", about, labels, registry=self._registry)

    def gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"{self._prefix}_{name}", about, labels, registry=self._registry)

    def histogram(self, name: str, about: str, bounds: Sequence[float] = SECONDS) -> Histogram:
        return Histogram(f"{self._prefix}_{name}", about, registry=self._registry, buckets=tuple(bounds))

    def response(self) -> web.Response:
        """The answer of /metrics."""
        return web.Response(body=generate_latest(self._registry), content_type="text/plain", charset="utf-8")


async def run_until_stopped(
    application: web.Application,
    host: str,
    port: int,
    *,
    load: Callable[[], Awaitable[str]],
    finish: Callable[[], Awaitable[None]],
    under_way: Callable[[], int] | None = None,
    path: str = "",
    shutdown_timeout: float = 2.0,
) -> None:
    """Listen at once, load, and serve until SIGTERM or Ctrl-C.

    `load` returns the name of what was loaded. `finish` is awaited after the signal, before connections are closed: it
    refuses what is new and waits for what is under way, which `under_way` counts. UserError when loading fails or the
    port is taken.
    """
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=shutdown_timeout)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port).start()
    except OSError as error:
        await runner.cleanup()
        raise UserError(f"Cannot listen on {host} port {port}: {error.strerror or error}.") from None
    try:
        shown = f"[{host}]" if ":" in host else host or "0.0.0.0"
        print(f"listening on http://{shown}:{runner.addresses[0][1]}{path}", flush=True)
        await _load_and_wait(load, stop)
        print(_farewell(under_way() if under_way else None), file=sys.stderr, flush=True)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, os._exit, 128 + number)  # a second one ends the process at once
        await finish()
        await runner.cleanup()


async def _load_and_wait(load: Callable[[], Awaitable[str]], stop: asyncio.Event) -> None:
    began = time.monotonic()
    stopped = asyncio.create_task(stop.wait())
    loading = asyncio.ensure_future(load())
    await asyncio.wait({stopped, loading}, return_when=asyncio.FIRST_COMPLETED)
    if not loading.done():
        loading.cancel()
        return
    name = loading.result()
    print(f"ready after {time.monotonic() - began:.1f} s: {name}", file=sys.stderr, flush=True)
    await stopped


def _farewell(count: int | None) -> str:
    """What is said after the first Ctrl-C. None: not counted.

    >>> _farewell(0), _farewell(2)
    ('Stopping.', 'Stopping: finishing 2 answers under way. Press Ctrl-C again to end at once.')
    """
    if count == 0:
        return "Stopping."
    answers = "what is" if count is None else "1 answer" if count == 1 else f"{count} answers"
    return f"Stopping: finishing {answers} under way. Press Ctrl-C again to end at once."
