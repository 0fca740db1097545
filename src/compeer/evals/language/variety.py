"""How varied a set of replies is: distinct-n, and likeness of replies of different dialogues, with intervals.

Both are figures of the whole set, and drawing dialogues with replacement would spoil them: a dialogue drawn twice
repeats itself word for word, and every draw would look less varied than the set it comes from. So the interval is
the jackknife's: the figure again without each dialogue in turn. Both can be had without computing anything anew,
since leaving out a dialogue loses exactly the n-grams that occur nowhere else, and the pairs it takes part in.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from compeer.evals.interval import Figure
from compeer.policy.diversity import distinct, ngrams

Floats = npt.NDArray[np.float64]
_FEWEST = 5  # dialogues, below which leaving one out tells nothing


def distinct_figure(name: str, texts: Sequence[str], dialogues: Sequence[str], n: int) -> Figure:
    """Distinct-n of all texts together (`policy.diversity.distinct`), with its interval over dialogues."""
    value = distinct(texts, n)
    within: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for text, dialogue in zip(texts, dialogues, strict=True):
        within[dialogue].update(ngrams(text, n))
    homes = Counter(gram for counted in within.values() for gram in counted)
    whole = sum(counted.total() for counted in within.values())
    without = []
    for counted in within.values():
        rest = whole - counted.total()
        alone = sum(homes[gram] == 1 for gram in counted)
        without.append((len(homes) - alone) / rest if rest else math.nan)
    return jackknife_figure(name, value, np.array(without), len(texts), top=1.0)


def across_figure(name: str, vectors: Any, dialogues: Sequence[str]) -> Figure:
    """The mean cosine of every two replies of *different* dialogues; `vectors` are rows of any length."""
    rows: Floats = np.asarray(vectors, dtype=np.float64)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    names, places = np.unique(np.asarray(dialogues, dtype=object).astype(str), return_inverse=True)
    if len(names) < 2:
        return Figure(name, math.nan)
    sums = np.zeros((len(names), rows.shape[1]))
    np.add.at(sums, places, rows)
    sizes = np.bincount(places).astype(np.float64)
    own = np.square(sums).sum(axis=1)
    total = sums.sum(axis=0)
    between = float(np.square(total).sum() - own.sum())  # ordered pairs of different dialogues
    pairs = float(sizes.sum() ** 2 - np.square(sizes).sum())
    # without dialogue d its pairs with all the others are gone, twice over
    lost = 2 * (sums @ total - own)
    fewer = 2 * sizes * (sizes.sum() - sizes)
    with np.errstate(divide="ignore", invalid="ignore"):
        without = (between - lost) / (pairs - fewer)
    return jackknife_figure(name, between / pairs, without, len(rows), bottom=-1.0, top=1.0)


def jackknife_figure(
    name: str, value: float, without: Floats, n: int, bottom: float = 0.0, top: float = math.inf
) -> Figure:
    """A figure whose interval comes from its values without each dialogue in turn.

    >>> jackknife_figure("x", 0.5, np.full(5, 0.5), 7)
    Figure(name='x', value=0.5, low=0.5, high=0.5, n=7)
    """
    known = without[np.isfinite(without)]
    if len(known) < _FEWEST:
        return Figure(name, value, n=n)
    error = math.sqrt((len(known) - 1) / len(known) * float(np.square(known - known.mean()).sum()))
    return Figure(name, value, max(bottom, value - 1.96 * error), min(top, value + 1.96 * error), n)
