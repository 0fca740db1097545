"""Runs a stage over a file: bounded concurrency, rows in input order, rejects with reasons, a manifest.

    manifest = run_stage(FILTER, "dialogues.jsonl", "kept.jsonl", Tools(seed=1),
                         model_specs={"judge": ModelSpec("openai:qwen", "http://127.0.0.1:8000/v1")})

Run again = resume: see `compeer.cer.manifest` for the files and `compeer.models.cache` for the answers. A row that
fails becomes a reject and never ends the run. Memory does not grow with the input: a fixed number of workers take
lines from one stream, and none of them runs further ahead of the oldest unfinished row than the window allows.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer.cer.manifest import Done, Fingerprint, Ledger, Manifest, Run, Spent, State, code_version, hashed, measure
from compeer.cer.progress import Progress, estimate, identity, prompts
from compeer.cer.stage import Reject, Stage, Tools
from compeer.dialogue.jsonl import RecordError, open_bytes
from compeer.errors import UserError
from compeer.models.cache import CachedModel, RequestCache
from compeer.models.request import Answer, Model, ModelError, Request
from compeer.models.spec import open_model
from compeer.models.structured import SchemaFailure

#: how many rows may be finished or under way, for each one under way, before the oldest is done. A server that asks
#: for patience delays one row by seconds; the others should not have to wait for it.
WINDOW = 32
_SAMPLE = 20  # rows that are rendered for the estimate

Take = Callable[[Done], None]


class ModelSpec(msgspec.Struct, frozen=True):
    """A model by name, so that a worker on another machine can open it too."""

    spec: str
    base_url: str | None = None
    concurrency: int = 64

    def open(self) -> Model:
        return open_model(self.spec, base_url=self.base_url, concurrency=self.concurrency)


class Interrupted(UserError):
    """Stopped by a person; nothing is lost."""


def run_stage(
    stage: Stage,
    source: str | Path,
    out: str | Path,
    tools: Tools | None = None,
    *,
    model_specs: Mapping[str, ModelSpec] | None = None,
    concurrency: int = 64,
    limit: int | None = None,
    preview: int = 0,
    engine: Literal["local", "ray"] = "local",
    workers: int = 2,
    address: str | None = None,
    cache: str | Path | None = None,
    progress: Progress | None = None,
    params: Mapping[str, Any] | None = None,
    fresh: bool = False,
    give_up_after: int = 100,
) -> Manifest:
    """Run `stage` over the rows of `source` into `out`; the manifest says what came of it.

    `cache` is the file of answers; without one it lies beside `out`, shared by the stages that write there. Models
    come from `model_specs`, opened here; `tools.models` may hold open ones for a local run. `preview` prints the
    prompts of so many rows instead. `fresh` begins anew whatever lies at `out`. When `give_up_after` rows in a row
    get no answer (0: never mind) the run stops without counting them, to go on when the server is back.
    """
    tools, specs = tools or Tools(), dict(model_specs or {})
    progress = progress or Progress()
    if preview:
        shown = limit if limit is not None and limit < preview else preview
        return _preview(stage, source, tools, {role: spec.spec for role, spec in specs.items()}, shown)
    if Path(out).resolve() == Path(source).resolve():
        raise UserError(f"{out} is the input itself; choose another --out.")
    if engine == "ray" and tools.models:
        raise UserError("Workers of a Ray cluster open the models themselves: name them in model_specs.")
    homes: dict[str, Model] = {**tools.models, **{role: spec.open() for role, spec in specs.items()}}
    # a role may be filled several times: generator-1, generator-2
    missing = [role for role in stage.roles if not any(f"{name}-".startswith(f"{role}-") for name in homes)]
    if missing:
        raise UserError(f"The stage {stage.name} needs a model for: {', '.join(missing)}.")
    names = {role: home.name for role, home in homes.items()}
    state, total = _begin(stage, source, tools, names, limit, engine, params or {})
    ledger = Ledger(out, state, give_up_after=give_up_after)
    told = ledger.open(fresh=fresh)
    if isinstance(told, Manifest):
        progress.say(f"{stage.name}: nothing to do, {out} is finished.")
        return told
    state = ledger.state
    progress.say(told and f"{stage.name}: {told}")
    if homes and not progress.quiet:
        expected = estimate(stage, total - state.counts.rows_in, _rows(stage, source, _SAMPLE), tools)
        progress.say(f"{stage.name}: {expected}")

    def take(done: Done) -> None:
        ledger.take(done)
        progress.tick(state.counts, state.spent)

    job = Job(
        stage=stage,
        source=str(source),
        tools=msgspec.structs.replace(tools, models={}),
        specs=specs,
        cache=str(cache or Path(out).parent / "requests.sqlite"),
        concurrency=concurrency,
    )
    lines = read_lines(source, after=state.lines, limit=None if limit is None else limit - state.counts.rows_in)
    progress.start(stage.name, total, state.counts)
    try:
        if engine == "ray":
            from compeer.cer.ray_engine import run_on_ray

            run_on_ray(job, lines, take, state.spent, workers, address)
        else:
            asyncio.run(_run_here(job, homes, lines, take, state.spent))
        return ledger.finish()
    except BaseException as problem:
        with contextlib.suppress(OSError):  # a full disk is reported by the problem itself
            ledger.note()
        if isinstance(problem, KeyboardInterrupt):
            raise Interrupted(
                f"Stopped after {state.counts.rows_in:,} of {total:,} rows; nothing is lost. "
                "Run the same command again to go on."
            ) from None
        raise
    finally:
        progress.stop()
        ledger.close()


class Job(msgspec.Struct, frozen=True):
    """What an engine must know of a run; it travels to the workers of a cluster."""

    stage: Stage
    source: str
    tools: Tools  # without models
    specs: dict[str, ModelSpec]
    cache: str
    concurrency: int


async def _run_here(
    job: Job, homes: Mapping[str, Model], lines: Iterator[tuple[int, bytes]], take: Take, spent: Spent
) -> None:
    work = Work(job, homes, spent)
    try:
        await in_order(lines, work.one, take, job.concurrency)
    finally:
        for role in job.specs:
            await homes[role].close()
        work.cache.close()


async def in_order(
    lines: Iterator[tuple[int, bytes]],
    one: Callable[[int, bytes], Awaitable[Done]],
    take: Take,
    concurrency: int,
) -> None:
    """`take` what becomes of each line, in the order of the lines, while up to `concurrency` are worked on."""
    finished: dict[int, Done] = {}
    begun, taken, window = 0, 0, WINDOW * concurrency
    room = asyncio.Event()

    async def worker() -> None:
        nonlocal begun, taken
        while True:
            while begun - taken >= window:
                room.clear()
                await room.wait()
            line = next(lines, None)
            if line is None:
                return
            number, begun = begun, begun + 1
            finished[number] = await one(*line)
            while (done := finished.pop(taken, None)) is not None:
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
    """One line in, what became of it out; nothing is raised."""

    def __init__(self, job: Job, homes: Mapping[str, Model], spent: Spent) -> None:
        self.stage, self.source, self.cache = job.stage, job.source, RequestCache(job.cache)
        under_way: dict[bytes, asyncio.Event] = {}
        models: dict[str, Model] = {role: Counted(home, self.cache, spent, under_way) for role, home in homes.items()}
        self.tools = msgspec.structs.replace(job.tools, models=models)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(job.stage.reads)
        self._encoder = msgspec.json.Encoder()

    async def one(self, line: int, data: bytes) -> Done:
        try:
            row = self._decoder.decode(data)
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


class Counted:
    """A model that remembers its answers on disk, counts what it is asked, and asks nothing twice at the same time."""

    def __init__(self, home: Model, cache: RequestCache, spent: Spent, under_way: dict[bytes, asyncio.Event]) -> None:
        self.name, self.sees = home.name, home.sees
        self._home, self._cached, self._spent, self._under_way = home, CachedModel(home, cache), spent, under_way
        self._retries = getattr(home, "retries", 0)  # only a server's model has any

    async def ask(self, request: Request) -> Answer:
        spent = self._spent
        spent.asked += 1
        spent.asked_again += _corrects(request)
        key = self._cached.rendered(request)
        while (asked := self._under_way.get(key)) is not None:
            await asked.wait()  # another row asks the same; its answer will be in the cache
        self._under_way[key] = answered = asyncio.Event()
        try:
            answer = await self._cached.ask(request)
        finally:
            del self._under_way[key]
            answered.set()
            retries = getattr(self._home, "retries", 0)
            spent.retried += retries - self._retries
            self._retries = retries
        if answer.from_cache:
            spent.from_cache += 1
        else:
            spent.tokens_read += answer.usage.prompt
            spent.tokens_written += answer.usage.completion
        return answer

    def stream(self, request: Request) -> AsyncIterator[str]:
        return self._home.stream(request)

    def rendered(self, request: Request) -> bytes:
        return self._cached.rendered(request)

    async def close(self) -> None:
        await self._home.close()


def read_lines(source: str | Path, after: int = 0, limit: int | None = None) -> Iterator[tuple[int, bytes]]:
    """(number, line) of a JSON lines file behind line `after`, at most `limit`, without the blank ones."""
    with open_bytes(source, "rb") as file:
        numbered = enumerate(file, start=1)
        for _ in range(after):
            next(numbered)
        yield from islice(((number, line) for number, line in numbered if line.strip()), limit)


def _begin(
    stage: Stage,
    source: str | Path,
    tools: Tools,
    models: dict[str, str],
    limit: int | None,
    engine: str,
    params: Mapping[str, Any],
) -> tuple[State, int]:
    """The state of a run that has done nothing yet, and how many rows there are."""
    digest, lines = measure(source)
    fingerprint = Fingerprint(
        stage=stage.name,
        input=digest,
        prompts=hashed(stage.prompts),
        models=models,
        # as JSON would give it back, or a tuple would differ from the list it became
        params=msgspec.json.decode(msgspec.json.encode({**tools.options, **params}, enc_hook=str)),
        seed=tools.seed,
    )
    state = State(
        stage=stage.name,
        fingerprint=fingerprint,
        input=str(source),
        limit=limit,
        engine=engine,
        version=code_version(stage.function),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return state, lines if limit is None else min(lines, limit)


def _preview(stage: Stage, source: str | Path, tools: Tools, models: dict[str, str], count: int) -> Manifest:
    """Print the prompts of the first rows; no call is made and nothing is written."""
    state, _ = _begin(stage, source, tools, models, count, "preview", {})
    rows = _rows(stage, source, count)
    for prompt in prompts(stage, rows, tools):
        print(prompt, end="\n\n")
    state.counts.rows_in = len(rows)
    known = {name: getattr(state, name) for name in Run.__struct_fields__}
    return Manifest(**known, output="", rejects="")


def _corrects(request: Request) -> bool:
    """Whether `structured.ask_json` asks this for the second time."""
    return request.schema is not None and str(request.messages[-1]["content"]).startswith("That is not the JSON asked")


def _rows(stage: Stage, source: str | Path, count: int) -> list[Any]:
    """The first rows of the input that can be read."""
    rows: list[Any] = []
    for _, line in read_lines(source, limit=count):
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            rows.append(msgspec.json.decode(line, type=stage.reads))
    return rows
