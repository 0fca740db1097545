"""How a turn looks in a terminal: quiet chips, the reasoning on request, problems in words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from compeer.reasoning import LABELS, STEPS, Parsed, Problem

TITLES = {"history": "What they face", "emotion": "What they feel", "strategy": "What would help"}


def chips(parsed: Parsed) -> str:
    """The conclusions in one quiet line.

    >>> from compeer.reasoning import parse
    >>> chips(parse("<think>"))
    'no reasoning'
    """
    labels = parsed.labels
    shown = [str(labels["stage"])] if "stage" in labels else []
    if "emotion" in labels:
        shown.append(f"{labels['emotion']} {labels['intensity']}/5" if "intensity" in labels else str(labels["emotion"]))
    if "strategy" in labels:
        shown.append(str(labels["strategy"]))
    return " · ".join(shown) or "no reasoning"


def steps_view(parsed: Parsed) -> RenderableType:
    """The three steps, read as thinking: title, text, conclusions."""
    rows: list[RenderableType] = []
    for number, step in enumerate(STEPS, start=1):
        conclusions = [str(parsed.labels[label]) for label in LABELS[step] if label in parsed.labels]
        title = Text(f"{number} {TITLES[step]}", style="bold")
        title.append("   " + " · ".join(conclusions), style="cyan")
        rows.append(title)
        rows.append(Padding(Text(parsed.texts.get(step, "(nothing)")), (0, 0, 1, 2)))
    return Group(*rows)


def reasoning_panel(parsed: Parsed, problems: Sequence[Problem] | None = None) -> RenderableType:
    """Everything about one output: the steps, the reply, and what is wrong with it."""
    found = parsed.problems if problems is None else problems
    parts: list[RenderableType] = [steps_view(parsed), Text("Reply", style="bold")]
    parts.append(Padding(Text(parsed.response or "(nothing)"), (0, 0, 1, 2)))
    if found:
        parts.append(Text("Not complete:", style="bold red"))
        parts += [Padding(Text(f"- {problem}"), (0, 0, 0, 2)) for problem in found]
    else:
        parts.append(Text("complete", style="green"))
    return Group(*parts)
