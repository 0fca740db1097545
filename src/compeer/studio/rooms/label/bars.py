"""Shares as stretches of a bar, in percent; drawn as SVG, since no style may stand in a page."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Stretch(msgspec.Struct, frozen=True):
    """One part of a bar: its kind, how many, where it begins and how wide it is."""

    kind: str
    count: int
    start: float
    width: float


def stretches(counts: Iterable[tuple[str, int]]) -> list[Stretch]:
    """Parts that fill a bar of 100, none where there is nothing.

    >>> [(one.kind, one.start, one.width) for one in stretches([("agreed", 3), ("open", 1)])]
    [('agreed', 0.0, 75.0), ('open', 75.0, 25.0)]
    """
    given = list(counts)
    total = sum(count for _, count in given)
    found, start = [], 0.0
    for kind, count in given:
        width = 100 * count / total if total else 0.0
        found.append(Stretch(kind, count, round(start, 3), round(width, 3)))
        start += width
    return found
