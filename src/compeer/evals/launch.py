"""A run of a benchmark: a journal of finished dialogues, Inspect underneath, the result at the end.

    RUN/journal.jsonl         finished dialogues, one per line; the same command continues from here
    RUN/logs                  Inspect's logs, one per start: `inspect view --log-dir RUN/logs`
    RUN/result.json, RUN/transcripts.jsonl.gz    what the report reads, written at the end

**Journal.** Inspect keeps finished samples in a buffer and writes its log in batches; a run that was killed leaves that
log open, and repairing it would need a second command. So we write a line of our own the moment a dialogue ends. The
first line says what determines the samples (models, prompts, settings, seed); a folder with other settings is refused.

**Order.** Many more dialogues are under way than calls in flight, and all calls wait in one fair queue. Dialogues are
long chains of calls; this way they end at about the same time, and no tail of a few last dialogues leaves connections
idle. Inspect's display, event stream and copies of requests are switched off, and by default its call events (`roles`).
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import closing
from math import nan
from pathlib import Path
from typing import Any

import msgspec
from inspect_ai import Task, eval_async
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Model
from inspect_ai.scorer import Score, Scorer
from inspect_ai.solver import Solver
from inspect_ai.util import display_type

from compeer import __version__
from compeer.dialogue import lock
from compeer.errors import UserError
from compeer.evals.result import Finished, Result, cases_digest, save_result
from compeer.evals.roles import RoleSettings, role_name
from compeer.pipeline.ledger import Counts, Spent
from compeer.pipeline.stage import Progress
from compeer.statistics import Figure
from compeer.typed import from_json

#: dialogues under way per call in flight, with at least MANY calls in flight. With fewer calls, dialogues run one
#: after another: a model in this process remembers the last prompt, and finished dialogues are safe sooner
SURPLUS, MANY = 4, 8
#: the roles besides the supporter, as `comparable` names them
_ROLES = {"seeker": "simulator", "judge": "judge"}
#: what a reader must know of each kind of fault, by the count that tells it
_FAULTS = {
    "incomplete": "{incomplete} of {replies} replies did not keep the reasoning contract after all attempts; what "
    "could be read of them was said.",
    "silent": "{silent} replies had no words.",
    "unread_changes": "{unread_changes} plans named no change after all attempts; the mood stayed.",
    "ratings_without_number": "{ratings_without_number} of {ratings} ratings had no number.",
    "unread_verdicts": "{unread_verdicts} answers got no verdict that could be read; no figure has them.",
}


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation, ready to run.

    `cases` are all there are: the journal knows a run by them, so that one with --limit may continue without it.
    `supporter_prompt` is a hash. `comparable` is added to the names and settings of the roles.
    """

    name: str
    settings: RoleSettings
    cases: Sequence[Any]
    samples: list[Sample]
    solver: Solver
    scorer: Scorer
    calls_per_sample: int
    calls_per_judge: int = 0  # for a sample
    comparable: dict[str, str]
    figures: Callable[[list[Finished]], tuple[Figure, ...]]
    supporter_prompt: str | None = None
    notes: tuple[str, ...] = ()

    def left(self, finished: Container[str]) -> list[Sample]:
        return [sample for sample in self.samples if str(sample.id) not in finished]

    def task(self, finished: Container[str] = ()) -> Task:
        """Inspect's task, without the samples that are finished."""
        name, left = self.name.replace("-", "_"), MemoryDataset(self.left(finished))
        return Task(dataset=left, solver=self.solver, scorer=self.scorer, name=name)


def evaluate(
    benchmark: Benchmark,
    out: Path,
    model: Model,
    roles: dict[str, list[Model]],
    *,
    name: str | None = None,
    fresh: bool = False,
    quiet: bool = False,
) -> Result:
    """Run a benchmark, or what is left of it, and save its result. `name` is the model's in tables."""
    for role, models in roles.items():
        if len({role_name(one) for one in models}) < len(models):
            raise UserError(f"Two models of the role {role} have the same name; each needs a name of its own.")
    settings, usual = benchmark.settings, RoleSettings()
    how = msgspec.structs.asdict(settings)
    own = [setting for setting in how if setting.partition("_")[0] in roles]
    comparable = {
        **{_ROLES[role]: " + ".join(map(role_name, models)) for role, models in roles.items()},
        **benchmark.comparable,
        **{setting: str(how[setting]) for setting in own if how[setting] != getattr(usual, setting)},
    }
    del how["concurrency"], how["log_calls"]
    supporter = {"model": role_name(model), "supporter_prompt": benchmark.supporter_prompt}
    identity = {**comparable, **supporter, "cases": cases_digest(benchmark.cases), "language": None}
    began = time.monotonic()
    with closing(Journal(out, {"benchmark": benchmark.name, **how, **identity}, fresh=fresh)) as journal:
        resumed = sum(str(sample.id) in journal.finished for sample in benchmark.samples)
        failures = _run(benchmark, journal, model, roles, Progress(quiet=quiet))
    finished = [done for sample in benchmark.samples if (done := journal.finished.get(str(sample.id)))]
    reason = next(iter(failures.values()), "no sample was finished")
    if not finished:
        raise UserError(f"Not one dialogue was finished. The first failed with: {reason}")
    counts: Counter[str] = Counter()
    for one in finished:
        counts.update(one.counts)
    told = [words.format(**counts) for fault, words in _FAULTS.items() if counts[fault]]
    if failures:
        left_out = f"{len(failures)} samples failed and are left out; the same command tries them again."
        told.insert(0, f"{left_out} The first: {reason}")
    measured = {
        "samples": len(finished),
        "failed": len(failures),
        "seconds": round(time.monotonic() - began, 1),
        "resumed": resumed,
        "counts": dict(counts),
        "compeer": __version__,
        "mode": "plain" if settings.plain else "reasoning",
    }
    result = Result(
        benchmark=benchmark.name,
        model=name or role_name(model),
        comparable=comparable,
        figures=benchmark.figures(finished),
        setup=how | supporter | measured,
        notes=(*told, *benchmark.notes),
    )
    save_result(out, result, [one.transcript for one in finished])
    return result


