"""How a simulated seeker feels: one number, how it moves, and when a conversation is over.

After each reply of the supporter the seeker names a change. It is clipped, added, and the sum is capped at the top
(SAGE has no floor). A conversation ends when the seeker is content, when it is lost, or with a goodbye. Nothing here
asks a model, so training against a seeker and the SAGE evaluation share it.

    SAGE    starts at 40, a change is at most 10 either way, content from 100 on, lost below 10
    RLVER   starts at 30, changes as they come, content from 100 on, lost at 0 or less
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from compeer.errors import UserError

Outcome = Literal["content", "lost"]

#: in Chinese the two words by which SAGE ends a conversation, in English one at either end: people tell of goodbyes
_FAREWELL = re.compile(r"再见|拜拜|^\W*(?:good-?)?bye\b|\b(?:good-?)?bye\W*$", re.IGNORECASE)


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arithmetic. `clip` None takes a change as it comes; `floor` None lets the value fall below 0."""

    start: float = 40.0
    clip: float | None = 10.0
    top: float = 100.0
    floor: float | None = None
    content: float = 100.0  # from here on
    lost: float = 10.0  # below this

    def __post_init__(self) -> None:
        if not self.lost <= self.start < self.content <= self.top:
            raise UserError(
                f"A seeker who starts at {self.start:g} is lost below {self.lost:g} and content from {self.content:g} "
                f"on, at most {self.top:g}; these must not fall in this order."
            )


SAGE = Rules()
RLVER = Rules(start=30.0, clip=None, lost=1.0)  # changes are whole numbers, so below 1 is 0 or less


def moved(value: float, change: float, rules: Rules = SAGE) -> float:
    """The value after a change.

    >>> moved(40, 25), moved(95, 8), moved(12, -30)
    (50.0, 100.0, 2.0)
    """
    if rules.clip is not None:
        change = max(-rules.clip, min(rules.clip, change))
    after = min(rules.top, value + change)
    return float(after if rules.floor is None else max(rules.floor, after))


def course(changes: Iterable[float], rules: Rules = SAGE) -> list[float]:
    """The value after each change, from the start.

    >>> course([-5, 20, 3])
    [35.0, 45.0, 48.0]
    """
    values = [rules.start]
    for change in changes:
        values.append(moved(values[-1], change, rules))
    return values[1:]


def outcome(value: float, rules: Rules = SAGE) -> Outcome | None:
    """Whether this value ends the conversation.

    >>> outcome(100), outcome(55), outcome(9)
    ('content', None, 'lost')
    """
    return "content" if value >= rules.content else "lost" if value < rules.lost else None


def relief(value: float, rules: Rules = SAGE) -> float:
    """What became of the seeker, from -1 (lost) over 0 (as at the start) to 1 (content): the emotion's reward.

    >>> relief(40), relief(70), relief(25), relief(-8)
    (0.0, 0.5, -0.5, -1.0)
    """
    change = value - rules.start
    room = rules.content - rules.start if change > 0 else rules.start - rules.lost
    return max(-1.0, min(1.0, change / room)) if room else (0.0 if change == 0 else -1.0)


def farewell(text: str) -> bool:
    """Whether the seeker says goodbye.

    >>> farewell("Thanks. Bye!"), farewell("I never said goodbye to him."), farewell("好的，拜拜")
    (True, False, True)
    """
    return _FAREWELL.search(text) is not None
