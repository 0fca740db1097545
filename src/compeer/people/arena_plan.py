"""The plan of an arena: which two models on which case, on which sides, in which order, and to whom.

The plan is made once. Every case gets every pair (or every pair with one model, as in the paper), for as many people as
should judge each. Sides: the slots of a pair are shuffled, and every other one has its first model on the left, so over
the whole arena the two counts of a pair differ by at most one, whoever comes and goes. Order: the slots are dealt out
in rounds of one slot per pair, each from another case, so that an arena that is stopped halfway is balanced too.

To whom is decided when somebody asks. Of the next slots in the plan's order they get the one that keeps their own
record most even: cases they have not read, sides on which they have seen each model less, pairs they have had less of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from random import Random

import msgspec

from compeer.errors import UserError

#: how many slots ahead in the plan somebody's next one is looked for, for each pair
WINDOW = 6


class Slot(msgspec.Struct, frozen=True):
    """A place for one vote. `one` and `two` are numbers of models, one < two; `case` the number of a case."""

    case: int
    one: int
    two: int
    place: int
    one_left: bool

    @property
    def left(self) -> int:
        return self.one if self.one_left else self.two

    @property
    def right(self) -> int:
        return self.two if self.one_left else self.one


def pairs_of(models: int, focus: int | None = None) -> list[tuple[int, int]]:
    """All pairs, or those with one model.

    >>> pairs_of(3), pairs_of(3, focus=1)
    ([(0, 1), (0, 2), (1, 2)], [(0, 1), (1, 2)])
    """
    return [pair for pair in combinations(range(models), 2) if focus is None or focus in pair]


def plan(cases: int, models: int, *, votes: int = 1, focus: int | None = None, seed: int = 0) -> list[Slot]:
    """All slots in the order in which they are given out."""
    if models < 2:
        raise UserError("A comparison needs replies of at least two models.")
    if votes < 1:
        raise UserError("Each comparison needs at least one vote.")
    rng, pairs = Random(f"arena {seed}"), pairs_of(models, focus)
    order = list(range(cases))
    rng.shuffle(order)
    dealt: list[list[Slot]] = []
    for number, (one, two) in enumerate(pairs):
        start = number * max(1, cases // len(pairs))  # pairs begin at different cases
        turned = [order[(start + place) % cases] for place in range(cases)]
        places = [(case, place) for place in range(1, votes + 1) for case in turned]
        sides = [bool((place + number) % 2) for place in range(len(places))]
        rng.shuffle(sides)
        given = zip(places, sides, strict=True)
        dealt.append([Slot(case, one, two, place, one_left) for (case, place), one_left in given])
    ordered: list[Slot] = []
    for together in zip(*dealt, strict=True):
        mixed = list(together)
        rng.shuffle(mixed)
        ordered += mixed
    return ordered


class SeenSlots:
    """What a person has compared so far, counted."""

    def __init__(self, had: Iterable[Slot] = ()) -> None:
        self.cases: Counter[int] = Counter()
        self.pairs: Counter[tuple[int, int]] = Counter()
        self.lean: Counter[int] = Counter()  # a model: times on the left less times on the right
        self.tilt: Counter[tuple[int, int]] = Counter()  # a pair: the same of its first model
        for slot in had:
            self.add(slot)

    def add(self, slot: Slot) -> None:
        pair = (slot.one, slot.two)
        self.cases[slot.case] += 1
        self.pairs[pair] += 1
        self.lean[slot.left] += 1
        self.lean[slot.right] -= 1
        self.tilt[pair] += 1 if slot.one_left else -1

    def unevenness(self, slot: Slot) -> int:
        """How uneven it would become with this slot; less is better."""
        pair = (slot.one, slot.two)
        lean = abs(self.lean[slot.left] + 1) + abs(self.lean[slot.right] - 1)
        lean -= abs(self.lean[slot.left]) + abs(self.lean[slot.right])
        tilt = abs(self.tilt[pair] + (1 if slot.one_left else -1)) - abs(self.tilt[pair])
        return 3 * self.cases[slot.case] + 2 * tilt + 2 * lean + self.pairs[pair]


def choose(ahead: Sequence[Slot], had: Iterable[Slot]) -> int:
    """Which of the slots ahead somebody gets who has had those; of equal ones the first."""
    seen = SeenSlots(had)
    return min(range(len(ahead)), key=lambda place: (seen.unevenness(ahead[place]), place))
