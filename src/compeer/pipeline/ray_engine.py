"""A stage on a Ray cluster: shards of the input go to workers, rows come back in order.

Each worker is an actor with its own event loop, its own connections and the same code as a local run; the driver
alone writes files, so output, rejects, state and manifest are the local engine's. A worker that dies is started
again and its shard is done again, with answers from the cache.

Every worker opens the cache file at the same path. SQLite's write-ahead log does not work over a network file
system: on several machines give a path on a local disk; a shard that is done again on another machine is then asked
again. Work in flight is bounded over the whole cluster: each worker has its share of `concurrency`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.pipeline.ledger import Done, Spent
from compeer.pipeline.work import Job, Take, Work, in_order

_SHARDS = 4  # for each one under way, begun or waiting to be written: one slow shard must not stop the others
_AT_ONCE = 2  # shards in a worker, so that the end of one overlaps with the start of the next


class Worker:
    """One process of the cluster, with models of its own."""

    def __init__(self, job: Job) -> None:
        self.job, self.spent, self._told = job, Spent(), Spent()
        self.work = Work(job, {role: spec.open() for role, spec in job.specs.items()}, self.spent)
        self._gate = asyncio.Semaphore(job.concurrency)

    async def run(self, lines: list[tuple[int, bytes]]) -> tuple[list[Done], Spent]:
        """What became of each line, and what was spent since this was asked last."""
        finished: list[Done] = []
        await in_order(iter(lines), self._one, finished.append, self.job.concurrency)
        names = Spent.__struct_fields__
        news = Spent(**{name: getattr(self.spent, name) - getattr(self._told, name) for name in names})
        self._told = msgspec.structs.replace(self.spent)
        return finished, news

    async def _one(self, numbered: tuple[int, bytes]) -> Done:
        async with self._gate:
            return await self.work.one(numbered)


def run_on_ray(
    job: Job, lines: Iterator[tuple[int, bytes]], take: Take, spent: Spent, workers: int, address: str | None
) -> None:
    """Run a job on the cluster at `address` ($RAY_ADDRESS; without either, on one started here for this run)."""
    ray, ours = _connected(workers, address)
    share = msgspec.structs.replace(job, concurrency=-(-job.concurrency // workers))
    remote = ray.remote(Worker).options(max_concurrency=_AT_ONCE, max_restarts=3, max_task_retries=3)
    actors = [remote.remote(share) for _ in range(workers)]
    shards = iter(lambda: list(islice(lines, 4 * share.concurrency)), [])
    load = dict.fromkeys(range(workers), 0)

    async def run(shard: list[tuple[int, bytes]]) -> tuple[list[Done], Spent]:
        """A shard on the worker that has the fewest."""
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
        if ours:
            ray.shutdown()


def _connected(workers: int, address: str | None) -> tuple[Any, bool]:
    """Ray, connected, and whether that was done here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    try:
        import ray
    except ImportError:
        raise UserError('The Ray engine needs Ray: pip install "compeer-esc[ray]".') from None
    if ray.is_initialized():
        return ray, False
    try:
        if address or os.environ.get("RAY_ADDRESS"):
            ray.init(address=address, log_to_driver=False)
        else:
            ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, configure_logging=False)
    except ConnectionError as error:
        raise UserError(f"There is no Ray cluster at {address or os.environ.get('RAY_ADDRESS')}: {error}.") from None
    return ray, True
