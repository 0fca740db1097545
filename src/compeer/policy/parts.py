"""Further parts of the reward, by name, for whoever wants more than the paper's five.

A part reads what was written and gives a number from -1 to 1; it enters the sum with its own weight, which is 0
unless a config says otherwise. The paper's open question on Information is why `density` is here. `novelty` needs more
than one output to be told, so it is worked out for a whole step at once (novelty.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from compeer.reasoning.language import words
from compeer.reward.case import Case

Part = Callable[[Case], float]

_EMPTY_ENGLISH = (
    "a an and are as at be but for i if in is it its me my of on or so that the this to was we with you your"
)
_EMPTY = frozenset(words(_EMPTY_ENGLISH)) | frozenset("的了是在我你他她它们和就都而也不着吗呢吧啊")


def density(case: Case) -> float:
    """The share of the reply's words that carry content and are not said twice, from -1 to 1."""
    said = [word.lower() for word in words(case.reply)]
    return 2 * len(set(said) - _EMPTY) / len(said) - 1 if said else -1.0


def moderate_length(case: Case, among: tuple[int, int] | None = None) -> float:
    """1 for a reply of as many words (Chinese: characters) as `among` says, falling smoothly outside of that.

    Without `among` it is 8 to 80 words, or 12 to 120 characters.
    """
    low, high = among or ((8, 80) if case.language == "en" else (12, 120))
    length = max(1, len(words(case.reply)))
    off = max(0.0, math.log(low / length), math.log(length / high))
    return 2 * math.exp(-off) - 1 if words(case.reply) else -1.0


FURTHER = ("density", "length", "novelty")


def further(among: tuple[int, int] | None = None) -> dict[str, Part]:
    """The further parts that one output is enough for, by name; `among` are the lengths that are moderate."""
    return {"density": density, "length": partial(moderate_length, among=among)}
