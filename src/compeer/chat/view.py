"""How a turn looks in a terminal: quiet chips, the reasoning on request, problems in words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from compeer.chat.wrap import plain
from compeer.reasoning import LABELS, STEPS, Parsed, Problem
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import write_value

#: cells of a line that is pleasant to read, where the terminal is wider
WIDTH = 88

TITLES: dict[Language, dict[str, str]] = {
    "en": {"history": "What they face", "emotion": "What they feel", "strategy": "What would help"},
    "zh": {"history": "面对什么", "emotion": "感受如何", "strategy": "怎样有帮助"},
}


def chips(parsed: Parsed) -> str:
    """The conclusions in one quiet line, in the language of the thinking.

    >>> from compeer.reasoning import parse
    >>> chips(parse("<think>"))
    'no reasoning'
    """
    named = _named(parsed)
    if "emotion" in named and "intensity" in named:
        named["emotion"] += f" {named['intensity']}/5"
    return " · ".join(named[label] for label in ("stage", "emotion", "strategy") if label in named) or "no reasoning"


def steps_view(parsed: Parsed) -> RenderableType:
    """The three steps, read as thinking: title, text, conclusions."""
    named, titles = _named(parsed), TITLES[parsed.language or "en"]
    rows: list[RenderableType] = []
    for number, step in enumerate(STEPS, start=1):
        title = Text(f"{number} {titles[step]}", style="bold")
        title.append("   " + " · ".join(named[label] for label in LABELS[step] if label in named), style="cyan")
        rows.append(title)
        rows.append(_paragraph(parsed.texts.get(step, "")))
        rows.append(Text())
    rows.pop()
    return Group(*rows)


def reasoning_panel(parsed: Parsed, problems: Sequence[Problem] | None = None) -> RenderableType:
    """Everything about one output: the steps, the reply, and what is wrong with it."""
    found = parsed.problems if problems is None else problems
    parts: list[RenderableType] = [
        steps_view(parsed),
        Text(),
        Text("Reply", style="bold"),
        _paragraph(parsed.response),
        Text(),
    ]
    if found:
        parts.append(Text("Not complete:", style="bold red"))
        parts += [Padding(Text(f"- {plain(problem)}"), (0, 0, 0, 2)) for problem in found]
    else:
        parts.append(Text("complete", style="green"))
    return Group(*parts)


def _paragraph(text: str) -> RenderableType:
    return Padding(Text(plain(text) or "(nothing)"), (0, 0, 0, 2))


def _named(parsed: Parsed) -> dict[str, str]:
    """The conclusions as a person of this language names them."""
    language = parsed.language or "en"
    return {label: write_value(label, value, language) for label, value in parsed.labels.items()}
