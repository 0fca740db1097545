"""A report as Markdown: Table 1's columns first, then what lies behind them, then the findings in words.

All shares are in percent, with 95 % intervals in brackets. The paper's own rows come last, in a table of their own.

Table 1 of the paper, as printed (arXiv:2508.09521): percentages on its own held-out set of 574 samples.

That set, its labels and its 7B judges are not ours. These rows stand beside our figures for orientation, in a table
of their own and marked, and are never compared with them by number.

Markdown tables and the numbers in them, the same for the evaluation, the studies and the attack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from compeer.cer.item import QUESTIONS, Question
from compeer.reward.evaluation.measure import Asked, Figure, Result
from compeer.reward.evaluation.report import COLUMNS, Report, Section

NOTE = "from the paper, on its own data (574 samples); not comparable with the figures above"
#: weighted F1 and recall of False for each step, weighted F1 and accuracy for the reply
TABLE_1: dict[str, tuple[float | None, ...]] = {
    "GPT-4o": (46.63, 6.48, 75.53, 4.26, 73.42, 10.91, 47.94, 51.92),
    "InternVL3": (49.87, 2.52, 54.65, 4.00, 53.79, 2.31, 46.32, 51.01),
    "Qwen2.5-VL": (43.23, 2.29, 74.18, 2.21, 71.79, 2.01, 42.19, 47.91),
    "Keye-VL": (48.42, 8.40, 73.16, 18.00, 74.30, 12.50, 47.32, 51.66),
    "MiMo-VL": (47.78, 7.20, 75.11, 9.06, 71.64, 6.14, 48.15, 53.66),
    "PRM": (75.26, 58.46, 78.58, 10.00, 78.77, 29.47, None, None),
    "ORM": (None, None, None, None, None, None, 56.31, 58.71),
    "UnifiReward": (75.34, 58.82, 81.70, 25.00, 79.53, 32.15, 56.88, 59.93),
    "UnifiReward-D": (74.75, 59.25, 81.68, 31.00, 81.35, 41.97, 54.57, 53.49),
    "UnifiReward-R": (71.06, 43.7, 75.93, 3.01, 71.94, 1.79, 56.09, 58.89),
    "UnifiReward-P": (77.12, 67.23, 82.18, 36.04, 81.79, 44.65, 57.03, 61.15),
}


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


def shown(figure: Figure | None, sign: bool = False) -> str:
    """A share in percent with its interval.

    >>> shown(Figure(0.753, 0.7, 0.8)), shown(Figure()), shown(Figure(0.02, -0.01, 0.05), sign=True)
    ('75.3 [70.0, 80.0]', '-', '+2.0 [-1.0, +5.0]')
    """
    return "-" if figure is None else _written(figure, 100.0, "{:+.1f}" if sign else "{:.1f}")


def hundredths(figure: Figure, sign: bool = False) -> str:
    """A number that is no share, such as an area or a reward, with two places.

    >>> hundredths(Figure(0.5)), hundredths(Figure(0.25, 0.125, 0.5), sign=True)
    ('0.50', '+0.25 [+0.12, +0.50]')
    """
    return _written(figure, 1.0, "{:+.2f}" if sign else "{:.2f}")


def percent(value: float | None) -> str:
    """A share in percent, or a dash."""
    return "-" if value is None else f"{100 * value:.1f}"


def _written(figure: Figure, scale: float, form: str) -> str:
    if figure.value is None:
        return "-"
    if figure.low is None or figure.high is None:
        return form.format(scale * figure.value)
    return f"{form} [{form}, {form}]".format(scale * figure.value, scale * figure.low, scale * figure.high)


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
