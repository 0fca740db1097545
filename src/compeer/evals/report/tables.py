"""Tables as data, for the page, for report.md and for the terminal.

A benchmark that the paper has a table for gets the paper's columns, models in the rows, each language below its model;
ESC-Eval with several judges gets a second table with a column per judge and one for their mean. Every other benchmark
gets its figures in the rows and the models in the columns. A judge and a language stand in front of a column's name:
`Fluency`, `en/Fluency`, `openai:gpt-4o/en/Fluency`, `en/distinct-2`.

The paper's own figures stand in tables of their own, marked, beside ours and never among them.

Two runs on the same cases are compared case by case: cases differ far more than models do, so the mean of the
differences says more than two means with wide intervals. Only comparable runs are paired, and only cases both have.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from compeer.evals.language.measure import shares, total_variation
from compeer.evals.report.gather import ReportRun, RunGroup, title_of
from compeer.evals.result import (
    AVERAGE,
    DIMENSIONS,
    LANGUAGE_NAMES,
    RATING_SCALE,
    Result,
    Transcript,
    averaged,
    meaning,
    rating_judges,
)
from compeer.reward.evaluation.report import grid
from compeer.statistics import Figure, difference_figure
from compeer.typed import from_plain

ESC_COLUMNS: tuple[str, ...] = (*DIMENSIONS.values(), AVERAGE)
SAGE_COLUMNS: tuple[str, ...] = ("Sentient", "Success", "Failure")
_BANDS = "Dialogues by final emotion: S from 100, A from 70, B from 40, C from 10, F below 10."


class FigureName(msgspec.Struct, frozen=True):
    column: str
    judge: str | None = None
    language: str | None = None


def named(name: str) -> FigureName:
    """Take a name apart. What stands before one of the paper's columns, besides a language, is a judge.

    >>> named("openai:org/gpt-4o/zh/Fluency")
    FigureName(column='Fluency', judge='openai:org/gpt-4o', language='zh')
    >>> named("en/distinct-2"), named("adherence/stage").column
    (FigureName(column='distinct-2', judge=None, language='en'), 'adherence/stage')
    """
    front, _, column = name.rpartition("/")
    before, _, last = front.rpartition("/")
    language = last if last in LANGUAGE_NAMES else None
    rest = before if language else front
    if column in (*ESC_COLUMNS, *SAGE_COLUMNS):
        return FigureName(column, rest or None, language)
    return FigureName(f"{rest}/{column}" if rest else column, None, language)


def figure_words(name: str) -> str:
    """A figure's or a score's name as a person reads it.

    >>> figure_words("zh/similarity-within"), figure_words("adherence/stage"), figure_words("third_person")
    ('similarity-within (Chinese)', 'adherence: stage', 'third person')
    >>> figure_words("openai:org/gpt-4o/en/Fluency"), figure_words("hf:rank/fluency")
    ('Fluency (English), openai:org/gpt-4o', 'Fluency, hf:rank')
    """
    front, _, last = name.rpartition("/")
    if front and last in DIMENSIONS:  # a rating of one dialogue
        return f"{DIMENSIONS[last]}, {front}"
    place = named(name)
    words = place.column.replace("_", " ").replace("/", ": ")
    language = f" ({LANGUAGE_NAMES[place.language]})" if place.language else ""
    return f"{words}{language}" + (f", {place.judge}" if place.judge else "")


def columns_of(benchmark: str) -> tuple[str, ...]:
    """The paper's columns of a benchmark; none where the paper has no table."""
    return {"esc-eval": ESC_COLUMNS, "sage": SAGE_COLUMNS}.get(benchmark, ())


NOT_THE_MEAN = "printed so; not the mean of its seven columns"


class PaperTable(msgspec.Struct, frozen=True):
    """A table as printed: each row is a model, how it was prompted, and a number for each column."""

    title: str
    how: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]


@cache
def paper_table(benchmark: str) -> PaperTable | None:
    """The paper's table for a benchmark, or None."""
    tables = msgspec.json.decode(Path(__file__).with_name("paper.json").read_bytes())
    return from_plain(tables[benchmark], PaperTable) if benchmark in ("esc-eval", "sage") else None


