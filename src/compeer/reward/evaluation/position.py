"""Whether the place of a reply sways the judge.

When each pair was shown in both orders: the share of pairs whose verdict changed with the order. In any case the
lean: how much more often the judge said "first" than "second", less what the labels would have said of the same
showings. A judge that does not care for places leans by about 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from compeer.cer.item import Item
from compeer.reward.evaluation.bootstrap import Resamples, interval
from compeer.reward.judge import Judgement
from compeer.reward.verdict import choice_of

_SIDE = {"first": 1.0, "second": -1.0, "both": 0.0, "neither": 0.0}


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """`swayed` is None when only one order was asked; `lean` lies between -1 (second) and 1 (first)."""

    shown: int  # pairs with a verdict
    lean: float | None = None
    lean_low: float | None = None
    lean_high: float | None = None
    swayed: float | None = None
    twice: int = 0  # pairs judged in both orders


def position(items: Sequence[Item], judgements: Mapping[str, Judgement], resamples: Resamples) -> Position:
    """Measure it over the items that have a verdict."""
    leans = np.full(len(items), np.nan)
    swayed = []
    for row, item in enumerate(items):
        judgement = judgements.get(item.id)
        if judgement is None:
            continue
        if judgement.swayed is not None:
            swayed.append(judgement.swayed)
        sides = []
        for pair in judgement.pairs:
            if pair.preference is None:
                continue
            said = _SIDE[choice_of(pair.preference, pair.candidate_first)]
            label = item.labels.preference
            # without a label nothing can be said about which place deserved it; in both orders it cancels out
            due = _SIDE[choice_of(label, pair.candidate_first)] if label else 0.0
            sides.append(said - due)
        if sides:
            leans[row] = sum(sides) / len(sides)
    known = ~np.isnan(leans)
    if not known.any():
        return Position(0)
    bounds = interval(resamples.mean(leans)) or (None, None)
    return Position(
        shown=int(known.sum()),
        lean=float(leans[known].mean()),
        lean_low=bounds[0],
        lean_high=bounds[1],
        swayed=sum(swayed) / len(swayed) if swayed else None,
        twice=len(swayed),
    )
