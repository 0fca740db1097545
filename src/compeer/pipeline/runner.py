"""Runs a stage over a file: bounded concurrency, rows in input order, rejects with reasons, a manifest.

    manifest = run_stage(FILTER, "dialogues.jsonl", "kept.jsonl", Tools(seed=1),
                         model_specs={"judge": ModelSpec("openai:qwen", "http://127.0.0.1:8000/v1")})

Run again = resume: see `compeer.pipeline.ledger` for the files and `compeer.models.cache` for the answers. A row that
fails becomes a reject and never ends the run. Memory does not grow with the input: a fixed number of workers take
lines from one stream, and none of them runs further ahead of the oldest unfinished row than the window allows.

**Ray.** Shards of the input go to workers, rows come back in order. Each worker is an actor with its own event loop,
its own connections and the same code as a local run; the driver alone writes files, so output, rejects, state and
manifest are the local engine's. A worker that dies is started again and its shard is done again, with answers from the
cache. Every worker opens the cache file at the same path. SQLite's write-ahead log does not work over a network file
system: on several machines give a path on a local disk; a shard that is done again on another machine is then asked
again. Work in flight is bounded over the whole cluster: each worker has its share of `concurrency`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer.errors import UserError
from compeer.models.request import Model
from compeer.pipeline.ledger import Done, Fingerprint, Ledger, Manifest, Spent, State, code_version, hashed, measure
from compeer.pipeline.stage import Progress, Stage, Tools, estimate, prompts
from compeer.pipeline.work import Job, ModelSpec, Take, Work, in_order, read_lines
from compeer.typed import from_plain

_SAMPLE = 20  # rows that are rendered for the estimate
_shared: ContextVar[contextlib.ExitStack | None] = ContextVar("_shared", default=None)


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
    engine: Literal["local", "ray"] = "local",
    workers: int = 2,
    cache: str | Path | None = None,
    progress: Progress | None = None,
    fresh: bool = False,
    give_up_after: int = 100,
) -> Manifest:
    """Run `stage` over the rows of `source` into `out`; the manifest says what came of it.

    `cache` is the file of answers; without one it lies beside `out`, shared by the stages that write there. Models
    come from `model_specs`, opened here; `tools.models` may hold open ones for a local run. `fresh` begins anew
    whatever lies at `out`. When `give_up_after` rows in a row get no answer (0: never mind) the run stops without
    counting them, to continue when the server is back.
    """
    tools, specs = tools or Tools(), dict(model_specs or {})
    progress = progress or Progress()
    if stage.options is not None:
        try:
            from_plain(tools.options, stage.options)
        except msgspec.ValidationError as problem:
            raise UserError(f"The options of the stage {stage.name} are not usable: {problem}.") from None
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
    state, total = begin(
        stage.name,
        source,
        tools.options,
        limit,
        version=code_version(stage.function),
        prompts=hashed(stage.prompts),
        models=names,
        seed=tools.seed,
        engine=engine,
    )
    ledger = Ledger(out, state, give_up_after=give_up_after)
    told = ledger.open(fresh=fresh)
    if isinstance(told, Manifest):
        progress.say(f"{stage.name}: nothing to do, {out} is finished.")
        return told
    state = ledger.state
    progress.say(told and f"{stage.name}: {told}")
    if homes and not progress.quiet:
        expected = estimate(stage, total - state.counts.rows_in, _rows(stage, source, _SAMPLE), tools)
        progress.say(f"{stage.name}: {expected}; asking {', '.join(dict.fromkeys(names.values()))}")

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
    with under_way(ledger, total, progress):
        try:
            if engine == "ray":
                run_on_ray(job, lines, take, state.spent, workers)
            else:
                asyncio.run(_run_here(job, homes, lines, take, state.spent))
        except BaseException:
            with contextlib.suppress(OSError):  # a full disk is reported by the problem itself
                ledger.note()
            raise
        return ledger.finish()


@contextlib.contextmanager
def under_way(ledger: Ledger, total: int, progress: Progress) -> Iterator[None]:
    """The work on an open ledger, with its progress. Ctrl-C says how far it came; the files are closed."""
    counts = ledger.state.counts
    progress.start(ledger.state.stage, total, counts)
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(
            f"Stopped after {counts.rows_in:,} of {total:,} rows; nothing is lost. "
            "Run the same command again to continue."
        ) from None
    finally:
        progress.stop()
        ledger.close()


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


def begin(
    stage: str,
    source: str | Path,
    params: Mapping[str, Any],
    limit: int | None,
    *,
    version: str,
    prompts: str = "",
    models: dict[str, str] | None = None,
    seed: int = 0,
    engine: str = "local",
) -> tuple[State, int]:
    """The state of a run that has done nothing yet, and how many rows there are."""
    digest, lines = measure(source)
    # as JSON would give it back, or a tuple would differ from the list it became
    plain = msgspec.json.decode(msgspec.json.encode(params, enc_hook=str))
    state = State(
        stage=stage,
        fingerprint=Fingerprint(stage, digest, prompts, models or {}, plain, seed),
        input=str(source),
        limit=limit,
        engine=engine,
        version=version,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return state, lines if limit is None else min(lines, limit)


def preview(stage: Stage, source: str | Path, tools: Tools, count: int) -> None:
    """Print the prompts of the first rows; no call is made and nothing is written."""
    for prompt in prompts(stage, _rows(stage, source, count), tools):
        print(prompt, end="\n\n")


def _rows(stage: Stage, source: str | Path, count: int) -> list[Any]:
    """The first rows of the input that can be read."""
    rows: list[Any] = []
    decode = stage.decoder(str(source))
    for _, line in read_lines(source, limit=count):
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            rows.append(decode(line))
    return rows


_SHARDS = 4  # for each one under way, begun or waiting to be written: one slow shard must not stop the others
_AT_ONCE = 2  # shards in a worker, so that the end of one overlaps with the start of the next


class Worker:
    """One process of the cluster, with models of its own."""

    def __init__(self, job: Job) -> None:
        self.job, self.spent, self._told = job, Spent(), Spent()
        self.work = Work(job, {role: spec.open() for role, spec in job.specs.items()}, self.spent)
        self._gate = asyncio.Semaphore(job.concurrency)

    async def run(self, lines: list[tuple[int, bytes]]) -> tuple[list[Done], Spent]:
        """The result of each line, and what was spent since the last call."""
        finished: list[Done] = []
        await in_order(iter(lines), self._one, finished.append, self.job.concurrency)
        names = Spent.__struct_fields__
        news = Spent(**{name: getattr(self.spent, name) - getattr(self._told, name) for name in names})
        self._told = msgspec.structs.replace(self.spent)
        return finished, news

    async def _one(self, numbered: tuple[int, bytes]) -> Done:
        async with self._gate:
            return await self.work.one(numbered)


def run_on_ray(job: Job, lines: Iterator[tuple[int, bytes]], take: Take, spent: Spent, workers: int) -> None:
    """Run a job on the cluster at $RAY_ADDRESS; without it, on one started here for this run (see `one_cluster`)."""
    own = contextlib.ExitStack()
    ray = _connected(workers, _shared.get() or own)
    share = msgspec.structs.replace(job, concurrency=-(-job.concurrency // workers))
    remote = ray.remote(Worker).options(max_concurrency=_AT_ONCE, max_restarts=3, max_task_retries=3)
    actors = [remote.remote(share) for _ in range(workers)]
    shards = iter(lambda: list(islice(lines, 4 * share.concurrency)), [])
    load = dict.fromkeys(range(workers), 0)

    async def run(shard: list[tuple[int, bytes]]) -> tuple[list[Done], Spent]:
        """Run a shard on the worker that has the fewest."""
        chosen = min(load, key=lambda number: load[number])
        load[chosen] += 1
        try:
            done: tuple[list[Done], Spent] = await actors[chosen].run.remote(shard)
            return done
        finally:
            load[chosen] -= 1

    def take_all(result: tuple[list[Done], Spent]) -> None:
        spent.add(result[1])
        for done in result[0]:
            take(done)

    try:
        asyncio.run(in_order(shards, run, take_all, _AT_ONCE * workers, _SHARDS))
    finally:
        for actor in actors:
            ray.kill(actor)
        own.close()


@contextlib.contextmanager
def one_cluster() -> Iterator[None]:
    """Let the stages inside share one Ray cluster, because starting one takes seconds."""
    with contextlib.ExitStack() as after:
        outside = _shared.set(after)
        try:
            yield
        finally:
            _shared.reset(outside)


def _connected(workers: int, after: contextlib.ExitStack) -> Any:
    """Ray, connected. A connection made here is closed with `after`."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    try:
        import ray
    except ImportError:
        raise UserError('The Ray engine needs Ray: pip install "compeer-esc[ray]".') from None
    if ray.is_initialized():
        return ray
    try:
        if os.environ.get("RAY_ADDRESS"):
            ray.init(log_to_driver=False)
        else:
            ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, configure_logging=False)
    except ConnectionError as error:
        raise UserError(f"There is no Ray cluster at {os.environ.get('RAY_ADDRESS')}: {error}.") from None
    after.callback(ray.shutdown)
    return ray