def odd_average(row: tuple[str | float, ...]) -> float | None:
    """The mean of the seven columns where the printed Average is another number; else None.

    >>> odd_average(("COMPEER-URP", "", 85.66, 76.92, 88.15, 76.51, 87.53, 88.92, 74.51, 82.39))
    82.6
    """
    *seven, printed = (float(value) for value in row[2:])
    mean = round(sum(seven) / len(seven), 2)
    return mean if len(seven) == 7 and abs(mean - printed) > 0.005 else None


_MOST = 3  # runs of which every two are compared; of more, each with the first
_FEWEST = 6  # cases in common; with five, even five differences of one sign are no evidence at 95 %


class PairedRuns(msgspec.Struct, frozen=True):
    """`first` minus `second`, the run named later minus the one before; a figure's n is the cases both have."""

    first: ReportRun
    second: ReportRun
    differences: tuple[Figure, ...]

    @property
    def cases(self) -> int:
        return max((figure.n for figure in self.differences), default=0)


def paired(group: RunGroup) -> list[PairedRuns]:
    runs = group.runs
    couples: Iterable[tuple[ReportRun, ReportRun]]
    if len(runs) <= _MOST:
        couples = [(later, one) for at, one in enumerate(runs) for later in runs[at + 1 :]]
    else:
        couples = [(other, runs[0]) for other in runs[1:]]
    made = [PairedRuns(one, two, differences(one, two)) for one, two in couples]
    return [pair for pair in made if pair.differences]


def differences(first: ReportRun, second: ReportRun) -> tuple[Figure, ...]:
    """The mean difference of every value that both runs have for the same cases."""
    one, two = (
        {sample.id: case_values(run.result.benchmark, sample) for sample in run.transcripts} for run in (first, second)
    )
    groups = {sample.id: sample.group or sample.id for sample in first.transcripts}
    both = [case for case in one if case in two]
    found = []
    for name in dict.fromkeys(name for case in both for name in one[case]):
        cases = [case for case in both if name in one[case] and name in two[case]]
        if len(cases) >= _FEWEST:
            ours, theirs = ([side[case][name] for case in cases] for side in (one, two))
            found.append(difference_figure(name, ours, theirs, [groups[case] for case in cases]))
    return tuple(found)


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
    row = averaged(sample, rating_judges([sample]))
    values = {DIMENSIONS[key]: RATING_SCALE * value for key, value in row.items() if value is not None}
    if len(values) == len(DIMENSIONS):
        values[AVERAGE] = sum(values.values()) / len(values)
    return values


#: the score of a single dialogue, where one number on one scale stands for it
_CASE_SCORES = {"sage": "Sentient", "reward": "reward", "control": "adherence", "safety": "met"}


def case_score(benchmark: str, sample: Transcript) -> tuple[str, float] | None:
    """The number by which dialogues are listed and sorted, with its name; None where there is none.

    Values on different scales are never averaged: a reward of 5 with five parts of 1 is 5. ESC-Eval's ratings share
    one scale, so their mean stands for the dialogue; any other benchmark must have a single score.
    """
    if benchmark == "esc-eval":
        given = [value for value in sample.scores.values() if value is not None]
        return ("mean rating, 0 to 4", sum(given) / len(given)) if given else None
    values = case_values(benchmark, sample)
    name = _CASE_SCORES.get(benchmark) or (next(iter(values)) if len(values) == 1 else "")
    return (name, values[name]) if name in values else None


class TableRow(msgspec.Struct, frozen=True):
    """A row: its name, a quieter word beside it, and its cells. `series` is the model's colour."""

    name: str
    beside: str
    cells: tuple[Figure | None, ...]
    series: int | None = None
    marks: dict[int, str] = {}  # cell -> a remark about it


class ReportTable(msgspec.Struct, frozen=True):
    """A table; `paper` marks figures that are not ours, `signed` those that are differences."""

    title: str
    first: str  # what the rows are
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()
    paper: bool = False
    signed: bool = False
    marked: bool = True  # whether differences beyond chance are in bold

    def sure(self, figure: Figure) -> bool:
        """Whether a difference is marked: its interval excludes 0."""
        return self.signed and self.marked and figure.differs_from(0)

    @property
    def narrow(self) -> bool:
        """Whether two of its kind fit beside each other."""
        return (len(self.columns) <= 3 and self.first != "figure") or self.signed


