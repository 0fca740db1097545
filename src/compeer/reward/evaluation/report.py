"""The report of an evaluation: what a folder holds, measured and written as Markdown and JSON.

Each set and each origin of its labels is a section. Judges of a section are measured with the same resamples, so their
differences have intervals of their own: each judge against the first one, and against the probes. Baselines are
computed here. With several sets there are tables of judges against sets; with one judge and one set per corpus that is
the cross-corpus table.

Markdown begins with the columns of Table 1, then come details and findings. Shares are in percent, with 95 % intervals
in brackets. The paper's own rows (arXiv:2508.09521, its own 574 samples and 7B judges) come last, in a table of their
own and marked, because they are not comparable by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from compeer import __version__
from compeer.cer.item import QUESTIONS, Item, LabelSource, Question
from compeer.errors import UserError
from compeer.reasoning import STEPS
from compeer.reward.evaluation.baselines import TEXT_ONLY, always_true, majority
from compeer.reward.evaluation.folder import EvaluationFolder, JudgeEntry, write_study
from compeer.reward.evaluation.measure import (
    HEADINGS,
    JudgeResult,
    MeasuredJudge,
    QuestionResult,
    by_label_source,
    dialogues_of,
    difference,
    measure,
)
from compeer.reward.evaluation.signatures import Signature, leaks, signatures
from compeer.statistics import LEVEL, ROUNDS, Figure, Resamples
from compeer.typed import from_json

#: the columns of Table 1: a question and a figure
COLUMNS: tuple[tuple[Question, str], ...] = tuple(
    (question, figure)
    for question in QUESTIONS
    for figure in ("weighted_f1", "accuracy" if question == "preference" else "recall_false")
)
_HEAD = (
    "judge",
    *(f"Step {number} {name}" for number in (1, 2, 3) for name in ("weighted F1", "recall of False")),
    "Response weighted F1",
    "Response accuracy",
)
QUESTION_TITLES: dict[Question, str] = {
    "history": "Step 1, history",
    "emotion": "Step 2, emotion",
    "strategy": "Step 3, strategy",
    "preference": "Response",
}
#: the tables of judges against sets
_MATRICES = {
    "steps_weighted_f1": "Steps, mean weighted F1",
    "steps_recall_false": "Steps, mean recall of False",
    "reply_weighted_f1": "Reply, weighted F1",
}
_PAPER_NOTE = "from the paper, on its own data (574 samples); not comparable with the figures above"


class JudgeDifference(msgspec.Struct, frozen=True):
    """One judge minus another in the columns of Table 1."""

    judge: str
    other: str
    figures: tuple[Figure | None, ...]


class JudgeMatrix(msgspec.Struct, frozen=True):
    """One figure for each judge (row) on each set (column); None where the judge does not answer this question."""

    figure: str
    title: str
    judges: list[str]
    sets: list[str]
    values: list[list[float | None]]


class ReportSection(msgspec.Struct, frozen=True, kw_only=True):
    set: str
    label_source: LabelSource
    heading: str
    items: int
    dialogues: int
    results: list[JudgeResult]
    differences: list[JudgeDifference]
    signatures: list[Signature]


class EvaluationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What report.json holds."""

    version: str
    rounds: int
    level: float
    seed: int
    judges: list[JudgeEntry]
    sections: list[ReportSection]
    unlabelled: dict[str, int]  # items of each set without labels
    matrices: list[JudgeMatrix]


def write_report(folder: EvaluationFolder, out: Path, *, rounds: int = ROUNDS, seed: int = 0) -> EvaluationReport:
    """Measure what a folder holds, and write report.md and report.json."""
    made = measure_folder(folder, rounds=rounds, seed=seed)
    write_study(out, "report", made, markdown(made))
    return made


def measure_folder(folder: EvaluationFolder, *, rounds: int = ROUNDS, seed: int = 0) -> EvaluationReport:
    sections: list[ReportSection] = []
    unlabelled: dict[str, int] = {}
    for name in folder.run.sets:
        items = folder.items(name)
        grouped = by_label_source(items)
        unlabelled[name] = len(items) - sum(map(len, grouped.values()))
        for source, labelled in grouped.items():
            sections.append(_section(folder, name, source, labelled, rounds, seed))
    if not sections:
        raise UserError("None of the items has a label; compeer cer label or compeer cer gold makes labelled items.")
    return EvaluationReport(
        version=__version__,
        rounds=rounds,
        level=LEVEL,
        seed=seed,
        judges=folder.run.judges,
        sections=sections,
        unlabelled={name: count for name, count in unlabelled.items() if count},
        matrices=_matrices(sections),
    )


