"""Runs as the pages show them: small curves for the list, figures of a run, an evaluation, several side by side.

Figures are those of the report (`compeer.evals.report.charts` and `pictures`), with the words of this room for metrics.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache

import msgspec
from markupsafe import Markup

from compeer.errors import UserError
from compeer.evals.report.charts import Chart, short, spark
from compeer.evals.report.gather import TrainedRun, gather, read_study
from compeer.evals.report.pictures import group_charts, judge_charts, metric_chart
from compeer.studio.pages import Say
from compeer.studio.rooms.runs import reading
from compeer.training.metrics import MetricLog, metric_words

#: curves of the list, for a run with rewards and for one without
LISTED_REWARDED = ("reward", "diversity/distinct_2", "entropy")
LISTED_SUPERVISED = ("loss", "mean_token_accuracy", "entropy")
MAIN = ("reward", "judge/training", "judge/second", "loss", "mean_token_accuracy", "part/history", "part/emotion",
        "part/strategy", "part/preference", "part/format", "diversity/distinct_2", "diversity/self_similarity",
        "diversity/strategies", "entropy", "length/reply_words", "format/incomplete", "kl", "grad_norm",
        "learning_rate")  # fmt: skip
_SUPERVISED_ONLY = ("loss", "grad_norm", "learning_rate")
_KEPT = 24  # lists of figures of evaluations


class SmallCurve(msgspec.Struct, frozen=True):
    """A curve of the list, with its last value."""

    name: str
    last: str
    drawn: Markup


class ListedRun(msgspec.Struct, frozen=True):
    """One run in the list."""

    found: reading.RunFolder
    changed: float
    ago: str
    note: str = ""
    state: reading.RunState | None = None
    what: str = ""
    step: int = 0
    curves: tuple[SmallCurve, ...] = ()
    alerts: int = 0
    result: reading.EvaluationResult | None = None


def listed_run(library: reading.RunLibrary, found: reading.RunFolder, say: Say) -> ListedRun:
    """A run for the list."""
    note = library.notes.read(found)
    if found.kind == "training":
        run = library.training_run(found)
        names = LISTED_REWARDED if run.metrics.column("reward") else LISTED_SUPERVISED
        curves = tuple(curve for name in names if (curve := small(run.metrics, name, say)))
        return ListedRun(
            found, run.changed, ago(run.changed, say), note, run.state, run.what, run.metrics.step, curves,
            len(run.alerts),
        )  # fmt: skip
    changed = reading.changed_at(found)
    result = library.result(found) if found.kind == "evaluation" else None
    return ListedRun(found, changed, ago(changed, say), note, result=result)


def small(metrics: MetricLog, name: str, say: Say) -> SmallCurve | None:
    column = metrics.column(name) or metrics.column(name, "eval")
    if not column:
        return None
    values = {"first": short(column.values[0]), "last": short(column.last), "steps": short(column.steps[-1])}
    label = say("runs.curve.label", name=named(name, say), **values)
    return SmallCurve(named(name, say), short(column.last), spark(*column.arrays(), label))


def main_metrics(logs: Sequence[MetricLog]) -> list[str]:
    """Metrics that are shown first, as far as one of the runs has them."""
    rewarded = any(log.column("reward") for log in logs)
    known = {name for log in logs for name in log.columns}
    return [name for name in MAIN if name in known and not (rewarded and name in _SUPERVISED_ONLY)]


def metric_charts(runs: Sequence[TrainedRun], names: Sequence[str], say: Say) -> list[Chart]:
    """A figure for each metric, with all runs in it."""
    return [one for name in names for one in metric_chart(runs, name, named(name, say), say.language)]


def evaluation_charts(founds: Sequence[reading.RunFolder], say: Say) -> list[Chart]:
    """The figures of evaluations and of studies of judges together; none where a file cannot be read."""
    return _evaluation_charts(say, tuple((one, reading.files_state(one)) for one in founds))


@lru_cache(_KEPT)
def _evaluation_charts(say: Say, states: tuple[tuple[reading.RunFolder, object], ...]) -> list[Chart]:
    """Kept until one of the files changes."""
    founds, made = [one for one, _ in states], list[Chart]()
    try:
        for number, found in enumerate(one for one in founds if one.kind == "judging"):
            for at, section in enumerate(read_study(found.path).sections):
                made += judge_charts(f"judges-{number + 1}-{at + 1}", section, say.language)
        paths = [one.path for one in founds if one.kind == "evaluation"]
        for group in gather(paths).groups if paths else ():
            made += group_charts(group, say.language)
    except (UserError, OSError, EOFError):  # half written
        pass
    return made


def named(name: str, say: Say) -> str:
    """A metric in words."""
    key = f"runs.metric.{name}"
    return say(key) if say.knows(key) else metric_words(name)


def ago(changed: float, say: Say) -> str:
    """How long ago, in words."""
    seconds = max(0.0, time.time() - changed)
    if seconds < 60:
        return say("runs.ago.now")
    for unit, size, most in (("minutes", 60, 60), ("hours", 3600, 48), ("days", 86400, 60)):
        if seconds < size * most:
            return say(f"runs.ago.{unit}", n=int(seconds // size))
    return time.strftime("%Y-%m-%d", time.gmtime(changed))
