"""Tables as data, the same for the page and for Markdown.

A benchmark that the paper has a table for gets the paper's columns, models in the rows, each language below its
model; ESC-Eval with several judges gets a second table with a column for each judge and one for their mean. Every
other benchmark gets its figures in the rows and the models in the columns.
"""

from __future__ import annotations

import msgspec

from compeer.evals.interval import Figure
from compeer.evals.report.gather import Group, Run
from compeer.evals.report.names import LANGUAGES, Named, columns_of, meaning_of, named
from compeer.evals.report.pairs import Paired
from compeer.evals.report.paper import NOT_THE_MEAN, odd_average, paper_table
from compeer.reasoning.ontology import STRATEGIES


class Row(msgspec.Struct, frozen=True):
    """A row: its name, a quieter word beside it, and its cells. `series` is the model's colour."""

    name: str
    beside: str
    cells: tuple[Figure | None, ...]
    series: int | None = None
    marks: dict[int, str] = {}  # cell -> a remark about it


class Table(msgspec.Struct, frozen=True):
    """A table; `paper` marks figures that are not ours, `signed` those that are differences."""

    title: str
    first: str  # what the rows are
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    paper: bool = False
    signed: bool = False

    @property
    def narrow(self) -> bool:
        """Whether two of its kind fit beside each other."""
        return (len(self.columns) <= 3 and self.first != "figure") or self.signed


def group_tables(group: Group) -> list[Table]:
    """The tables of one group of comparable runs."""
    if group.benchmark == "sage":
        return [_paper_columns(group), *_rest(group)]
    if group.benchmark == "esc-eval":
        return [_paper_columns(group), *_by_judge(group)]
    return [_by_figure(group)]


def paper_columns(benchmark: str) -> Table | None:
    """The paper's table, as printed."""
    printed = paper_table(benchmark)
    if printed is None:
        return None
    rows = []
    for row in printed.rows:
        cells = tuple(Figure(name, float(value)) for name, value in zip(printed.columns, row[2:], strict=True))
        mean = odd_average(row)
        marks = {len(cells) - 1: f"{NOT_THE_MEAN}, which is {mean:.2f}"} if mean is not None else {}
        rows.append(Row(str(row[0]), str(row[1]), cells, marks=marks))
    how = f"As printed in arXiv:2508.09521: {printed.how}. Not measured by us and not comparable with ours."
    return Table(f"{printed.title}, for orientation", "model", printed.columns, tuple(rows), (how,), paper=True)


def confusion_table(title: str, confusion: dict[str, dict[str, int]]) -> Table:
    """Stated strategies in the rows, those that were read out of the replies in the columns."""
    columns = tuple(name for name in STRATEGIES.ids if any(name in read for read in confusion.values()))
    rows = tuple(
        Row(stated, "", tuple(Figure(name, confusion[stated].get(name, 0)) for name in columns))
        for stated in STRATEGIES.ids
        if stated in confusion
    )
    return Table(title, "stated", columns, rows, ("How many replies that state a strategy were read as which.",))


def pair_table(pair: Paired) -> Table:
    """The differences of two runs in one table."""
    rows = tuple(Row(figure.name, f"{figure.n} cases", (figure,)) for figure in pair.differences)
    title = f"{pair.first.label} minus {pair.second.label}"
    note = "An interval that does not contain 0 is marked in bold."
    return Table(title, "figure", ("mean difference, case by case",), rows, (note,), signed=True)


def sure(figure: Figure) -> bool:
    """Whether a difference's interval leaves out 0.

    >>> sure(Figure("x", 2.0, 1.0, 3.0)), sure(Figure("x", 2.0, -1.0, 5.0)), sure(Figure("x", 2.0))
    (True, False, False)
    """
    return figure.low is not None and figure.high is not None and (figure.low > 0 or figure.high < 0)


