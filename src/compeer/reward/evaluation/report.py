"""Everything that was kept in a folder, measured: a section for each set and each origin of its labels.

Baselines are computed here, not kept. Judges of a section are measured with the same resamples, so their differences
have intervals of their own: each judge against the first one, and against the probes.

Judges against sets: who was trained on what stands in the rows, what it was tested on in the columns.

With one judge for each corpus and one set for each corpus this is the cross-corpus table: the diagonal is at home,
the rest is abroad. Sets with labels of different origin are different columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from compeer import __version__
from compeer.cer.item import Item, LabelSource, Question
from compeer.errors import UserError
from compeer.reasoning import STEPS
from compeer.reward.evaluation.baselines import always_true, majority
from compeer.reward.evaluation.folder import Entry, Folder
from compeer.reward.evaluation.measure import (
    HEADINGS,
    Figure,
    Measured,
    Result,
    by_label_source,
    dialogues_of,
    difference,
    measure,
)
from compeer.reward.evaluation.signatures import Signature, leaks, signatures
from compeer.statistics import LEVEL, ROUNDS, Resamples

TITLES = {
    "steps_weighted_f1": "Steps, mean weighted F1",
    "steps_recall_false": "Steps, mean recall of False",
    "reply_weighted_f1": "Reply, weighted F1",
}


class Matrix(msgspec.Struct, frozen=True):
    """One figure for each judge (row) on each set (column); None where the judge does not answer this question."""

    figure: str
    title: str
    judges: list[str]
    sets: list[str]
    values: list[list[float | None]]


def matrices(sections: Sequence[tuple[str, Sequence[Result]]]) -> list[Matrix]:
    """The tables over several sets; nothing for one."""
    if len(sections) < 2:
        return []
    names = list(dict.fromkeys(one.name for _, results in sections for one in results if one.role != "baseline"))
    columns = [{one.name: one for one in results} for _, results in sections]
    made = [
        Matrix(
            figure,
            title,
            names,
            [name for name, _ in sections],
            [[_value(column.get(name), figure) for column in columns] for name in names],
        )
        for figure, title in TITLES.items()
    ]
    return [one for one in made if any(value is not None for row in one.values for value in row)]


def _value(result: Result | None, figure: str) -> float | None:
    if result is None:
        return None
    if figure == "reply_weighted_f1":
        reply = result.questions.get("preference")
        return reply.figures["weighted_f1"].value if reply else None
    name = figure.removeprefix("steps_")
    values = [result.questions[step].figures[name].value for step in STEPS if step in result.questions]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


#: the columns of Table 1: a question and a figure
COLUMNS: tuple[tuple[Question, str], ...] = (
    ("history", "weighted_f1"),
    ("history", "recall_false"),
    ("emotion", "weighted_f1"),
    ("emotion", "recall_false"),
    ("strategy", "weighted_f1"),
    ("strategy", "recall_false"),
    ("preference", "weighted_f1"),
    ("preference", "accuracy"),
)
TEXT_ONLY = "text-only probe"  # how the names of probes without the history begin


class Difference(msgspec.Struct, frozen=True):
    """How far one judge lies above another, figure by figure, in the columns of Table 1."""

    judge: str
    other: str
    figures: tuple[Figure | None, ...]


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One set with labels of one origin."""

    set: str
    label_source: LabelSource
    heading: str
    items: int
    dialogues: int
    results: list[Result]
    differences: list[Difference]
    signatures: list[Signature]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What report.json holds."""

    version: str
    rounds: int
    level: float
    seed: int
    judges: list[Entry]
    sections: list[Section]
    unlabelled: dict[str, int]  # items of each set that have no labels and take no part
    matrices: list[Matrix]


def report(folder: Folder, *, rounds: int = ROUNDS, seed: int = 0) -> Report:
    """Measure what lies in a folder."""
    sections: list[Section] = []
    unlabelled: dict[str, int] = {}
    for name in folder.run.sets:
        items = folder.items(name)
        grouped = by_label_source(items)
        unlabelled[name] = len(items) - sum(map(len, grouped.values()))
        for source, labelled in grouped.items():
            sections.append(_section(folder, name, source, labelled, rounds, seed))
    if not sections:
        raise UserError("None of the items has a label; compeer cer label, or compeer cer gold, gives labelled ones.")
    return Report(
        version=__version__,
        rounds=rounds,
        level=LEVEL,
        seed=seed,
        judges=folder.run.judges,
        sections=sections,
        unlabelled={name: count for name, count in unlabelled.items() if count},
        matrices=matrices([(f"{part.set}, {part.label_source}", part.results) for part in sections]),
    )


def _section(folder: Folder, name: str, source: LabelSource, items: Sequence[Item], rounds: int, seed: int) -> Section:
    resamples = Resamples(dialogues_of(items), rounds, seed)
    told = [(entry, folder.judgements(name, entry.name)) for entry in folder.run.judges]
    asked = [
        measure(items, judgements, resamples, name=entry.name, kind=entry.kind, role=entry.role)
        for entry, judgements in told
        if judgements  # a judge of another set of this folder may not have been asked about this one
    ]
    judges = [one for one in asked if one.result.role == "judge"]
    probes = [one for one in asked if one.result.role == "probe"]
    found = [finding for one in judges for finding in signatures(one, probes)]
    found += [finding for one in probes if one.result.name.startswith(TEXT_ONLY) for finding in leaks(one.result)]
    plain = {"always True": always_true(items), "majority": majority(items, items)}
    baselines = [measure(items, said, resamples, name=called, role="baseline") for called, said in plain.items()]
    return Section(
        set=name,
        label_source=source,
        heading=HEADINGS[source],
        items=len(items),
        dialogues=resamples.groups,
        results=[one.result for one in (*judges, *probes, *baselines)],
        differences=_differences(judges, probes),
        signatures=found,
    )


def _differences(judges: Sequence[Measured], probes: Sequence[Measured]) -> list[Difference]:
    pairs = [(one, judges[0]) for one in judges[1:]] + [(one, other) for one in judges for other in probes]
    found = [
        Difference(one.result.name, other.result.name, tuple(difference(one, other, *column) for column in COLUMNS))
        for one, other in pairs
    ]
    return [entry for entry in found if any(entry.figures)]
