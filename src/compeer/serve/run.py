"""Running the server: listen, load the model, answer, and end in peace.

It listens at once and says at /health when it is ready. SIGTERM (or Ctrl-C) refuses what is new with 503 and finishes
what is under way, for so long as `grace` allows; what is left then is told so. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time

from aiohttp import web

from compeer.errors import UserError
from compeer.models import ModelError
from compeer.models.endpoint import Endpoint
from compeer.serve.application import Service
from compeer.serve.care import warm
from compeer.serve.settings import Settings
from compeer.serve.turn import Writer


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