def value_text(figure: Figure, *, signed: bool = False) -> str:
    """The figure itself; a whole number without an interval is a count.

    >>> value_text(Figure("Success", 7.0, n=100)), value_text(Figure("adherence", 0.98, 0.9, 1.0))
    ('7', '0.980')
    """
    if figure.low is None and figure.value == int(figure.value) and not signed:
        return f"{figure.value:.0f}"
    return _number(figure.value, figure, signed)


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
    return f"{value:{'+' if signed else ''}.{3 if most <= 1 else 2}f}"


def _paper_columns(group: Group) -> Table:
    columns = columns_of(group.benchmark)
    rows = []
    for run in group.runs:
        found = {(place.column, place.language): figure for figure, place in _places(run) if place.judge is None}
        for language in (None, *LANGUAGES):
            cells = tuple(found.get((column, language)) for column in columns)
            if any(cells):
                beside = LANGUAGES[language] if language else _cases(run)
                rows.append(Row(run.label if language is None else "", beside, cells, run.colour))
    return Table(_title(group), "model", columns, tuple(rows), _notes(group))


def _rest(group: Group) -> list[Table]:
    """What SAGE tells beside the paper's columns: bands and lengths."""
    known = columns_of(group.benchmark)
    names = list(dict.fromkeys(f.name for run in group.runs for f in run.result.figures if f.name not in known))
    if not names:
        return []
    rows = tuple(Row(run.label, "", tuple(run.result.figure(name) for name in names), run.colour) for run in group.runs)
    bands = ("Dialogues by final emotion: S from 100, A from 70, B from 40, C from 10, F below 10.",)
    columns = tuple(name.removeprefix("band ") for name in names)
    return [Table("Bands, and turns of the seeker", "model", columns, rows, bands)]


def _by_judge(group: Group) -> list[Table]:
    """Dimensions in the rows; for each run a column for each judge and one for their mean."""
    judges = list(dict.fromkeys(place.judge for run in group.runs for _, place in _places(run) if place.judge))
    if not judges:
        return []
    tables = []
    for run in group.runs:
        found = {(place.column, place.judge): figure for figure, place in _places(run) if place.language is None}
        heads: tuple[str | None, ...] = (*judges, None)
        rows = tuple(
            Row(column, "", tuple(found.get((column, judge)) for judge in heads)) for column in columns_of("esc-eval")
        )
        columns = (*judges, "mean of judges")
        tables.append(Table(f"{run.label}, judge by judge", "dimension", columns, rows))
    return tables


def _by_figure(group: Group) -> Table:
    """Figures in the rows, a column for each run; where figures carry a language, one for each of both."""
    languages = list(dict.fromkeys(place.language for run in group.runs for _, place in _places(run)))
    found = {(place.column, run.number, place.language): f for run in group.runs for f, place in _places(run)}
    heads = [(run, language) for run in group.runs for language in languages]
    rows = tuple(
        Row(
            name,
            meaning_of(group.benchmark, name),
            tuple(found.get((name, run.number, language)) for run, language in heads),
        )
        for name in dict.fromkeys(name for name, _, _ in found)
    )
    columns = tuple(f"{run.label}, {LANGUAGES[language]}" if language else run.label for run, language in heads)
    return Table(_title(group), "figure", columns, rows, _notes(group))


def _places(run: Run) -> list[tuple[Figure, Named]]:
    return [(figure, named(figure.name)) for figure in run.result.figures]


def _cases(run: Run) -> str:
    count = max((figure.n for figure in run.result.figures), default=0)
    return f"{count} cases" if count else ""


def _title(group: Group) -> str:
    """What makes the runs of a group comparable, in one line."""
    told = [f"{name} {value}" for name, value in group.comparable.items()]
    return "; ".join(told) or "conditions not stated"


def _notes(group: Group) -> tuple[str, ...]:
    several = len(group.runs) > 1
    found = [(run, note) for run in group.runs for note in run.result.notes]
    everyone = [set(run.result.notes) for run in group.runs]
    shared = [note for note in dict.fromkeys(note for _, note in found) if all(note in own for own in everyone)]
    own = [f"{run.label}: {note}" if several else note for run, note in found if note not in shared]
    return (*shared, *own)