def _section(
    folder: EvaluationFolder, name: str, source: LabelSource, items: Sequence[Item], rounds: int, seed: int
) -> ReportSection:
    resamples = Resamples(dialogues_of(items), rounds, seed)
    kept = [(entry, folder.judgements(name, entry.name)) for entry in folder.run.judges]
    measured = [
        measure(items, judgements, resamples, name=entry.name, kind=entry.kind, role=entry.role)
        for entry, judgements in kept
        if judgements  # a judge of another set of this folder may not have judged this one
    ]
    judges = [one for one in measured if one.result.role == "judge"]
    probes = [one for one in measured if one.result.role == "probe"]
    found = [finding for one in judges for finding in signatures(one, probes)]
    found += [finding for one in probes if one.result.name.startswith(TEXT_ONLY) for finding in leaks(one.result)]
    plain = {"always True": always_true(items), "majority": majority(items, items)}
    baselines = [measure(items, said, resamples, name=called, role="baseline") for called, said in plain.items()]
    return ReportSection(
        set=name,
        label_source=source,
        heading=HEADINGS[source],
        items=len(items),
        dialogues=resamples.groups,
        results=[one.result for one in (*judges, *probes, *baselines)],
        differences=_differences(judges, probes),
        signatures=found,
    )


def _differences(judges: Sequence[MeasuredJudge], probes: Sequence[MeasuredJudge]) -> list[JudgeDifference]:
    pairs = [(one, judges[0]) for one in judges[1:]] + [(one, other) for one in judges for other in probes]
    found = [
        JudgeDifference(
            one.result.name, other.result.name, tuple(difference(one, other, *column) for column in COLUMNS)
        )
        for one, other in pairs
    ]
    return [entry for entry in found if any(entry.figures)]


def _matrices(sections: Sequence[ReportSection]) -> list[JudgeMatrix]:
    """The tables over several sections; none for a single one."""
    if len(sections) < 2:
        return []
    results = [one for section in sections for one in section.results if one.role != "baseline"]
    names = list(dict.fromkeys(one.name for one in results))
    columns = [{one.name: one for one in section.results} for section in sections]
    titles = [f"{section.set}, {section.label_source}" for section in sections]
    made = [
        JudgeMatrix(
            figure,
            title,
            names,
            titles,
            [[_matrix_value(column.get(name), figure) for column in columns] for name in names],
        )
        for figure, title in _MATRICES.items()
    ]
    return [one for one in made if any(value is not None for row in one.values for value in row)]


def _matrix_value(result: JudgeResult | None, figure: str) -> float | None:
    if result is None:
        return None
    part, _, name = figure.partition("_")
    questions: Sequence[Question] = ("preference",) if part == "reply" else QUESTIONS[: len(STEPS)]
    found = [one for question in questions if (one := result.figure(question, name)) is not None]
    known = [one.value for one in found if one.value is not None]
    return sum(known) / len(known) if known else None


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table, its columns aligned so that it reads as plain text too.

    >>> print("\\n".join(grid(["a", "figure"], [["x", "1.0"]])))
    | a | figure |
    |---|--------|
    | x | 1.0    |
    """
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in cells]
    lines = ["| " + " | ".join(row) + " |" for row in padded]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def percent(value: Figure | float | None, *, sign: bool = False) -> str:
    """A share in percent, a figure with its interval; a dash where it does not exist.

    >>> percent(0.753), percent(Figure("x", 0.02, -0.01, 0.05), sign=True), percent(None)
    ('75.3', '+2.0 [-1.0, +5.0]', '-')
    """
    figure = value if isinstance(value, Figure) else Figure(value=value)
    return figure.text(1, scale=100.0, sign=sign)


def markdown(report: EvaluationReport, *, brief: bool = False) -> str:
    """The report as text; `brief`: only the columns of Table 1 and the findings."""
    counts = report.unlabelled.items()
    left = "".join(f" {count:,} items of {name} have no labels and take no part." for name, count in counts)
    note = (
        "Percent. A missing verdict counts as wrong; a dash stands where a judge is not asked or a class does not "
        f"occur. Brackets: {report.level:.0%} intervals from {report.rounds:,} resamples of whole dialogues. "
        f"Labels of different origin are never pooled.{left}"
    )
    lines = ["# Evaluation of the judge", "", note, ""]
    for section in report.sections:
        lines += [*_opening(section), *([] if brief else _details(section)), ""]
    for matrix in report.matrices:
        rows = [[name, *map(percent, row)] for name, row in zip(matrix.judges, matrix.values, strict=True)]
        lines += [f"## {matrix.title}, judge by set", "", *grid(["judge", *matrix.sets], rows), ""]
    return "\n".join(lines + paper_table()).rstrip() + "\n"


def paper_table() -> list[str]:
    """Table 1 as printed in the paper: weighted F1 and recall of False per step, weighted F1 and accuracy."""
    rows = [
        [f"{name} (paper)", *("-" if value is None else f"{value:.2f}" for value in values)]
        for name, values in paper_figures().items()
    ]
    return [f"## For orientation: {_PAPER_NOTE}", "", *grid(_HEAD, rows), ""]


def paper_figures() -> dict[str, tuple[float | None, ...]]:
    """The rows of the paper's Table 1, in percent."""
    data = Path(__file__).with_name("paper_table1.json").read_bytes()
    found: dict[str, tuple[float | None, ...]] = from_json(data, dict[str, tuple[float | None, ...]])
    return found


