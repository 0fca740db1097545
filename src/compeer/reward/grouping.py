"""Cases of one history, kept together: a judge that shares prefixes encodes their history once."""

from __future__ import annotations

from collections.abc import Sequence

from compeer.reward.case import Case


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
