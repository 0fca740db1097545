"""The work of a stage: lines in, what became of them out, in order, by a bounded number of workers.

The same code runs in one process and on every worker of a cluster. A row that fails becomes a reject. Memory does
not grow with the input: no worker runs further ahead of the oldest unfinished row than the window allows. Equal
requests under way at the same time are sent once.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from compeer.dialogue.jsonl import RecordError, data_files, open_bytes
from compeer.models.ask import AGAIN, SchemaFailure
from compeer.models.cache import CachedModel, RequestCache
from compeer.models.request import Answer, Model, ModelError, Request
from compeer.models.spec import open_model
from compeer.pipeline.ledger import Done, Spent
from compeer.pipeline.stage import Reject, Stage, Tools, identity

#: rows that may be begun per worker before the oldest row is done. A server that asks to wait delays one row by
#: seconds; the other rows should not wait for it.
WINDOW = 32
Take = Callable[[Done], None]
Given = TypeVar("Given")
Made = TypeVar("Made")


class ModelSpec(msgspec.Struct, frozen=True):
    """A model by name, so that a worker on another machine can open it too."""

    spec: str
    base_url: str | None = None
    concurrency: int = 64

    def open(self) -> Model:
        return open_model(self.spec, base_url=self.base_url, concurrency=self.concurrency)


class Job(msgspec.Struct, frozen=True):
    """What an engine needs to run a stage. Ray sends it to the workers of the cluster."""

    stage: Stage
    source: str
    tools: Tools  # without models
    specs: dict[str, ModelSpec]
    cache: str
    concurrency: int


async def in_order(
    work: Iterator[Given],
    one: Callable[[Given], Awaitable[Made]],
    take: Callable[[Made], None],
    concurrency: int,
    window: int = WINDOW,
) -> None:
    """Run `one` on each piece of work, up to `concurrency` at a time, and `take` the results in their order.

    At most `window * concurrency` pieces are begun before the oldest result is taken.
    """
    finished: dict[int, Made] = {}
    begun, taken, most = 0, 0, window * concurrency
    room = asyncio.Event()

    async def worker() -> None:
        nonlocal begun, taken
        while True:
            while begun - taken >= most:
                room.clear()
                await room.wait()
            given = next(work, None)
            if given is None:
                return
            number, begun = begun, begun + 1
            finished[number] = await one(given)
            while taken in finished:
                done = finished.pop(taken)
                taken += 1
                take(done)
                room.set()
            if number % 64 == 0:
                await asyncio.sleep(0)  # a stage that asks nobody never waits, and Ctrl-C needs its turn

    tasks = [asyncio.create_task(worker()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Work:
    """Applies the stage to one line at a time. Nothing is raised: what fails becomes a reject."""

    def __init__(self, job: Job, homes: Mapping[str, Model], spent: Spent) -> None:
        self.stage, self.source, self.cache = job.stage, job.source, RequestCache(job.cache)
        under_way: dict[bytes, asyncio.Event] = {}
        models: dict[str, Model] = {role: Counted(home, self.cache, spent, under_way) for role, home in homes.items()}
        self.tools = msgspec.structs.replace(job.tools, models=models)
        self._decode = job.stage.decoder(job.source)
        self._encoder = msgspec.json.Encoder()

    async def one(self, numbered: tuple[int, bytes]) -> Done:
        line, data = numbered
        try:
            row = self._decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
            return self._done(line, [self._unreadable(line, data, str(problem))])
        name = identity(row) or f"line {line}"
        try:
            result = await self.stage.function(row, self.tools)
            results = result if isinstance(result, list) else [result]
            if not results:  # nothing may vanish
                results = [Reject(name, "empty", "the stage made nothing of this row")]
            return self._done(line, [self._checked(one, name, row) for one in results])
        except Exception as problem:  # one row's failure never ends a run and never vanishes
            return self._done(line, [_failure(name, problem, row)])

    def _done(self, line: int, results: list[Any]) -> Done:
        rows, rejects, reasons = bytearray(), bytearray(), []
        for result in results:
            if isinstance(result, Reject):
                rejects += self._encoder.encode(result) + b"\n"
                reasons.append(result.reason)
            else:
                rows += self._encoder.encode(result) + b"\n"
        return Done(line, bytes(rows), bytes(rejects), len(results) - len(reasons), tuple(reasons))

    def _checked(self, result: Any, name: str, row: Any) -> Any:
        if isinstance(result, Reject):
            return result if result.row is not None else msgspec.structs.replace(result, row=row)
        if not isinstance(result, self.stage.writes):
            wanted, got = self.stage.writes.__name__, type(result).__name__
            raise TypeError(f"the stage {self.stage.name} should make {wanted}, but made {got}")
        return result

    def _unreadable(self, line: int, data: bytes, problem: str) -> Reject:
        try:
            row = msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            row = data.decode("utf-8", "replace").rstrip("\n")
        name = identity(row)
        error = RecordError(self.source, line, problem, name or None)
        return Reject(name or f"line {line}", "unreadable", str(error), row)


def _failure(name: str, problem: Exception, row: Any) -> Reject:
    """The reject for a row whose function raised."""
    while isinstance(problem, ExceptionGroup):  # a function that asks several models at once
        problem = problem.exceptions[0]
    if isinstance(problem, SchemaFailure):
        return Reject(name, "schema", str(problem), row)
    if isinstance(problem, ModelError):
        return Reject(name, "no-answer", str(problem), row)
    frame = traceback.extract_tb(problem.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    return Reject(name, "error", f"{type(problem).__name__}: {problem} ({where})", row)


class Counted(CachedModel):
    """A model that remembers its answers on disk, counts what it is asked, and asks nothing twice at the same time."""

    def __init__(self, home: Model, cache: RequestCache, spent: Spent, under_way: dict[bytes, asyncio.Event]) -> None:
        super().__init__(home, cache)
        self._spent, self._under_way = spent, under_way
        self._retries = getattr(home, "retries", 0)  # only a server's model has any

    async def ask(self, request: Request) -> Answer:
        spent = self._spent
        spent.asked += 1
        spent.asked_again += _corrects(request)
        key = self.rendered(request)
        while (asked := self._under_way.get(key)) is not None:
            await asked.wait()  # another row asks the same; its answer will be in the cache
        self._under_way[key] = answered = asyncio.Event()
        try:
            answer = await super().ask(request)
        finally:
            del self._under_way[key]
            answered.set()
            retries = getattr(self.model, "retries", 0)
            spent.retried += retries - self._retries
            self._retries = retries
        if answer.from_cache:
            spent.from_cache += 1
        else:
            spent.tokens_read += answer.usage.prompt
            spent.tokens_written += answer.usage.completion
        return answer


def read_lines(source: str | Path, after: int = 0, limit: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Numbered lines of a file or a published folder behind line `after`, at most `limit`, without the blank ones."""
    numbered = enumerate(_all_lines(source), start=1)
    behind = islice(numbered, after, None)
    yield from islice(((number, line) for number, line in behind if line.strip()), limit)


def _all_lines(source: str | Path) -> Iterator[bytes]:
    for path in data_files(source):
        with open_bytes(path, "rb") as file:
            yield from file


def _corrects(request: Request) -> bool:
    """Whether `ask_json` sends this request for the second time, with the error in the first answer."""
    return request.schema is not None and str(request.messages[-1]["content"]).startswith(AGAIN)
