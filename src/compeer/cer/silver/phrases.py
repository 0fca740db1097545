"""Sentences from patterns: `[this|that|]` is a choice, `{name}` a slot, and both may stand inside a choice.

    "[So|Right,] {fact}[, and that is what the rest hangs on|]."

A pattern whose slots are not all there is passed over, so a bank can hold patterns for every occasion. Choices
are made before slots are filled: brackets in what a seeker wrote mean nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random

from compeer.cer.silver.own_words import lower_first

_SLOT = re.compile(r"\{(\w+)\}")
_GAP = re.compile(r" (?=[.,;:!?])")  # where a choice was empty
_CHOICE = re.compile(r"\[([^\[\]]*)\]")

Slots = Mapping[str, str]


def say(bank: Sequence[str], rng: Random, slots: Slots) -> str | None:
    """One sentence of the bank, or None where no pattern finds all its slots.

    `{Name}` is `{name}` with a capital.

    >>> say(["[Yes|No], {fact}.", "{missing}"], Random(1), {"fact": "they left"})
    'Yes, they left.'
    """
    left = list(bank)
    while left:
        chosen = _GAP.sub("", " ".join(_choose(left.pop(rng.randrange(len(left))), rng).split()))
        if all(_value(name, slots) for name in _SLOT.findall(chosen)):
            filled = _SLOT.sub(lambda found: _value(found.group(1), slots) or "", chosen)
            return _tidy(filled)
    return None


def _choose(pattern: str, rng: Random) -> str:
    while found := _CHOICE.search(pattern):  # innermost first
        pattern = pattern[: found.start()] + rng.choice(found.group(1).split("|")) + pattern[found.end() :]
    return pattern


def _value(name: str, slots: Slots) -> str | None:
    if name in slots:
        return slots[name]
    plain = slots.get(lower_first(name))
    return capital(plain) if plain else None


def capital(text: str) -> str:
    """The first letter large, also behind an opening quotation mark.

    >>> capital("they left"), capital('"i left"')
    ('They left', '"i left"')
    """
    return text[:1].upper() + text[1:]


def _tidy(text: str) -> str:
    """No stop behind another, a capital in front; what is quoted stays as it was."""
    one_stop = re.sub(r"([?!][\"”])[.,;。，；]|([?!])\.$", r"\1\2", text.strip())
    return capital(one_stop)
