"""One item as the labelling page shows it: turns with their pictures, questions with their options.

A third person is asked only what is disputed; the other steps are there to be read, without anything to press.
"""

from __future__ import annotations

from typing import Any

import msgspec

from compeer.annotation.queue import Work
from compeer.cer.item import QUESTIONS, Question
from compeer.reward.verdict import CHOICES
from compeer.studio.rooms.workplace.talk import Shown, turns

#: what a form sends for True and False
STEP_VALUES = {"true": True, "false": False}


class Asked(msgspec.Struct, frozen=True):
    """One question. `text` is the step to judge; for the replies they stand in the task."""

    question: Question
    number: int
    text: str | None
    options: tuple[str, ...]
    chosen: str | None  # what was answered before


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
        Asked(question, number, steps.get(question), *_options(question, work.draft.answers.get(question)))
        for number, question in enumerate((one for one in QUESTIONS if one in task.questions), start=1)
    ]
    others = {step: text for step, text in steps.items() if step not in task.questions}
    return Sheet(work, turns(task.history), asked, others)


def _options(question: Question, given: Any) -> tuple[tuple[str, ...], str | None]:
    """What can be answered, and which of it was, as a form sends it."""
    if question == "preference":
        return CHOICES, given
    return tuple(STEP_VALUES), next((name for name, value in STEP_VALUES.items() if given is value), None)
