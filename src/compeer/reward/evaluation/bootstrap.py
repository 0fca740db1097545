"""Intervals by resampling dialogues.

Items of one dialogue are alike: the same person, the same trouble, often the same judge's mistake. Resampling items
would take them for independent and give intervals that are too narrow, so whole dialogues are drawn, with
replacement, as many as there are.

A draw is a row of weights, how often each dialogue was taken. All rounds are measured together: counts are summed
within each dialogue once, and a matrix product gives the tables of all rounds. Judges measured with the same
resamples are compared pair by pair, round by round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from compeer.reward.evaluation.metrics import Codes, Floats, quotient

ROUNDS = 1000
LEVEL = 0.95
_AT_ONCE = 4_000_000  # pairs that are held in memory at a time


class Resamples:
    """The same draws for everything that is measured on one set of items."""

    def __init__(self, dialogues: Sequence[str], rounds: int = ROUNDS, seed: int = 0) -> None:
        names, places = np.unique(np.asarray(dialogues, dtype=object).astype(str), return_inverse=True)
        self.places: Codes = places.astype(np.int64)  # of each item, the number of its dialogue
        self.dialogues = len(names)
        rng = np.random.default_rng(seed)
        shares = np.full(self.dialogues, 1 / max(1, self.dialogues))
        drawn = rng.multinomial(self.dialogues, shares, size=rounds) if self.dialogues else np.zeros((rounds, 0))
        self.weights: Floats = drawn.astype(np.float64)  # (rounds, dialogues)

    def tables(self, truth: Codes, told: Codes, classes: int, chosen: npt.NDArray[np.bool_] | None = None) -> Floats:
        """The count table of every round, (rounds, classes, classes + 1), over the chosen items."""
        kept = np.ones(len(truth), dtype=bool) if chosen is None else chosen
        width = classes + 1
        cells = truth[kept] * width + np.where(told[kept] < 0, classes, told[kept])
        places = self.places[kept] * (classes * width) + cells
        sums = np.bincount(places, minlength=self.dialogues * classes * width)
        return (self.weights @ sums.reshape(self.dialogues, -1).astype(np.float64)).reshape(-1, classes, width)

    def mean(self, values: Floats) -> Floats:
        """The mean of one value an item, in every round; NaN values are left out."""
        known = ~np.isnan(values)
        sums = np.bincount(self.places[known], weights=values[known], minlength=self.dialogues)
        counts = np.bincount(self.places[known], minlength=self.dialogues)
        return quotient(self.weights @ sums, self.weights @ counts)

    def sums(self, values: Floats, chosen: npt.NDArray[np.bool_]) -> Floats:
        """Sums of the chosen items' values, an array each, in every round."""
        within = np.zeros((self.dialogues, *values.shape[1:]))
        np.add.at(within, self.places[chosen], values)
        return np.tensordot(self.weights, within, axes=1)

    def auc(self, positive: npt.NDArray[np.bool_], score: Floats, chosen: npt.NDArray[np.bool_]) -> Floats:
        """The area under the ROC curve of the chosen items, in every round.

        The area is a share of pairs (a positive and a negative item) that are in order. How many there are between
        any two dialogues is counted once; a round weighs that table by how often it has drawn each of the two.
        """
        places = self.places[chosen]
        up, down = np.nonzero(positive)[0], np.nonzero(~positive)[0]
        if not len(up) or not len(down):
            return np.full(len(self.weights), np.nan)
        down = down[np.argsort(places[down], kind="stable")]
        others, starts, sizes = np.unique(places[down], return_index=True, return_counts=True)
        won = np.zeros((self.dialogues, len(others)))
        step = max(1, _AT_ONCE // len(down))
        for some in (up[start : start + step] for start in range(0, len(up), step)):
            above, low = score[some, None], score[None, down]
            ordered = (above > low) + 0.5 * (above == low)
            np.add.at(won, places[some], np.add.reduceat(ordered, starts, axis=1))
        theirs = self.weights[:, others]
        drawn = self.weights @ np.bincount(places[up], minlength=self.dialogues)
        return quotient(((self.weights @ won) * theirs).sum(axis=1), drawn * (theirs @ sizes))


def interval(draws: Floats, level: float = LEVEL) -> tuple[float, float] | None:
    """The middle 95 % of the rounds in which the figure exists; none when it does in fewer than half of them.

    >>> interval(np.arange(41.0), level=0.5)
    (10.0, 30.0)
    """
    known = draws[~np.isnan(draws)]
    if len(known) == 0 or len(known) < len(draws) / 2:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