def group_tables(group: RunGroup) -> list[ReportTable]:
    if group.benchmark == "sage":
        rest = _by_figure(group, "Bands, and turns of the seeker", _BANDS)
        return [_paper_columns(group), *([rest] if rest.rows else [])]
    if group.benchmark == "esc-eval":
        return [_paper_columns(group), *_by_judge(group)]
    return [_by_figure(group, _title(group), *_notes(group))]


def paper_columns(benchmark: str) -> ReportTable | None:
    """The paper's table, as printed."""
    printed = paper_table(benchmark)
    if printed is None:
        return None
    rows = []
    for row in printed.rows:
        cells = tuple(Figure(name, float(value)) for name, value in zip(printed.columns, row[2:], strict=True))
        mean = odd_average(row)
        marks = {len(cells) - 1: f"{NOT_THE_MEAN}, which is {mean:.2f}"} if mean is not None else {}
        rows.append(TableRow(str(row[0]), str(row[1]), cells, marks=marks))
    how = f"As printed in arXiv:2508.09521: {printed.how}. Not measured by us and not comparable with ours."
    return ReportTable(f"{printed.title}, for orientation", "model", printed.columns, tuple(rows), (how,), paper=True)


def pair_table(pair: PairedRuns) -> ReportTable:
    rows = tuple(TableRow(figure_words(figure.name), f"{figure.n} cases", (figure,)) for figure in pair.differences)
    title = f"{pair.first.label} minus {pair.second.label}"
    chance = pair.first.result.differences_are_chance or pair.second.result.differences_are_chance
    note = (
        "These runs are too small to tell a difference from chance, so nothing is marked."
        if chance
        else "An interval that does not contain 0 is marked in bold."
    )
    columns = ("mean difference, case by case",)
    return ReportTable(title, "figure", columns, rows, (note,), signed=True, marked=not chance)


def value_text(figure: Figure, *, signed: bool = False) -> str:
    """The figure itself; a whole number without an interval is a count.

    >>> value_text(Figure("Success", 7.0, n=100)), value_text(Figure("adherence", 0.98, 0.9, 1.0))
    ('7', '0.980')
    >>> value_text(Figure("echo", -0.0004, -0.1, 0.1), signed=True)
    '+0.000'
    """
    value = figure.value or 0.0
    if figure.low is None and value == int(value) and not signed:
        return f"{value:.0f}"
    return _number(value, figure, signed)


def span(figure: Figure, *, signed: bool = False) -> str:
    """The interval, or nothing.

    >>> span(Figure("x", 0.5, 0.4, 0.6)), span(Figure("x", -5.0, -9.0, -1.0), signed=True), span(Figure("x", 7.0))
    ('0.400 to 0.600', '-9.00 to -1.00', '')
    """
    if figure.low is None or figure.high is None:
        return ""
    return f"{_number(figure.low, figure, signed)} to {_number(figure.high, figure, signed)}"


def _number(value: float, figure: Figure, signed: bool) -> str:
    """Three digits for a figure that lives between -1 and 1 with its interval, else two."""
    most = max(abs(one) for one in (figure.value, figure.low, figure.high) if one is not None)
    digits = 3 if most <= 1 else 2
    return f"{round(value, digits) + 0.0:{'+' if signed else ''}.{digits}f}"  # never "-0.00"


def _paper_columns(group: RunGroup) -> ReportTable:
    columns = columns_of(group.benchmark)
    rows = []
    for run in group.runs:
        found = {(place.column, place.language): figure for figure, place in _places(run) if place.judge is None}
        for language in (None, *LANGUAGE_NAMES):
            cells = tuple(found.get((column, language)) for column in columns)
            if any(cells):
                beside = LANGUAGE_NAMES[language] if language else _cases(run)
                rows.append(TableRow(run.label if language is None else "", beside, cells, run.colour))
    return ReportTable(_title(group), "model", columns, tuple(rows), _notes(group))


def _by_judge(group: RunGroup) -> list[ReportTable]:
    """Dimensions in the rows; for each run a column for each judge and one for their mean."""
    judges = list(dict.fromkeys(place.judge for run in group.runs for _, place in _places(run) if place.judge))
    if not judges:
        return []
    tables = []
    for run in group.runs:
        found = {(place.column, place.judge): figure for figure, place in _places(run) if place.language is None}
        heads: tuple[str | None, ...] = (*judges, None)
        rows = tuple(
            TableRow(column, "", tuple(found.get((column, judge)) for judge in heads))
            for column in columns_of("esc-eval")
        )
        columns = (*judges, "mean of judges")
        tables.append(ReportTable(f"{run.label}, judge by judge", "dimension", columns, rows))
    return tables


