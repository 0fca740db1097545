"""Running the judge's service: listen, load the weights, answer, and end in peace.

The service listens at once and says at /health when it is ready. It listens on this machine alone unless a key is
set. SIGTERM (or Ctrl-C) takes no new connections and finishes what is in flight, for so long as `grace` allows; a
second one ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time

from aiohttp import web

from compeer.errors import UserError
from compeer.reward.judge import Judge
from compeer.reward.service.application import Service, Settings


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
