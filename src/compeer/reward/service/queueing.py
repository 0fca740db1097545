"""Requests that wait together are judged together.

A batch is begun with the request that has waited longest; for a few milliseconds, or until it is full, others may
join it. A request is never cut: the cases of a group stay together, and one that is larger than a batch is a batch
of its own. Cases of one history are put side by side even when different requests brought them. Whoever gives up
waiting leaves the queue at once. A judge that fails on a batch is asked about each request alone, so that one
request's trouble stays its own.

The judge works in a thread of its own, so the service answers while it computes.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Sequence

from compeer.reward.case import Case
from compeer.reward.client.background import Background
from compeer.reward.grouping import gathered
from compeer.reward.judge import Judge, Judgement, Orders
from compeer.reward.service.meter import Meter
from compeer.reward.service.wire import JudgeError, failure_kind, problem_with


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
