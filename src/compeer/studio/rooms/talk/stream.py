"""An answer on its way to the browser: one JSON object a line, as it is written.

The work ends with the connection. The framework would notice a browser that left only when it sends the next line;
here both are waited for, so a model that is silent is stopped as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class Lines(Response):
    """A response that is written line by line while somebody reads it."""

    media_type = "application/x-ndjson"

    def __init__(self, lines: AsyncGenerator[dict[str, Any], None]) -> None:
        super().__init__(headers={"x-accel-buffering": "no"})  # a proxy that collects the stream would spoil it
        del self.headers["content-length"]
        self.lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        telling = asyncio.create_task(self._tell(send))
        leaving = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait({telling, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            gone = not telling.done()
            telling.cancel()
            outcome = (await asyncio.gather(telling, leaving, return_exceptions=True))[0]
        if not gone and isinstance(outcome, Exception):
            raise outcome

    async def _tell(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async with aclosing(self.lines) as lines:
            async for line in lines:
                await send({"type": "http.response.body", "body": msgspec.json.encode(line) + b"\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
