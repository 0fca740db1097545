"""A case for the judge: a history, a candidate's three steps and reply, and the reference reply.

A step that is missing, or that lacks its text or a label, is None. It is never shown and counts as wrong. A reply
without words is never compared and counts as worse.

Cases with the same history are kept together (`split_by_history`, `order_by_history`), because a judge that shares
prefixes then encodes the history once. A case that is too long for its judge loses the oldest turns of the history
first, as few as possible. When the last turn alone does not fit, the longest text is cut in half until it does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer.cer.item import Item, PastTurn
from compeer.dialogue import trim
from compeer.errors import UserError
from compeer.models.request import ModelError
from compeer.reasoning import LABELS, STEPS, Parsed, Reasoning, parse, render, render_step
from compeer.reasoning.ontology import Language
from compeer.reasoning.schema import has_words, label_line
from compeer.typed import from_plain

_SHORTEST = 32  # characters; a text is never cut below this


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is judged. `steps` hold free text and labelled lines, as the contract writes them."""

    id: str
    language: Language
    history: tuple[PastTurn, ...]
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
    """The case of an item's own candidate, as it was labelled."""
    if item.candidate is None:
        raise UserError(f"Item {item.id} has no candidate. `compeer cer reason` or `compeer cer label` adds one.")
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


def case_of_output(item: Item, output: str) -> Case:
    """The case of a model's output for the item's history, parsed strictly."""
    return case_of_parsed(item.id, item.language, item.history, item.reference, parse(output))


def case_of_parsed(name: str, language: Language, history: Sequence[PastTurn], reference: str, parsed: Parsed) -> Case:
    """The case of an output that is already parsed."""
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


def _step(parsed: Parsed, step: str, language: Language) -> str | None:
    """A step as text, or None when anything is wrong with it."""
    if step not in parsed.texts or any(problem.step == step for problem in parsed.problems):
        return None
    spoken = parsed.language or language
    lines = [label_line(label, parsed.labels[label], spoken) for label in LABELS[step] if label in parsed.labels]
    return "\n".join([parsed.texts[step], *lines]) if len(lines) == len(LABELS[step]) else None


@functools.cache
def trial_case(quality: Literal["good", "bad"], language: Language) -> Case:
    """A plainly good or plainly bad case, for loading, probing and checking a judge."""
    told: dict[str, Any] = msgspec.json.decode(Path(__file__).with_name("trial_cases.json").read_bytes())[language]
    written = told[quality]
    output = render(Reasoning.of(written["texts"], written["labels"], language), written["reply"])
    history = from_plain(told["history"], tuple[PastTurn, ...])
    return case_of_parsed(f"{quality}-{language}", language, history, told["reference"], parse(output))


def split_by_history(cases: Sequence[Case], size: int) -> list[range]:
    """Ranges of at most `size` cases, cut where the history changes. A group larger than `size` is cut as well."""
    pieces: list[range] = []
    start = group = 0  # where the piece and the last group in it begin
    for place in range(1, len(cases) + 1):
        ends = place == len(cases)
        if place - start > size:  # this case is one too many: the piece ends before its group, or within it
            cut = group if group > start else place - 1
            pieces.append(range(start, cut))
            start = cut
        if not ends and cases[place].history != cases[place - 1].history:
            group = place
    if start < len(cases):
        pieces.append(range(start, len(cases)))
    return pieces


def order_by_history(cases: Sequence[Case]) -> list[int]:
    """Indices of the cases with equal histories next to each other, in the order of first appearance.

    >>> from compeer.cer.item import PastTurn
    >>> def case(name: str, said: str) -> Case:
    ...     none = (None, None, None)
    ...     history = (PastTurn("seeker", said),)
    ...     return Case(id=name, language="en", history=history, steps=none, reply="", reference="", complete=False)
    >>> order_by_history([case("1", "I am sad."), case("2", "Hello."), case("3", "I am sad.")])
    [0, 2, 1]
    """
    groups: dict[object, list[int]] = {}
    for place, case in enumerate(cases):
        groups.setdefault((case.language, case.history), []).append(place)
    return [place for group in groups.values() for place in group]


def drop_oldest_turns(case: Case, turns: int) -> Case:
    """The case without the oldest turns of its history. The last turn always stays."""
    dropped = max(0, min(turns, len(case.history) - 1))
    return msgspec.structs.replace(case, history=case.history[dropped:], left_out=case.left_out + dropped)


def fit_case(case: Case, length: Callable[[Case], int], limit: int) -> Case:
    """The case, shortened until `length` (tokens of its longest conversation) is at most `limit`."""

    def ending_with(turns: Sequence[PastTurn]) -> Case:
        return drop_oldest_turns(case, len(case.history) - len(turns))

    kept = trim(case.history, lambda turns: length(ending_with(turns)) <= limit, starts=lambda turn: True)
    found = ending_with(kept)
    while len(kept) == 1 and length(found) > limit:
        found = halve(found)
    return found


def halve(case: Case) -> Case:
    """The case with half of its history, or, when that is one turn, with its longest text cut in half."""
    if len(case.history) > 1:
        return drop_oldest_turns(case, len(case.history) // 2)
    texts = [case.reply, case.reference, *(step or "" for step in case.steps), *(turn.text for turn in case.history)]
    longest = max(texts, key=len)
    if len(longest) < 2 * _SHORTEST:
        raise ModelError("The judge's context is too small even for a short case. Increase it, or use another model.")

    def cut(text: str) -> str:
        return text[: len(text) // 2].rstrip() + "…" if text == longest else text

    first, second, third = (None if step is None else cut(step) for step in case.steps)
    return msgspec.structs.replace(
        case,
        reply=cut(case.reply),
        reference=cut(case.reference),
        steps=(first, second, third),
        history=tuple(msgspec.structs.replace(turn, text=cut(turn.text)) for turn in case.history),
    )
