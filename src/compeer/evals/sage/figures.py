"""SAGE's numbers: Sentient is the mean final mood, Success how many reached the top, Failure how many fell below 10.

A failure keeps its value in the mean; it is not set to zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from compeer.evals.interval import Figure, mean_figure
from compeer.evals.sage.machine import SAGE, band
from compeer.policy.talk.emotion import outcome


def figures(final: Sequence[int], turns: Sequence[int] = ()) -> tuple[Figure, ...]:
    """The table's columns first, then the bands and the mean length."""
    ends = Counter(outcome(mood, SAGE.rules) for mood in final)
    bands = Counter(band(mood) for mood in final)
    count = len(final)
    return (
        mean_figure("Sentient", final),
        Figure("Success", ends["content"], n=count),
        Figure("Failure", ends["lost"], n=count),
        *(Figure(f"band {letter}", bands[letter], n=count) for letter in "SABCF"),
        *((mean_figure("turns", turns),) if turns else ()),
    )
