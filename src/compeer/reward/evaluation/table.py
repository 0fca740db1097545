"""A report as Markdown: Table 1's columns first, then what lies behind them, then the findings in words.

All shares are in percent, with 95 % intervals in brackets. The paper's own rows come last, in a table of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compeer.cer.item import QUESTIONS, Question
from compeer.reward.evaluation.grid import grid, hundredths, percent, shown
from compeer.reward.evaluation.measure import Asked, Figure, Result
from compeer.reward.evaluation.paper import NOTE, TABLE_1
from compeer.reward.evaluation.report import COLUMNS, Report, Section

_HEAD = (
    "judge",
    *(f"Step {number} {name}" for number in (1, 2, 3) for name in ("weighted F1", "recall of False")),
    "Response weighted F1",
    "Response accuracy",
)
TITLES: dict[Question, str] = {
    "history": "Step 1, history",
    "emotion": "Step 2, emotion",
    "strategy": "Step 3, strategy",
    "preference": "Response",
}


def markdown(report: Report, *, brief: bool = False) -> str:
    """The report as text; `brief`: the columns of Table 1 and the findings alone."""
    lines = ["# Evaluation of the judge", "", _note(report), ""]
    for section in report.sections:
        lines += [*_opening(section), *([] if brief else _details(section)), ""]
    for matrix in report.matrices:
        rows = [[name, *map(percent, row)] for name, row in zip(matrix.judges, matrix.values, strict=True)]
        lines += [f"## {matrix.title}, judge by set", "", *grid(["judge", *matrix.sets], rows), ""]
    return "\n".join(lines + paper_table()).rstrip() + "\n"


def paper_table() -> list[str]:
    """Table 1 as printed in the paper."""
    rows = [
        [f"{name} (paper)", *("-" if value is None else f"{value:.2f}" for value in values)]
        for name, values in TABLE_1.items()
    ]
    return [f"## For orientation: {NOTE}", "", *grid(_HEAD, rows), ""]


def _note(report: Report) -> str:
    counts = report.unlabelled.items()
    left = "".join(f" {count:,} items of {name} have no labels and take no part." for name, count in counts)
    return (
        "Percent. A verdict that did not come counts as wrong; a dash stands where a judge is not asked or a class "
        f"does not occur. Brackets: {report.level:.0%} intervals from {report.rounds:,} resamples of whole dialogues. "
        f"Labels of different origin are never pooled.{left}"
    )


def _opening(section: Section) -> Iterator[str]:
    yield f"## {section.set}: {section.heading}"
    yield ""
    yield f"{section.items:,} items of {section.dialogues:,} dialogues."
    yield ""
    yield from grid(_HEAD, _rows(section.results))
    yield from ("", "### What stands out", "")
    findings = [f"- **{found.judge}, {found.code.replace('-', ' ')}.** {found.text}" for found in section.signatures]
    yield from findings or ["Nothing."]


def _details(section: Section) -> Iterator[str]:
    if section.differences:
        yield from ("", "### Differences, in percentage points", "")
        rows = [
            [f"{entry.judge} less {entry.other}", *(shown(figure, sign=True) for figure in entry.figures)]
            for entry in section.differences
        ]
        yield from grid(_HEAD, rows)
    yield from ("", "### Probabilities and silence", "")
    yield from grid(("judge", "question", "AUC", "ECE", "Brier", "with p", "no answer"), _probable(section.results))
    if places := [_place(result) for result in section.results if result.position and result.role == "judge"]:
        yield from ("", "### The place of the reply", "")
        yield from grid(("judge", "lean to the first", "changed with the order", "pairs in both orders"), places)
    yield from _parts(section.results)
    yield from ("", "### Confusion", "")
    for result in section.results:
        if result.role != "baseline":
            yield from _confusions(result)


def _rows(results: Sequence[Result]) -> list[list[str]]:
    """A row a judge; the best of each column among judges and probes in bold."""
    values = [[_figure(result, *column) for column in COLUMNS] for result in results]
    rows = [[result.name, *map(shown, row)] for result, row in zip(results, values, strict=True)]
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


def _probable(results: Sequence[Result]) -> Iterator[list[str]]:
    for result in results:
        for question, asked in result.questions.items():
            if result.role == "baseline":
                continue
            figures = [hundredths(asked.figures[name]) for name in ("auc", "ece", "brier")]
            yield [result.name, TITLES[question], *figures, f"{asked.scored:,}", f"{asked.unanswered:,}"]


def _place(result: Result) -> list[str]:
    place = result.position
    assert place is not None
    lean = hundredths(Figure(place.lean, place.lean_low, place.lean_high), sign=True)
    return [result.name, lean, "-" if place.swayed is None else f"{place.swayed:.1%}", f"{place.twice:,}"]


def _parts(results: Sequence[Result]) -> Iterator[str]:
    for title, field in (("language", "by_language"), ("source", "by_source")):
        rows = [
            [result.name, part, f"{max(asked.items for asked in questions.values()):,}", *_columns(questions)]
            for result in results
            if result.role != "baseline"
            for part, questions in getattr(result, field).items()
        ]
        if rows:
            yield from ("", f"### By {title}", "")
            yield from grid(("judge", title, "items", *_HEAD[1:]), rows)


def _columns(questions: dict[Question, Asked]) -> list[str]:
    return [shown(questions[name].figures.get(figure)) if name in questions else "-" for name, figure in COLUMNS]


def _confusions(result: Result) -> Iterator[str]:
    for question in QUESTIONS:
        if question not in result.questions:
            continue
        asked = result.questions[question]
        rows = [[f"is {name}", *map(str, row)] for name, row in zip(asked.classes, asked.confusion, strict=True)]
        yield f"{result.name}, {TITLES[question]}:"
        yield ""
        yield from grid(["", *(f"said {name}" for name in asked.classes), "no answer"], rows)
        yield ""


def _figure(result: Result, question: Question, name: str) -> Figure | None:
    return result.questions[question].figures.get(name) if question in result.questions else None
