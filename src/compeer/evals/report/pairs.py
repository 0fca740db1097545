"""Two runs on the same cases, case by case: the mean difference with its interval.

Cases differ far more than models do, so the difference of each case says more than two means with wide intervals.
Only runs that may be compared are paired, and only cases that both have.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from compeer.evals.esc_eval.dimension import AVERAGE, DIMENSIONS, SCALE
from compeer.evals.esc_eval.figures import averaged
from compeer.evals.interval import Figure, mean_figure
from compeer.evals.report.gather import Group, Run
from compeer.evals.result import Transcript

_MOST = 3  # runs of which every two are compared; of more, each with the first
_FEWEST = 5  # cases in common


class Paired(msgspec.Struct, frozen=True):
    """`first` minus `second`, the run named later minus the one before; a figure's n is the cases both have."""

    first: Run
    second: Run
    differences: tuple[Figure, ...]

    @property
    def cases(self) -> int:
        return max((figure.n for figure in self.differences), default=0)


def paired(group: Group) -> list[Paired]:
    """The comparisons of a group."""
    runs = group.runs
    couples: Iterable[tuple[Run, Run]]
    if len(runs) <= _MOST:
        couples = [(later, one) for at, one in enumerate(runs) for later in runs[at + 1 :]]
    else:
        couples = [(other, runs[0]) for other in runs[1:]]
    made = [Paired(one, two, differences(one, two)) for one, two in couples]
    return [pair for pair in made if pair.differences]


def differences(first: Run, second: Run) -> tuple[Figure, ...]:
    """The mean difference of every value that both runs have for the same cases."""
    one, two = (
        {sample.id: case_values(run.result.benchmark, sample) for sample in run.transcripts} for run in (first, second)
    )
    both = [case for case in one if case in two]
    columns: dict[str, list[float]] = {}
    for case in both:
        for name in one[case].keys() & two[case].keys():
            columns.setdefault(name, []).append(one[case][name] - two[case][name])
    order = list(dict.fromkeys(name for case in both for name in one[case]))
    return tuple(mean_figure(name, columns[name]) for name in order if len(columns.get(name, ())) >= _FEWEST)


def case_values(benchmark: str, sample: Transcript) -> dict[str, float]:
    """The numbers of one case, on the scale of the tables."""
    values: dict[str, float] = {}
    if benchmark == "sage" and sample.curve:
        final = sample.curve[-1]
        # over 100 profiles the difference of counts is that of the shares, times 100
        values |= {"Sentient": final, "Success": 100.0 * (final >= 100), "Failure": 100.0 * (final < 10)}
    if benchmark == "sage":
        return values
    if benchmark != "esc-eval":
        return {name: value for name, value in sample.scores.items() if value is not None}
    judges = list(dict.fromkeys(name.rpartition("/")[0] for name in sample.scores))
    row = averaged(sample, judges)
    values = {DIMENSIONS[key]: SCALE * value for key, value in row.items() if value is not None}
    if len(values) == len(DIMENSIONS):
        values[AVERAGE] = sum(values.values()) / len(values)
    return values
