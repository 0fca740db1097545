"""A case before the judge: a history, the steps and the reply of a candidate, and the reference reply.

A step that is missing, or lacks its text or one of its labels, is None and is never shown: it counts as wrong. A
reply without words is not compared: it counts as worse.

Cases of one history, kept together: a judge that shares prefixes encodes their history once.

A case that is too long for its judge, made shorter.

The oldest turns of the history go first, as few as will do. When even the last turn alone does not fit, somebody wrote
far more than a conversation holds (a reply without end, a pasted book): the longest text is cut in half until it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from compeer.cer.item import Item, Said
from compeer.errors import UserError
from compeer.models.request import ModelError
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


def parted(cases: Sequence[Case], size: int) -> list[range]:
    """Places of the cases in pieces of at most `size`, cut where the history changes; a larger group has to be cut."""
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


def gathered(cases: Sequence[Case]) -> list[int]:
    """Places of the cases, those of one history next to each other, in the order in which each history came first.

    >>> from compeer.cer.item import Said
    >>> def case(name: str, said: str) -> Case:
    ...     none = (None, None, None)
    ...     history = (Said("seeker", said),)
    ...     return Case(id=name, language="en", history=history, steps=none, reply="", reference="", complete=False)
    >>> gathered([case("1", "I am sad."), case("2", "Hello."), case("3", "I am sad.")])
    [0, 2, 1]
    """
    groups: dict[object, list[int]] = {}
    for place, case in enumerate(cases):
        groups.setdefault((case.language, case.history), []).append(place)
    return [place for group in groups.values() for place in group]


_SHORTEST = 32  # characters that are never cut further


def fitted(case: Case, length: Callable[[Case], int], limit: int) -> Case:
    """The case, shortened until `length` (tokens of its longest conversation) is at most `limit`."""
    if length(case) <= limit:
        return case
    fits, too_long = len(case.history) - 1, 0  # turns dropped; what lies between is not known yet
    if fits > 0 and length(shortened(case, fits)) <= limit:
        while fits - too_long > 1:
            middle = (fits + too_long) // 2
            if length(shortened(case, middle)) <= limit:
                fits = middle
            else:
                too_long = middle
        return shortened(case, fits)
    case = shortened(case, len(case.history))
    while length(case) > limit:
        case = shorter(case)
    return case


def shorter(case: Case) -> Case:
    """The case with half of its history; when that is one turn, with the longest of its texts cut to half."""
    if len(case.history) > 1:
        return shortened(case, len(case.history) // 2)
    texts = [case.reply, case.reference, *(step or "" for step in case.steps), *(turn.text for turn in case.history)]
    longest = max(texts, key=len)
    if len(longest) < 2 * _SHORTEST:
        raise ModelError("The judge's context has no room even for a short case. Give it more, or use another model.")

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
