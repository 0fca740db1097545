"""A case before the judge: a history, the steps and the reply of a candidate, and the reference reply.

A step that is missing, or lacks its text or one of its labels, is None and is never shown: it counts as wrong. A
reply without words is not compared: it counts as worse.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from compeer.cer.item import Item, Said
from compeer.errors import UserError
from compeer.reasoning import LABELS, STEPS, Parsed, parse, render_step
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import COLON, KEYS, has_words, write_value


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is to be judged. `steps` are free text with labelled lines, as the contract writes them."""

    id: str
    language: Language
    history: tuple[Said, ...]
    steps: tuple[str | None, str | None, str | None]
    reply: str
    reference: str
    complete: bool
    left_out: int = 0  # turns of the history that were dropped to fit a model

    @property
    def comparable(self) -> bool:
        """Whether there are two replies to compare."""
        return has_words(self.reply) and has_words(self.reference)


def case_of(item: Item) -> Case:
    """The item's own candidate, as it was labelled."""
    if item.candidate is None:
        raise UserError(f"Item {item.id} has no candidate; compeer cer reason or label gives it one.")
    if item.candidate.reasoning is None:
        return case_of_output(item, item.candidate.raw or item.candidate.response)
    reasoning = item.candidate.reasoning
    first, second, third = (render_step(reasoning, step) for step in STEPS)
    return Case(
        id=item.id,
        language=item.language,
        history=item.history,
        steps=(first, second, third),
        reply=item.candidate.response,
        reference=item.reference,
        complete=True,
    )


def case_of_output(item: Item, output: str, name: str | None = None) -> Case:
    """What a model wrote for the item's history, read strictly."""
    return case_of_parsed(name or item.id, item.language, item.history, item.reference, parse(output))


def case_of_parsed(name: str, language: Language, history: Sequence[Said], reference: str, parsed: Parsed) -> Case:
    """The case of an output that has been parsed already."""
    first, second, third = (_step(parsed, step, language) for step in STEPS)
    return Case(
        id=name,
        language=language,
        history=tuple(history),
        steps=(first, second, third),
        reply=parsed.response,
        reference=reference,
        complete=parsed.complete,
    )


def shortened(case: Case, turns: int) -> Case:
    """The case without the oldest turns of its history; the last one stays."""
    dropped = max(0, min(turns, len(case.history) - 1))
    return msgspec.structs.replace(case, history=case.history[dropped:], left_out=case.left_out + dropped)


def _step(parsed: Parsed, step: str, language: Language) -> str | None:
    """A step as it stands, when nothing is wrong with it."""
    if step not in parsed.texts or any(problem.step == step for problem in parsed.problems):
        return None
    spoken = parsed.language or language
    lines = [
        KEYS[label][spoken] + COLON[spoken] + write_value(label, parsed.labels[label], spoken)
        for label in LABELS[step]
        if label in parsed.labels
    ]
    return "\n".join([parsed.texts[step], *lines]) if len(lines) == len(LABELS[step]) else None
