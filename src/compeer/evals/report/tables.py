"""Tables as data, the same for the page and for Markdown.

A benchmark that the paper has a table for gets the paper's columns, models in the rows, each language below its
model; ESC-Eval with several judges gets a second table with a column for each judge and one for their mean. Every
other benchmark gets its figures in the rows and the models in the columns.

What figures are called: the paper's columns, whose judge, which language; and what other figures mean.

A judge and a language stand in front of a column: `Fluency`, `en/Fluency`, `openai:gpt-4o/en/Fluency`,
`en/distinct-2`.

The paper's own figures. They stand in tables of their own, marked, beside ours and never among them.

Two runs on the same cases, case by case: the mean difference with its interval.

Cases differ far more than models do, so the difference of each case says more than two means with wide intervals.
Only runs that may be compared are paired, and only cases that both have.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from compeer.evals.control.run import meaning as control_meaning
from compeer.evals.esc_eval.card import AVERAGE, DIMENSIONS, SCALE
from compeer.evals.esc_eval.scores import averaged
from compeer.evals.language.measure import NAMES
from compeer.evals.report.gather import Group, Run
from compeer.evals.result import Transcript
from compeer.evals.safety.table import MEANINGS as SAFETY
from compeer.reasoning.ontology import STRATEGIES
from compeer.statistics import Figure, mean_figure
from compeer.typed import from_plain

ESC_COLUMNS: tuple[str, ...] = (*DIMENSIONS.values(), AVERAGE)
SAGE_COLUMNS: tuple[str, ...] = ("Sentient", "Success", "Failure")
LANGUAGES = {"en": "English", "zh": "Chinese"}
REWARD = {
    "reward": "three steps, preference and format, -5 to 5",
    "history": "share of outputs whose first step is right",
    "emotion": "share of outputs whose second step is right",
    "strategy": "share of outputs whose third step is right",
    "preference": "share of replies at least as good as the reference",
    "complete": "share of outputs in the form of the contract, without a grammar",
}


class Named(msgspec.Struct, frozen=True):
    """A figure's name, taken apart."""

    column: str
    judge: str | None = None
    language: str | None = None


def named(name: str) -> Named:
    """Take a name apart. What stands before one of the paper's columns, besides a language, is a judge.

    >>> named("openai:org/gpt-4o/zh/Fluency")
    Named(column='Fluency', judge='openai:org/gpt-4o', language='zh')
    >>> named("en/distinct-2"), named("adherence/stage").column
    (Named(column='distinct-2', judge=None, language='en'), 'adherence/stage')
    """
    front, _, column = name.rpartition("/")
    before, _, last = front.rpartition("/")
    language = last if last in LANGUAGES else None
    rest = before if language else front
    if column in (*ESC_COLUMNS, *SAGE_COLUMNS):
        return Named(column, rest or None, language)
    return Named(f"{rest}/{column}" if rest else column, None, language)


def columns_of(benchmark: str) -> tuple[str, ...]:
    """The paper's columns of a benchmark; none where the paper has no table."""
    return {"esc-eval": ESC_COLUMNS, "sage": SAGE_COLUMNS}.get(benchmark, ())


def meaning_of(benchmark: str, name: str) -> str:
    """What a figure is, in a few words; empty where its name says it all."""
    if benchmark == "diversity":
        return NAMES.get(named(name).column, "")
    if benchmark == "safety":
        return SAFETY.get(name, "")
    if benchmark == "reward":
        return REWARD.get(name, "")
    return control_meaning(name) if benchmark == "control" else ""


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
