"""A case that is too long for its judge, made shorter.

The oldest turns of the history go first, as few as will do. When even the last turn alone does not fit, somebody wrote
far more than a conversation holds (a reply without end, a pasted book): the longest text is cut in half until it does.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from compeer.models.request import ModelError
from compeer.reward.case import Case, shortened

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