def _opening(section: ReportSection) -> Iterator[str]:
    yield f"## {section.set}: {section.heading}"
    yield ""
    yield f"{section.items:,} items of {section.dialogues:,} dialogues."
    yield ""
    yield from grid(_HEAD, _rows(section.results))
    yield from ("", "### What stands out", "")
    findings = [f"- **{found.judge}, {found.code.replace('-', ' ')}.** {found.text}" for found in section.signatures]
    yield from findings or ["Nothing."]


def _details(section: ReportSection) -> Iterator[str]:
    if section.differences:
        yield from ("", "### Differences, in percentage points", "")
        rows = [
            [f"{entry.judge} less {entry.other}", *(percent(figure, sign=True) for figure in entry.figures)]
            for entry in section.differences
        ]
        yield from grid(_HEAD, rows)
    asked = [result for result in section.results if result.role != "baseline"]
    yield from ("", "### Probabilities and missing answers", "")
    yield from grid(("judge", "question", "AUC", "ECE", "Brier", "with p", "no answer"), _probabilities(asked))
    positions = [
        [
            result.name,
            effect.lean.text(2, sign=True),
            "-" if effect.swayed is None else f"{effect.swayed:.1%}",
            f"{effect.twice:,}",
        ]
        for result in asked
        if result.role == "judge" and (effect := result.position)
    ]
    if positions:
        yield from ("", "### Position of the reply", "")
        yield from grid(("judge", "lean to the first", "changed with the order", "pairs in both orders"), positions)
    yield from _parts(asked)
    yield from ("", "### Confusion", "")
    for result in asked:
        yield from _confusions(result)


def _rows(results: Sequence[JudgeResult]) -> list[list[str]]:
    """A row per judge; the best of each column among judges and probes in bold."""
    values = [[result.figure(*column) for column in COLUMNS] for result in results]
    rows = [[result.name, *map(percent, row)] for result, row in zip(results, values, strict=True)]
    for column in range(len(COLUMNS)):
        known = [
            (figure.value, number)
            for number, (result, figure) in enumerate(zip(results, (row[column] for row in values), strict=True))
            if figure is not None and figure.value is not None and result.role != "baseline"
        ]
        best = max((value for value, _ in known), default=0.0)
        for value, number in known:
            if value == best and len(known) > 1:
                rows[number][column + 1] = f"**{rows[number][column + 1]}**"
    return rows


def _probabilities(results: Sequence[JudgeResult]) -> Iterator[list[str]]:
    for result in results:
        for question, asked in result.questions.items():
            figures = [asked.figures[name].text(2) for name in ("auc", "ece", "brier")]
            yield [result.name, QUESTION_TITLES[question], *figures, f"{asked.scored:,}", f"{asked.unanswered:,}"]


def _parts(results: Sequence[JudgeResult]) -> Iterator[str]:
    for title, field in (("language", "by_language"), ("source", "by_source")):
        rows = [
            [result.name, part, f"{max(asked.items for asked in questions.values()):,}", *_columns(questions)]
            for result in results
            for part, questions in getattr(result, field).items()
        ]
        if rows:
            yield from ("", f"### By {title}", "")
            yield from grid(("judge", title, "items", *_HEAD[1:]), rows)


def _columns(questions: dict[Question, QuestionResult]) -> list[str]:
    return [percent(questions[name].figures.get(figure)) if name in questions else "-" for name, figure in COLUMNS]


def _confusions(result: JudgeResult) -> Iterator[str]:
    for question, asked in result.questions.items():
        rows = [[f"is {name}", *map(str, row)] for name, row in zip(asked.classes, asked.confusion, strict=True)]
        yield f"{result.name}, {QUESTION_TITLES[question]}:"
        yield ""
        yield from grid(["", *(f"said {name}" for name in asked.classes), "no answer"], rows)
        yield ""
