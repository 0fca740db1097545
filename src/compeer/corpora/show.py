"""A conversation to read, in the terminal: who says what, with strategies and emotions as quiet labels.

Reasoning is folded to one line unless asked for. Names and labels follow the dialogue's language. The text comes
from outside: it is never taken as rich markup, and control characters, which could move the cursor or recolour
the terminal, are shown as a replacement sign.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from compeer.config import read_yaml
from compeer.dialogue import Dialogue, Speaker, Steps, Utterance
from compeer.reasoning.ontology import EMOTIONS, STRATEGIES, Language

_WORDS: dict[Language, dict[str, str]] = read_yaml(Path(__file__).with_suffix(".yaml"))  # type: ignore[assignment]
_STYLE: dict[Speaker, str] = {"seeker": "bold #B8683F", "supporter": "bold #2F6F6A"}


def conversation(dialogue: Dialogue, *, reasoning: bool = False) -> RenderableType:
    """The dialogue for rich to print; `reasoning` shows the steps."""
    blocks: list[RenderableType] = [_head(dialogue)]
    previous: Speaker | None = None
    for one in dialogue.utterances:
        blocks.append(_said(one, dialogue.language, named=one.speaker != previous, reasoning=reasoning))
        previous = one.speaker
    return Group(*blocks)


def _head(dialogue: Dialogue) -> RenderableType:
    words = _WORDS[dialogue.language]
    head = Text(visible(dialogue.id), style="bold")
    head.append(f"  {visible(dialogue.source)}, {visible(dialogue.licence)}", style="dim")
    for mark, present in (("crisis", dialogue.crisis), ("unhelpful", dialogue.helpful is False)):
        if present:
            head.append(f"  {words[mark]}", style="bold red")
    emotion = None
    if dialogue.emotion:
        strength = f" {dialogue.intensity}/5" if dialogue.intensity else ""
        emotion = EMOTIONS.get(dialogue.emotion).name(dialogue.language) + strength
    for label, value in (("situation", dialogue.situation), ("problem", dialogue.problem), ("emotion", emotion)):
        if value:
            head.append(f"\n{words[label]}: ", style="dim")
            head.append(visible(value))
    return head


def _said(one: Utterance, language: Language, *, named: bool, reasoning: bool) -> RenderableType:
    words = _WORDS[language]
    lines: list[RenderableType] = []
    noted = ((STRATEGIES, one.strategy), (EMOTIONS, one.emotion))
    labels = [vocabulary.get(value).name(language) for vocabulary, value in noted if value]
    if named or labels:
        name = Text(words[one.speaker] if named else "", style=_STYLE[one.speaker])
        if labels:
            name.append(("  " if named else "") + " · ".join(labels), style="dim italic not bold")
        lines.append(name)
    if one.reasoning:
        lines.append(_steps(one.reasoning, words) if reasoning else Text(f"▸ {words['folded']}", style="dim"))
    lines.append(Text(visible(one.text)))
    for label, value in (("seen", one.seen), ("images", ", ".join(one.images))):
        if value:
            lines.append(Text(f"{words[label]}: {visible(value)}", style="dim"))
    return Padding(Group(*lines), (1 if named else 0, 0, 0, 2))


def _steps(steps: Steps, words: dict[str, str]) -> RenderableType:
    text = Text(style="dim")
    for at, label in enumerate(("history", "emotion", "strategy")):
        text.append(("\n" if at else "") + f"▾ {words[label]}: ", style="bold")
        text.append(visible(getattr(steps, label)))
    return Padding(text, (0, 0, 0, 2))


def visible(text: str) -> str:
    r"""Text without characters that control the terminal or change the reading direction.

    >>> visible("a\x1b[31mb\tc")
    'a�[31mb\tc'
    """
    unsafe = {"Cc", "Cs", "Co", "Cn"}
    turns = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    return "".join("�" if c not in "\n\t" and (unicodedata.category(c) in unsafe or c in turns) else c for c in text)
