"""Runs read from their folders and sorted by what may stand in one table.

Runs of one benchmark whose `comparable` is equal are one group and share a table. Another simulator, judge, prompt or
set of cases makes another group, and a sentence says what differs.

How a run was made, as rows of words: simulator, judge, prompts, seed, versions, counts.

What a reader must keep in mind, in words, for each benchmark that a report shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.evals.result import TRANSCRIPTS, Result, Transcript, load_result, load_transcripts

#: shown elsewhere in the report, as tables and drawings
_ELSEWHERE = ("strategies", "agreement")


def setup_rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, words) for each setting that says something.

    >>> setup_rows({"seed": 7, "counts": {"calls": 1200}, "judge": None, "grammar": True})
    [('seed', '7'), ('counts', 'calls 1,200'), ('grammar', 'yes')]
    """
    return [(name, words(value)) for name, value in values.items() if name not in _ELSEWHERE and words(value)]


def words(value: Any) -> str:
    """A setting's value as a person reads it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 1000 else str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {words(inner)}" for name, inner in value.items() if words(inner))
    if isinstance(value, list | tuple):
        return ", ".join(words(inner) for inner in value)
    return str(value)


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


_OF: dict[str, tuple[str, ...]] = {
    "sage": (
        "The simulator is part of a SAGE result. The same tested model scored 52 with one simulator and 32 with "
        "another, so runs with different simulators never share a column, and the paper's figures (simulator GPT-4o) "
        "are for orientation only.",
        "Sentient is the mean emotion at the end of a dialogue; failures keep the value they ended with. Success "
        "counts dialogues that reach 100, Failure those that fall below 10. In a dialogue of full length the last "
        "reply is not judged.",
    ),
    "esc-eval": (
        "GPT-4 as a judge agreed with people on only 1 to 3 % of Humanoid and under 2 % of Overall judgements in "
        "ESC-Eval's own study. Read those two columns of a GPT judge with care; judges stand in separate columns for "
        "this reason.",
        "Four of the paper's Average cells are not the mean of their seven columns (COMPEER-URP prints 82.39, the mean "
        "is 82.60). They are shown as printed, with a mark. Ours is always the plain mean of the seven.",
        "The seeker is played by a model, and the judge's prompt shapes the score. A figure compares models only under "
        "the same seeker, the same judge and the same prompts.",
    ),
    "reward": ("A judge's reward says what the judge prefers. It was trained on labels that may be silver.",),
    "diversity": (
        "Distinct-n falls and self-BLEU rises as a set grows, and both depend on how long replies are. Compare sets of "
        "about the same size.",
        "Nearness to a reference is not quality: there are many good replies to one moment.",
    ),
    "control": (
        "Agreement with the stated strategy is read by a classifier or a judge that can be wrong itself. Its own "
        "accuracy stands beside it; a reply may also use more than one strategy.",
    ),
    "safety": ("Red-team cases are few and written by us. A good figure here is no proof of safety for real people.",),
}
INTERVALS = (
    "The range that stands with a figure is its 95 % interval over the cases. It says how much the choice of cases "
    "matters, not how much the judge or the simulator does."
)
ABOUT = (
    "This is research software. Scores by models about simulated people do not show that anyone was helped.",
    "Dialogues may touch on painful things, suicide among them.",
)


def caveats(gathered: Gathered) -> list[str]:
    """The sentences that concern what is shown."""
    found = [INTERVALS]
    for benchmark in gathered.benchmarks:
        found += _OF.get(benchmark, ())
    return [*found, *ABOUT]
