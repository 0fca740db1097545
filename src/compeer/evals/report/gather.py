"""Runs read from their folders and grouped by what may share a table; how each was made; what to keep in mind.

Folders may hold evaluations, training runs (for their curves) and studies of judges (`compeer reward eval --out`).
Runs of one benchmark whose `comparable` is equal form a group and share a table. Another simulator, judge, prompt or
set of cases makes another group, and a sentence says what differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.evals.result import RESULT, TRANSCRIPTS, Result, Transcript, load_result, load_transcripts
from compeer.reward.evaluation.folder import EvaluationFolder
from compeer.reward.evaluation.report import EvaluationReport, measure_folder
from compeer.training.metrics import MetricLog
from compeer.typed import from_json

#: shown elsewhere in the report, as tables and drawings
_ELSEWHERE = ("strategies", "agreement")


def setup_rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, text) for each setting that has a value, as a person reads them.

    >>> setup_rows({"seed": 7, "counts": {"not_read": 1200}, "judge": None, "history_words": 600, "grammar": True})
    [('seed', '7'), ('counts', 'not read 1,200'), ('history words', '600'), ('grammar', 'yes')]
    """
    shown = ((name.replace("_", " "), _setting_text(value)) for name, value in values.items() if name not in _ELSEWHERE)
    return [(name, text) for name, text in shown if text]


def _setting_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 1000 else str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        texts = ((str(name).replace("_", " "), _setting_text(inner)) for name, inner in value.items())
        return ", ".join(f"{name} {text}" for name, text in texts if text)
    if isinstance(value, list | tuple):
        return ", ".join(_setting_text(inner) for inner in value)
    return str(value)


TEXTS: dict[str, Any] = msgspec.json.decode(Path(__file__).with_name("texts.json").read_bytes())
#: the benchmarks by the name that a reader sees, in the order of the report
TITLES: dict[str, str] = TEXTS["titles"]


def title_of(benchmark: str) -> str:
    return TITLES.get(benchmark, benchmark)


class ReportRun(msgspec.Struct, frozen=True):
    """One run. `label` is its model, with the folder's name where two runs of a group have the same model."""

    number: int
    path: Path
    label: str
    result: Result
    transcripts: tuple[Transcript, ...]
    shown: int  # how many of them can be read in the page
    colour: int = 0  # the same for a model wherever it stands

    @property
    def left_out(self) -> int:
        return len(self.transcripts) - self.shown


class RunGroup(msgspec.Struct, frozen=True):
    """Runs that may be compared, and why they stand apart from the group before them (empty for the first)."""

    benchmark: str
    runs: tuple[ReportRun, ...]
    apart: str = ""

    @property
    def comparable(self) -> dict[str, str]:
        return self.runs[0].result.comparable


class TrainedRun(msgspec.Struct, frozen=True):
    label: str
    metrics: MetricLog
    colour: int = 0


class ReportRuns(msgspec.Struct, frozen=True):
    """Everything a report shows; studies of judges by the name of their folder."""

    groups: tuple[RunGroup, ...]
    training: tuple[TrainedRun, ...] = ()
    judging: tuple[tuple[str, EvaluationReport], ...] = ()

    @property
    def runs(self) -> list[ReportRun]:
        return sorted((run for group in self.groups for run in group.runs), key=lambda run: run.number)

    def of(self, benchmark: str) -> list[RunGroup]:
        return [group for group in self.groups if group.benchmark == benchmark]

    @property
    def benchmarks(self) -> list[str]:
        """The benchmarks that were run, in the order of the report."""
        found = dict.fromkeys(group.benchmark for group in self.groups)
        return sorted(found, key=lambda name: list(TITLES).index(name) if name in TITLES else len(TITLES))


def gather(paths: Sequence[Path], most: int = 1000) -> ReportRuns:
    """Read the runs and group them."""
    if not paths:
        raise UserError("Name at least one folder that an evaluation wrote.")
    runs: list[ReportRun] = []
    training: list[TrainedRun] = []
    judging: list[tuple[str, EvaluationReport]] = []
    for path in dict.fromkeys(paths):
        if not (path / RESULT).is_file() and (path / "run.json").is_file():
            if (path / "metrics.jsonl").is_file():
                training.append(read_training(path, path.name, len(training)))
            else:
                judging.append((path.name, read_study(path)))
            continue
        result = load_result(path)
        samples = tuple(load_transcripts(path)) if (path / TRANSCRIPTS).is_file() else ()
        runs.append(ReportRun(len(runs), path, result.model, result, samples, min(most, len(samples))))
    grouped: dict[tuple[str, tuple[tuple[str, str], ...]], list[ReportRun]] = {}
    for run in runs:
        key = (run.result.benchmark, tuple(sorted(run.result.comparable.items())))
        grouped.setdefault(key, []).append(run)
    groups: list[RunGroup] = []
    colours: dict[str, int] = {}  # by label
    for (benchmark, _), members in grouped.items():
        first = next((group for group in groups if group.benchmark == benchmark), None)
        apart = why_apart(first.comparable, members[0].result.comparable) if first else ""
        shown = [
            msgspec.structs.replace(run, colour=colours.setdefault(run.label, len(colours))) for run in _named(members)
        ]
        groups.append(RunGroup(benchmark, tuple(shown), apart))
    return ReportRuns(tuple(groups), tuple(training), tuple(judging))


def read_training(path: Path, label: str, colour: int) -> TrainedRun:
    metrics = MetricLog(path / "metrics.jsonl")
    metrics.catch_up()
    return TrainedRun(label, metrics, colour)


def read_study(path: Path) -> EvaluationReport:
    """A study of judges as its report.json has it; measured now where there is none."""
    try:
        return from_json((path / "report.json").read_bytes(), EvaluationReport)
    except (FileNotFoundError, msgspec.MsgspecError):
        return measure_folder(EvaluationFolder.existing(path))


def why_apart(first: dict[str, str], other: dict[str, str]) -> str:
    """What makes two runs different measurements, in a sentence.

    >>> why_apart({"simulator": "gpt-4o"}, {"simulator": "deepseek-v3"})
    'Another measurement than the table before: simulator is deepseek-v3 here and gpt-4o there.'
    """
    parts = [
        f"{name} is {other.get(name, 'not stated')} here and {first.get(name, 'not stated')} there"
        for name in dict.fromkeys([*first, *other])
        if first.get(name) != other.get(name)
    ]
    return f"Another measurement than the table before: {'; '.join(parts)}."


def _named(members: list[ReportRun]) -> tuple[ReportRun, ...]:
    models = [run.result.model for run in members]
    return tuple(
        msgspec.structs.replace(run, label=f"{run.label} ({run.path.name})") if models.count(run.label) > 1 else run
        for run in members
    )


def caveats(gathered: ReportRuns) -> list[str]:
    """The sentences that concern what is shown."""
    found = [text for benchmark in gathered.benchmarks for text in TEXTS["caveats"].get(benchmark, ())]
    return [TEXTS["intervals"], *found, *TEXTS["about"]]
