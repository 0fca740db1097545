"""Who is answered now, who waits, and who is sent away.

A model writes so many answers side by side; that many requests have a place. The others wait in the order they came,
so many and no more: one too many is told to come again, and after how long. Leaving (an answer, an error, a client that
hangs up) gives the place to the next one at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import AsyncIterator

from compeer.serve.meter import ServeMeter
from compeer.serve.refusal import Refused


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
