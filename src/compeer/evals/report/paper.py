"""The paper's own figures. They stand in tables of their own, marked, beside ours and never among them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from compeer.typed import from_plain

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
