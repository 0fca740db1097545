"""One item as the labelling page shows it: turns with their pictures, questions with their options and keys.

A third person is asked only what is disputed; the other steps are there to be read, without anything to press.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from compeer.annotation.queue import Work
from compeer.cer.item import QUESTIONS, Question, Said
from compeer.reward.verdict import CHOICES

#: what a form sends for True and False
STEP_VALUES = {"true": True, "false": False}


class Shown(msgspec.Struct, frozen=True):
    """One turn; pictures by their number in the item."""

    speaker: str
    text: str
    pictures: tuple[int, ...]


class Option(msgspec.Struct, frozen=True):
    key: int
    value: str
    chosen: bool


class Asked(msgspec.Struct, frozen=True):
    """One question. `text` is the step to judge; for the replies they stand in the task."""

    question: Question
    number: int
    text: str | None
    options: tuple[Option, ...]


class Sheet(msgspec.Struct, frozen=True):
    """Everything on the page that comes from the item."""

    work: Work
    turns: list[Shown]
    asked: list[Asked]
    others: dict[str, str]  # steps that are not asked


def sheet(work: Work) -> Sheet:
    task = work.task
    steps = task.reasoning or {}
    asked = [
        Asked(question, number, steps.get(question), _options(question, work.draft.answers.get(question)))
        for number, question in enumerate((one for one in QUESTIONS if one in task.questions), start=1)
    ]
    others = {step: text for step, text in steps.items() if step not in task.questions}
    return Sheet(work, turns(task.history), asked, others)


def turns(history: Sequence[Said]) -> list[Shown]:
    """The conversation, with pictures counted through."""
    shown, next_picture = [], 0
    for turn in history:
        numbers = tuple(range(next_picture, next_picture + len(turn.images)))
        next_picture += len(turn.images)
        shown.append(Shown(turn.speaker, turn.text, numbers))
    return shown


def _options(question: Question, given: Any) -> tuple[Option, ...]:
    if question == "preference":
        return tuple(Option(key, choice, given == choice) for key, choice in enumerate(CHOICES, start=1))
    steps = enumerate(STEP_VALUES.items(), start=1)
    return tuple(Option(key, name, given is value) for key, (name, value) in steps)
