"""report.md: the same tables and sentences as the page, without drawings and dialogues."""

from __future__ import annotations

from compeer.evals.report.gather import TITLES, Gathered, caveats, setup_rows
from compeer.evals.report.tables import Table, group_tables, pair_table, paired, paper_columns, span, sure, value_text
from compeer.statistics import Figure


def markdown(gathered: Gathered, title: str) -> str:
    """The report as text."""
    lines = [f"# {_plain(title)}", ""]
    for benchmark in gathered.benchmarks:
        lines += [f"## {TITLES.get(benchmark, benchmark)}", ""]
        groups = gathered.of(benchmark)
        for group in groups:
            if group.apart:
                lines += [f"{_plain(group.apart)} The two do not share a column.", ""]
            first, *others = group_tables(group)
            lines += [_plain(first.title), "", *_table(first)]
            if group is groups[0] and (paper := paper_columns(benchmark)):
                lines += _titled(paper)
            for table in (*others, *(pair_table(pair) for pair in paired(group))):
                lines += _titled(table)
    lines += ["## How it was run", ""]
    for run in gathered.runs:
        settings = [*setup_rows(run.result.comparable), *setup_rows(run.result.setup)]
        told = "; ".join(f"{name}: {text}" for name, text in settings)
        lines.append(
            f"- **{_plain(run.label)}**, {TITLES.get(run.result.benchmark, run.result.benchmark)}: {_plain(told)}"
        )
    lines += ["", "## What to keep in mind", "", *(f"- {text}" for text in caveats(gathered)), ""]
    return "\n".join(lines)


def _titled(table: Table) -> list[str]:
    return [f"### {'The paper: ' if table.paper else ''}{_plain(table.title)}", "", *_table(table)]


def _table(table: Table) -> list[str]:
    lines = [
        "| " + " | ".join(_plain(name) for name in (table.first, *table.columns)) + " |",
        "|---|" + "---:|" * len(table.columns),
    ]
    for row in table.rows:
        name = ", ".join(part for part in (row.name, row.beside) if part)
        cells = [_cell(figure, table.signed) + (" †" if at in row.marks else "") for at, figure in enumerate(row.cells)]
        lines.append(f"| {_plain(name)} | " + " | ".join(cells) + " |")
    marks = dict.fromkeys(f"† {row.name}: {remark}." for row in table.rows for remark in row.marks.values())
    return [*lines, "", *(line for note in (*table.notes, *marks) for line in (_plain(note), ""))]


def _cell(figure: Figure | None, signed: bool) -> str:
    if figure is None:
        return ""
    value, between = value_text(figure, signed=signed), span(figure, signed=signed)
    if signed and sure(figure):
        value = f"**{value}**"
    return f"{value} [{between}]" if between else value


def _plain(text: str) -> str:
    """Text that cannot break a table or become markup.

    >>> _plain("a|b <i>")
    'a\\\\|b &lt;i>'
    """
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
