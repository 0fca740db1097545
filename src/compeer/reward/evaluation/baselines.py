"""Judges that read nothing: what a real one has to beat.

`always_true` calls every step True and every pair almost good: the judge that pays everyone the full reward.
`majority` says the commonest label of each question, of the labels it is given; with the labels of the test set
itself it is the best that can be had without reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from compeer.cer.item import Item, Preference
from compeer.reasoning import STEPS
from compeer.reward.judge import Judgement, PairVerdict, StepVerdict
from compeer.reward.verdict import PREFERENCES


def always_true(items: Iterable[Item]) -> dict[str, Judgement]:
    """Every step True, every reply as good as the reference."""
    yes = StepVerdict(True)
    return {item.id: constant(item.id, (yes, yes, yes), "both") for item in items}


def majority(items: Iterable[Item], labelled: Sequence[Item]) -> dict[str, Judgement]:
    """The commonest label of `labelled`, for every item; a tie goes to True, and to the first preference."""
    first, second, third = (_commonest(labelled, step) for step in STEPS)
    votes = Counter(item.labels.preference for item in labelled if item.labels.preference is not None)
    choice = max(PREFERENCES, key=lambda name: votes[name])
    return {item.id: constant(item.id, (first, second, third), choice) for item in items}


def constant(name: str, steps: tuple[StepVerdict, StepVerdict, StepVerdict], choice: Preference) -> Judgement:
    """A judgement that is the same for everything."""
    return Judgement(id=name, complete=True, steps=steps, pairs=(PairVerdict(True, choice),))


def _commonest(labelled: Sequence[Item], step: str) -> StepVerdict:
    votes = Counter(getattr(item.labels, step) for item in labelled)
    return StepVerdict(votes[True] >= votes[False])
