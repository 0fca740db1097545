"""How a run was made, as rows of words: simulator, judge, prompts, seed, versions, counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: shown elsewhere in the report, as tables and drawings
_ELSEWHERE = ("strategies", "agreement")


def setup_rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, words) for each setting that says something.

    >>> setup_rows({"seed": 7, "counts": {"calls": 1200}, "judge": None, "grammar": True})
    [('seed', '7'), ('counts', 'calls 1,200'), ('grammar', 'yes')]
    """
    return [(name, words(value)) for name, value in values.items() if name not in _ELSEWHERE and words(value)]


def words(value: Any) -> str:
    """A setting's value as a person reads it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 1000 else str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {words(inner)}" for name, inner in value.items() if words(inner))
    if isinstance(value, list | tuple):
        return ", ".join(words(inner) for inner in value)
    return str(value)
