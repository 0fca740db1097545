"""Runs read from their folders and sorted by what may stand in one table.

Runs of one benchmark whose `comparable` is equal are one group and share a table. Another simulator, judge, prompt or
set of cases makes another group, and a sentence says what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from compeer.errors import UserError
from compeer.evals.result import TRANSCRIPTS, Result, Transcript, load_result, load_transcripts

ORDER = ("sage", "esc-eval", "reward", "diversity", "control", "safety")
TITLES = {
    "sage": "SAGE",
    "esc-eval": "ESC-Eval",
    "reward": "Reward under a judge",
    "diversity": "Language and diversity",
    "control": "Control",
    "safety": "Safety",
}


class Run(msgspec.Struct, frozen=True):
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


class Group(msgspec.Struct, frozen=True):
    """Runs that may be compared, and why they stand apart from the group before them (empty for the first)."""

    benchmark: str
    runs: tuple[Run, ...]
    apart: str = ""

    @property
    def comparable(self) -> dict[str, str]:
        return self.runs[0].result.comparable


class Gathered(msgspec.Struct, frozen=True):
    """Everything a report shows."""

    groups: tuple[Group, ...]

    @property
    def runs(self) -> list[Run]:
        return sorted((run for group in self.groups for run in group.runs), key=lambda run: run.number)

    def of(self, benchmark: str) -> list[Group]:
        return [group for group in self.groups if group.benchmark == benchmark]

    @property
    def benchmarks(self) -> list[str]:
        """The benchmarks that were run, in the order of the report."""
        found = dict.fromkeys(group.benchmark for group in self.groups)
        return sorted(found, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


def gather(paths: Sequence[Path], most: int = 1000) -> Gathered:
    """Read the runs and sort them."""
    if not paths:
        raise UserError("Name at least one folder that an evaluation wrote.")
    runs: list[Run] = []
    for path in dict.fromkeys(paths):
        result = load_result(path)
        samples = tuple(load_transcripts(path)) if (path / TRANSCRIPTS).is_file() else ()
        runs.append(Run(len(runs), path, result.model, result, samples, min(most, len(samples))))
    sorted_out: dict[tuple[str, tuple[tuple[str, str], ...]], list[Run]] = {}
    for run in runs:
        key = (run.result.benchmark, tuple(sorted(run.result.comparable.items())))
        sorted_out.setdefault(key, []).append(run)
    groups: list[Group] = []
    for (benchmark, _), members in sorted_out.items():
        first = next((group for group in groups if group.benchmark == benchmark), None)
        apart = why_apart(first.comparable, members[0].result.comparable) if first else ""
        groups.append(Group(benchmark, _named(members), apart))
    return Gathered(tuple(_coloured(groups)))


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


def _coloured(groups: list[Group]) -> list[Group]:
    labels = list(dict.fromkeys(run.label for group in groups for run in group.runs))
    return [
        msgspec.structs.replace(
            group, runs=tuple(msgspec.structs.replace(run, colour=labels.index(run.label)) for run in group.runs)
        )
        for group in groups
    ]


def _named(members: list[Run]) -> tuple[Run, ...]:
    models = [run.result.model for run in members]
    return tuple(
        msgspec.structs.replace(run, label=f"{run.label} ({run.path.name})") if models.count(run.label) > 1 else run
        for run in members
    )
