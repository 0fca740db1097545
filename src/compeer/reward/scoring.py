"""Verdicts to a number: the paper's three criteria.

+1 for each correct reasoning step and -1 for each incorrect one; +1 when the candidate matches or outperforms
the reference, else -1; +1 when the format is complete, else -1. The sum lies between -5 and 5.

A step that is missing, or that the judge did not answer, counts as incorrect: what was not shown to be right
earns nothing. The same holds for a preference that is not known.
"""

from __future__ import annotations

from collections.abc import Sequence

from compeer.cer.item import Preference
from compeer.errors import UserError

#: the preferences in which the candidate matches or outperforms the reference
GOOD: tuple[Preference, ...] = ("candidate", "both")
BAD: tuple[Preference, ...] = ("reference", "neither")


def total(steps: Sequence[bool | None], preference: str | None, complete: bool) -> int:
    """The reward of one output.

    >>> total([True, True, True], "candidate", True), total([None, None, None], None, False)
    (5, -5)
    >>> total([True, False, True], "both", True)
    3
    """
    if len(steps) != 3:
        raise UserError(f"A reasoning has three steps; {len(steps)} verdicts were given.")
    if preference not in (None, *GOOD, *BAD):
        raise UserError(f"{preference!r} is no preference; it is one of {', '.join(GOOD + BAD)} or None.")
    signs = [step is True for step in steps] + [preference in GOOD, complete]
    return sum(1 if good else -1 for good in signs)