#: told of each finished dialogue while a run with a journal is under way; Inspect runs one evaluation at a time
_listeners: list[Callable[[Finished], None]] = []


def report_finished(done: Finished) -> None:
    """Tell the run's journal, if there is one, that nothing more can happen to this dialogue."""
    for listener in _listeners:
        listener(done)


def finished_score(done: Finished, values: Mapping[str, float | None]) -> Score:
    """Report a dialogue and give Inspect its scores, with NaN where there is no number."""
    report_finished(done)
    shown = {name: nan if value is None else value for name, value in values.items()}
    return Score(value=shown, metadata={"finished": msgspec.to_builtins(done)})


def _run(
    benchmark: Benchmark, journal: Journal, model: Model, roles: dict[str, list[Model]], progress: Progress
) -> dict[str, str]:
    """Run the samples that the journal does not hold; why samples failed, by their id."""
    whole, left = len(benchmark.samples), len(benchmark.left(journal.finished))
    counts, spent = Counts(rows_in=whole - left), Spent()
    resumed = f" ({counts.rows_in} of {whole} dialogues are done already)" if counts.rows_in else ""
    most = left * (benchmark.calls_per_sample + benchmark.calls_per_judge * len(roles.get("judge", ())))
    progress.say(f"{left} dialogues, up to {most:,} calls and repeated attempts{resumed}")
    if not left:
        return {}

    def keep(done: Finished) -> None:
        journal.add(done)
        counts.rows_in += 1
        spent.asked += done.counts.get("calls", 0)
        spent.tokens_read += done.counts.get("tokens_read", 0)
        spent.tokens_written += done.counts.get("tokens_written", 0)
        progress.tick(counts, spent)

    progress.start("dialogues", whole, counts)
    _listeners.append(keep)
    try:
        logs = journal.path.with_name("logs")
        return asyncio.run(_evaluate(benchmark, journal, model, roles, logs))
    finally:
        _listeners.remove(keep)
        progress.stop()


async def _evaluate(
    benchmark: Benchmark, journal: Journal, model: Model, roles: dict[str, list[Model]], logs: Path
) -> dict[str, str]:
    """Run the task; why samples failed, by their id."""
    task, concurrency = benchmark.task(journal.finished), benchmark.settings.concurrency
    os.environ["INSPECT_DISPLAY"] = "none"
    display_type()  # reads the variable, once per process
    logs.mkdir(exist_ok=True)
    try:
        (log,) = await eval_async(
            task,
            model=model,
            model_roles={role: models if len(models) > 1 else models[0] for role, models in roles.items()},
            log_dir=str(logs),
            log_level="error",
            log_level_transcript="error",
            log_realtime=False,
            log_model_api=False,
            score_display=False,
            ctl_server=False,
            fail_on_error=False,
            max_samples=min(len(task.dataset), concurrency * (SURPLUS if concurrency >= MANY else 1)),
            max_connections=concurrency,
        )
    finally:
        for one in (model, *(each for models in roles.values() for each in models)):
            await one.api.aclose()
    if log.error is not None:
        raise UserError(f"Inspect could not run the task: {log.error.message}")
    failed = [sample for sample in log.samples or [] if sample.error is not None]
    return {str(sample.id): _sentence(sample.error.message) for sample in failed}


def _sentence(message: str) -> str:
    """An exception's words, without its name and quotes."""
    return re.sub(r"""^\w+\((['"])(.*)\1\)$""", r"\2", message.strip(), flags=re.DOTALL)


class Journal:
    """The finished samples of a run, in the order in which they finished."""

    def __init__(self, run: Path, settings: dict[str, Any], *, fresh: bool = False) -> None:
        self.path = run / "journal.jsonl"
        self.finished: dict[str, Finished] = {}
        run.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("a+b")
        lock(self._file, f"Another process is writing to {run}. Wait for it, or choose another --out.")
        if fresh:
            self._file.truncate(0)
        self._file.seek(0)
        lines = self._file.read().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):  # the run was killed while it wrote
            self._file.truncate(sum(map(len, lines[:-1])))
            lines.pop()
        if lines:
            self._read(lines, msgspec.to_builtins(settings))
        else:
            self._write({"settings": settings})

    def add(self, sample: Finished) -> None:
        """Keep a sample. It is in the file when this returns."""
        self.finished[sample.transcript.id] = sample
        self._write(sample)

    def close(self) -> None:
        self._file.close()

    def _read(self, lines: list[bytes], settings: dict[str, Any]) -> None:
        try:
            before = msgspec.json.decode(lines[0])["settings"]
            samples = [from_json(line, Finished) for line in lines[1:]]
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise UserError(
                f"{self.path} cannot be read: {error}. Start again with --fresh, or choose another --out."
            ) from None
        self.finished = {sample.transcript.id: sample for sample in samples}
        changed = sorted(name for name in before.keys() | settings.keys() if before.get(name) != settings.get(name))
        if changed:
            told = "; ".join(f"{name} was {before.get(name)!r}, is {settings.get(name)!r}" for name in changed)
            raise UserError(
                f"{self.path.parent} holds a run with other settings ({told}). Choose another --out, or start "
                "again with --fresh."
            )

    def _write(self, row: Any) -> None:
        self._file.write(msgspec.json.encode(row) + b"\n")
        self._file.flush()
