"""A result of language for a reader: a table of figures with what they mean, and strategies beside people's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compeer.evals.interval import Figure
from compeer.evals.language.measure import NAMES
from compeer.evals.language.strategies import shares, total_variation
from compeer.evals.result import Result

_LANGUAGES = {"en": "English", "zh": "Chinese"}


def markdown(result: Result) -> str:
    """The figures of each language side by side, then the strategies."""
    languages = [one for one in _LANGUAGES if any(figure.name.startswith(f"{one}/") for figure in result.figures)]
    lines = [
        f"{result.model}: {result.setup.get('replies', 0)} replies of {result.setup.get('dialogues', 0)} dialogues",
        "",
        "| figure | " + " | ".join(_LANGUAGES[one] for one in languages) + " | what it is |",
        "|---|" + "---:|" * len(languages) + "---|",
    ]
    for name, meaning in NAMES.items():
        cells = [result.figure(f"{language}/{name}") for language in languages]
        if any(cells):
            lines.append(f"| {name} | " + " | ".join(shown(cell) for cell in cells) + f" | {meaning} |")
    for language, entry in result.setup.get("strategies", {}).items():
        lines += ["", *strategy_table(entry, _LANGUAGES[language])]
    return "\n".join([*lines, "", *(f"- {note}" for note in result.notes)])


def strategy_table(entry: Mapping[str, Any], title: str) -> list[str]:
    """Shares of the eight strategies, model and people, in lines of Markdown."""
    model, people = shares(entry["model"]), shares(entry["people"])
    distance = total_variation(entry["model"], entry["people"])
    rows = [f"| {name} | {model[name]:.1%} | {people[name]:.1%} |" for name in model]
    return [
        f"{title}: stated strategies against {entry['source']}, total variation {distance:.3f}",
        "",
        "| strategy | model | people |",
        "|---|---:|---:|",
        *rows,
    ]


def shown(figure: Figure | None) -> str:
    """A figure with its interval, with as many digits as it deserves.

    >>> shown(Figure("x", 0.51234, 0.4, 0.6)), shown(Figure("x", 23.4)), shown(None)
    ('0.512 [0.400, 0.600]', '23.4', '')
    """
    if figure is None:
        return ""
    digits = 3 if abs(figure.value) < 2 else 1
    if figure.low is None or figure.high is None:
        return f"{figure.value:.{digits}f}"
    return f"{figure.value:.{digits}f} [{figure.low:.{digits}f}, {figure.high:.{digits}f}]"