def _by_figure(group: RunGroup, title: str, *notes: str) -> ReportTable:
    """Figures in the rows, a column for each run; where figures carry a language, one for each of both.

    The paper's columns are left out: they have a table of their own.
    """
    known = columns_of(group.benchmark)
    placed = [(figure, place, run) for run in group.runs for figure, place in _places(run) if place.column not in known]
    languages = list(dict.fromkeys(place.language for _, place, _ in placed))
    found = {(place.column, run.number, place.language): figure for figure, place, run in placed}
    heads = [(run, language) for run in group.runs for language in languages]
    rows = tuple(
        TableRow(
            figure_words(name),
            meaning(group.benchmark, name),
            tuple(found.get((name, run.number, language)) for run, language in heads),
        )
        for name in dict.fromkeys(name for name, _, _ in found)
    )
    columns = tuple(f"{run.label}, {LANGUAGE_NAMES[language]}" if language else run.label for run, language in heads)
    return ReportTable(title, "figure", columns, rows, notes)


def _places(run: ReportRun) -> list[tuple[Figure, FigureName]]:
    return [(figure, named(figure.name)) for figure in run.result.figures]


def _cases(run: ReportRun) -> str:
    count = max((figure.n for figure in run.result.figures), default=0)
    return f"{count} {'case' if count == 1 else 'cases'}" if count else ""


def _title(group: RunGroup) -> str:
    """What makes the runs of a group comparable, in one line."""
    told = [f"{name} {value}" for name, value in group.comparable.items()]
    return "; ".join(told) or "conditions not stated"


def _notes(group: RunGroup) -> tuple[str, ...]:
    several = len(group.runs) > 1
    found = [(run, note) for run in group.runs for note in run.result.notes]
    everyone = [set(run.result.notes) for run in group.runs]
    shared = [note for note in dict.fromkeys(note for _, note in found) if all(note in own for own in everyone)]
    own = [f"{run.label}: {note}" if several else note for run, note in found if note not in shared]
    return (*shared, *own)


def result_markdown(result: Result) -> str:
    """One result for the terminal: its figures, each language in a column, stated strategies, the notes."""
    placed = [(figure, place) for figure in result.figures if not (place := named(figure.name)).judge]
    languages = list(dict.fromkeys(place.language for _, place in placed))
    found = {(place.column, place.language): figure for figure, place in placed}
    rows = []
    for column in dict.fromkeys(place.column for _, place in placed):
        cells = [found.get((column, language)) for language in languages]
        count = ", ".join(f"{cell.n:,}" for cell in cells if cell)
        values = [cell.text(3 if abs(cell.value or 0) < 2 else 2) if cell else "" for cell in cells]
        rows.append([column, *values, count, meaning(result.benchmark, column)])
    heads = [LANGUAGE_NAMES[language] if language else "value" for language in languages]
    lines = [f"{result.model}: {title_of(result.benchmark)}", "", *grid(["figure", *heads, "n", "what it is"], rows)]
    for language, entry in result.setup.get("strategies", {}).items():
        model, people = shares(entry["model"]), shares(entry["people"])
        distance = total_variation(entry["model"], entry["people"])
        against = f"stated strategies against {entry['source']}, total variation {distance:.3f}"
        both = [[name, f"{model[name]:.1%}", f"{people[name]:.1%}"] for name in model]
        lines += ["", f"{LANGUAGE_NAMES[language]}: {against}", "", *grid(["strategy", "model", "people"], both)]
    return "\n".join([*lines, "", *(f"- {note}" for note in result.notes)]).rstrip()


def cell_text(figure: Figure | None, table: ReportTable) -> str:
    if figure is None:
        return ""
    value, between = value_text(figure, signed=table.signed), span(figure, signed=table.signed)
    if table.sure(figure):
        value = f"**{value}**"
    return f"{value} [{between}]" if between else value


def plain_text(text: str) -> str:
    """Text that cannot break a table or become markup.

    >>> plain_text("a|b <i>")
    'a\\\\|b &lt;i>'
    """
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
