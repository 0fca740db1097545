"""results.json as tables of docs/performance.md, between marks; what stands outside of them is written by hand.

    <!-- benchmarks: results -->
    (made by `python -m benchmarks table`)
    <!-- end -->

A benchmark that failed or was never run stands in the table with the reason; nothing is left out in silence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.catalogue import CATALOGUE
from benchmarks.machine import ROOT
from benchmarks.measure import Ratio
from benchmarks.results import Entry

PAGE = ROOT / "docs" / "performance.md"


def write(entries: Mapping[str, Entry], page: Path = PAGE) -> bool:
    """Put the tables in their places; True when the page has changed."""
    before = page.read_text(encoding="utf-8")
    after = filled(before, entries)
    if after != before:
        page.write_text(after, encoding="utf-8")
    return after != before


def filled(text: str, entries: Mapping[str, Entry]) -> str:
    """The page with its tables made anew. A page without the marks is refused: nothing would be written."""
    for name, made in (("results", results(entries)), ("compared", compared())):
        marked = re.compile(rf"(<!-- benchmarks: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if len(marked.findall(text)) != 1:
            raise ValueError(
                f"the page must have the mark <!-- benchmarks: {name} --> once, with <!-- end --> after it"
            )
        text = marked.sub(lambda found, made=made: f"{found[1]}{made}\n{found[2]}", text)  # type: ignore[misc]
    return text


def results(entries: Mapping[str, Entry]) -> str:
    """Every ratio, then when and where each benchmark was run."""
    lines = [
        "| benchmark | what | ours | against | theirs | ratio | wanted | held |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for benchmark in CATALOGUE:
        lines += [f"| {benchmark.title} | {' | '.join(cells)} |" for cells in _rows(entries.get(benchmark.name))]
    known = [(benchmark, entries[benchmark.name]) for benchmark in CATALOGUE if benchmark.name in entries]
    if known:
        machines = sorted({str(entry.machine) for _, entry in known})
        lines += ["", f"Machine: {'; '.join(machines)}.", ""]
        lines += ["| benchmark | measured (UTC) | revision | took | load before |", "|---|---|---|---|---|"]
        for benchmark, entry in known:
            lines.append(
                f"| `{benchmark.name}` | {entry.measured} | {entry.revision} | {entry.seconds:.0f} s | {entry.load:g} |"
            )
    return "\n".join(lines)


def compared() -> str:
    """What each benchmark holds against what, from the catalogue."""
    lines = ["| `python -m benchmarks …` | ours | theirs | wanted | minutes |", "|---|---|---|---|---|"]
    for one in CATALOGUE:
        lines.append(f"| `{one.name}` | {one.ours} | {one.theirs} | {one.wanted} | {one.minutes:g} |")
    return "\n".join(lines)


def _rows(entry: Entry | None) -> Iterator[tuple[str, ...]]:
    if entry is None:
        yield ("not measured yet", "", "", "", "", "", "")
        return
    if entry.failed:
        yield (f"could not be measured: {_cell(entry.failed)}", "", "", "", "", "", "")
        return
    for ratio in entry.ratios:
        yield cells(ratio)
    for missing in entry.missing:
        yield (_cell(missing.what), "", _cell(missing.against), "", f"not compared: {_cell(missing.reason)}", "", "")


def cells(ratio: Ratio) -> tuple[str, ...]:
    """A ratio in words.

    >>> cells(Ratio(what="a step", ours=33.14, theirs=58.6, against="TRL", unit="s", wanted=0.7, at_least=False))
    ('a step', '33.1 s', 'TRL', '58.6 s', '0.57', 'at most 0.7', 'yes')
    """
    wanted = "" if ratio.wanted is None else f"at {'least' if ratio.at_least else 'most'} {ratio.wanted:g}"
    held = {None: "", True: "yes", False: "**no**"}[ratio.held]
    ours, theirs = f"{_number(ratio.ours)} {ratio.unit}", f"{_number(ratio.theirs)} {ratio.unit}"
    return _cell(ratio.what), ours, _cell(ratio.against), theirs, _number(ratio.ratio, 2), wanted, held


def _number(value: float, digits: int = 3) -> str:
    """Three figures that matter, thousands with a comma; a ratio of some thousandths is not 0.00.

    >>> _number(1816.9), _number(0.0412), _number(0.568, 2), _number(0.00006, 2)
    ('1,817', '0.0412', '0.57', '0.00006')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if digits == 2 and abs(value) >= 0.1:
        return f"{value:.2f}"
    return f"{value:.{digits}g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.5f}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
