"""Markdown tables and the numbers in them, the same for the evaluation, the studies and the attack."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compeer.reward.evaluation.measure import Figure


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
