"""A run of a benchmark from the command line: what it will ask, how far it is, and what it leaves.

    RUN/journal.jsonl         finished samples, one a line, the moment they finish; the same command goes on from here
    RUN/logs                  Inspect's logs, one a start: `inspect view --log-dir RUN/logs`
    RUN/result.json, RUN/transcripts.jsonl.gz    what the report reads, written at the end

Samples are many more at a time than calls in flight, and all calls wait in one fair queue. So the dialogues, which are
long chains of calls, end at about the same time, and the run has no tail in which a few last ones use a fraction of
the connections. Inspect writes its log when samples end; its display, its event stream and its copies of requests and
answers are switched off, and unless they are asked for its events of single calls too (`roles`).
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from compeer import __version__
from compeer.errors import UserError
from compeer.evals.result import Finished, Journal
from compeer.pipeline.stage import duration, short

if TYPE_CHECKING:
    from inspect_ai import Task
    from inspect_ai.model import Model

    from compeer.evals.roles import Settings

#: samples under way for each call in flight; from so many calls on, because a model in this process reads a dialogue
#: faster when no other comes between (it remembers the last prompt), and finished ones are safe sooner
SURPLUS, MANY = 4, 8


class Outcome(msgspec.Struct):
    """What a run has: its finished samples in the order of the cases, why others failed, and how long it took."""

    finished: list[Finished]
    failures: dict[str, str]
    seconds: float
    resumed: int  # samples that an earlier start had finished

    @property
    def counts(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for one in self.finished:
            total.update(one.counts)
        return dict(total)

    def notes(self) -> list[str]:
        """What a reader must know, in sentences."""
        counts, told = self.counts, []
        if self.failures:
            first = next(iter(self.failures.values()))
            told.append(
                f"{len(self.failures)} samples failed and are left out; the same command tries them again. "
                f"The first: {first}"
            )
        if counts.get("incomplete"):
            told.append(
                f"{counts['incomplete']} of {counts['replies']} replies did not keep the reasoning contract after "
                "all tries; what could be read of them was said."
            )
        if counts.get("silent"):
            told.append(f"{counts['silent']} replies had no words.")
        if counts.get("unread_changes"):
            told.append(f"{counts['unread_changes']} plans named no change after all tries; the mood stayed there.")
        if counts.get("ratings_without_number"):
            told.append(f"{counts['ratings_without_number']} of {counts['ratings']} ratings had no number.")
        return told

    def setup(self) -> dict[str, Any]:
        return {
            "samples": len(self.finished),
            "failed": len(self.failures),
            "seconds": round(self.seconds, 1),
            "resumed": self.resumed,
            "counts": self.counts,
            "compeer": __version__,
        }


def unusual(settings: Settings, names: Sequence[str]) -> dict[str, str]:
    """Those settings that change what a score means and are not as usual, for `comparable`."""
    usual = type(settings)()
    return {name: str(getattr(settings, name)) for name in names if getattr(settings, name) != getattr(usual, name)}


def run(
    run_dir: Path,
    cases: Sequence[str],
    make_task: Callable[[list[str], Callable[[Finished], None]], Task],
    *,
    model: Model,
    roles: dict[str, Model | list[Model]],
    settings: dict[str, Any],
    concurrency: int,
    calls_each: int,
    fresh: bool = False,
    quiet: bool = False,
) -> Outcome:
    """Run the cases that the journal does not hold. `settings` is what determines the samples."""
    journal = Journal(run_dir, settings, fresh=fresh)
    try:
        known = [case for case in cases if case in journal.finished]
        left = [case for case in cases if case not in journal.finished]
        bar = Bar(len(cases), len(known), quiet=quiet)
        resumed = f" ({len(known)} of {len(cases)} dialogues are done already)" if known else ""
        bar.say(f"{len(left)} dialogues, up to {len(left) * calls_each:,} calls and what must be asked again{resumed}")
        began = time.monotonic()
        failures: dict[str, str] = {}
        if left:

            def keep(done: Finished) -> None:
                journal.add(done)
                bar.step(done)

            failures = asyncio.run(_evaluate(make_task(left, keep), left, model, roles, run_dir, concurrency))
            bar.stop()
        finished = [journal.finished[case] for case in cases if case in journal.finished]
    finally:
        journal.close()
    if not finished:
        reason = next(iter(failures.values()), "no sample was finished")
        raise UserError(f"Not one dialogue was finished. The first failed so: {reason}")
    return Outcome(finished, failures, time.monotonic() - began, len(known))


async def _evaluate(
    task: Task,
    cases: list[str],
    model: Model,
    roles: dict[str, Model | list[Model]],
    run_dir: Path,
    concurrency: int,
) -> dict[str, str]:
    """Run the task; why samples failed, by their id."""
    from inspect_ai import eval_async
    from inspect_ai.util._display import init_display_type

    init_display_type("none")
    (run_dir / "logs").mkdir(parents=True, exist_ok=True)
    try:
        logs = await eval_async(
            task,
            model=model,
            model_roles=roles,
            log_dir=str(run_dir / "logs"),
            log_level="error",
            log_level_transcript="error",
            log_realtime=False,
            log_model_api=False,
            score_display=False,
            ctl_server=False,
            fail_on_error=False,
            max_samples=min(len(cases), concurrency * (SURPLUS if concurrency >= MANY else 1)),
            max_connections=concurrency,
        )
    finally:
        for one in [model, *(each for role in roles.values() for each in (role if isinstance(role, list) else [role]))]:
            await one.api.aclose()
    log = logs[0]
    if log.error is not None:
        raise UserError(f"Inspect could not run the task: {log.error.message}")
    failed = [sample for sample in log.samples or [] if sample.error is not None]
    return {str(sample.id): _sentence(sample.error.message) for sample in failed}


def _sentence(message: str) -> str:
    """An exception's words, without its name and quotes."""
    return re.sub(r"""^\w+\((['"])(.*)\1\)$""", r"\2", message.strip(), flags=re.DOTALL)


class Bar:
    """Dialogues done, on the standard error: a live bar on a terminal, else a line every ten seconds."""

    def __init__(self, total: int, done: int, *, quiet: bool = False, every: float = 10.0) -> None:
        self.total, self.done, self.quiet, self.every = total, done, quiet, every
        self._began, self._start, self._next = time.monotonic(), done, time.monotonic() + every
        self._counts: Counter[str] = Counter()
        self._live: Any = None

    def say(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def step(self, done: Finished) -> None:
        self.done += 1
        self._counts.update(done.counts)
        now = time.monotonic()
        live = not self.quiet and sys.stderr.isatty()
        if self.quiet or (not live and now < self._next):
            return
        self._next = now + self.every
        rate = (self.done - self._start) / max(now - self._began, 1e-9)
        tokens = f"{short(self._counts['tokens_read'])} tokens read, {short(self._counts['tokens_written'])} written"
        told = f"{tokens}, {duration((self.total - self.done) / rate)} left"
        if not live:
            self.say(f"{self.done} of {self.total} dialogues, {told}")
            return
        if self._live is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            self._live = Progress(
                TextColumn("dialogues"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"),
                console=Console(stderr=True), refresh_per_second=4,
            )  # fmt: skip
            self._task = self._live.add_task("", total=self.total, completed=self.done, told=told)
            self._live.start()
        self._live.update(self._task, completed=self.done, told=told)

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()
