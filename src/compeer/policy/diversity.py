"""How varied a set of texts is: distinct n-grams, self-similarity, labels in use, and novelty across prompts.

Distinct-n is the number of different n-grams over the number of all (Li et al. 2016), over the whole set. It falls
as a set grows, so compare sets of the same size. Words are Latin words and single Chinese characters.

`novelty` is a further part of the reward that is not in the paper. Equation 5 compares a reply with its own group and
its own history, so a policy that tells every seeker the same pleasant sentence once goes unnoticed. Here a word pair
counts 1 / (1 + c), where c is how many replies to *other* prompts of the step use it, and a reply's novelty is the mean
over its pairs. Replies to the same prompt are left out: s_in measures those already.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from compeer.policy.redundancy import Embed, unit_vectors
from compeer.reasoning.ontology import words


def distinct(texts: Sequence[str], n: int) -> float:
    """The share of different n-grams.

    >>> distinct(["so it goes", "so it ends"], 1), distinct(["so it goes", "so it goes"], 2)
    (0.6666666666666666, 0.5)
    """
    grams = [gram for text in texts for gram in ngrams(text, n)]
    return len(set(grams)) / len(grams) if grams else 0.0


def self_similarity(texts: Sequence[str], embed: Embed) -> float:
    """The mean cosine of every pair; 0 for fewer than two texts with words."""
    present = [text for text in texts if text.strip()]
    return mean_likeness([("", likeness(present, embed))]) if len(present) > 1 else 0.0


class Likeness(msgspec.Struct):
    """A sum of unit vectors: enough for the mean cosine of all pairs, and it adds up over processes."""

    count: int
    sum: list[float]


def likeness(texts: Sequence[str], embed: Embed) -> Likeness:
    """The sum of the texts' unit vectors, without empty texts."""
    present = [text for text in texts if text.strip()]
    return Likeness(len(present), unit_vectors(present, embed).sum(axis=0).tolist() if present else [])


def mean_likeness(parts: Iterable[tuple[str, Likeness]]) -> float:
    """The mean cosine of all pairs within each language; languages count by their number of pairs."""
    sums: dict[str, tuple[int, Any]] = {}
    for language, part in parts:
        if part.count:
            count, vector = sums.get(language, (0, 0.0))
            sums[language] = (count + part.count, vector + np.asarray(part.sum))
    pairs = sum(count * (count - 1) for count, _ in sums.values())
    # the square of a sum is the sum over all pairs, with each text's own
    whole = sum(float(np.square(vector).sum()) - count for count, vector in sums.values())
    return whole / pairs if pairs else 0.0


def in_use(labels: Iterable[str]) -> float:
    """The effective number of labels: exp of the entropy of their shares; 0 for no labels.

    >>> in_use(["question", "question", "information", "information"]), in_use(["question"] * 9)
    (2.0, 1.0)
    """
    counts = Counter(labels)
    total = counts.total()
    return math.exp(-sum(count / total * math.log(count / total) for count in counts.values())) if total else 0.0


def ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    """The n-grams of a text in order, letter case aside.

    >>> ngrams("So it goes", 2)
    [('so', 'it'), ('it', 'goes')]
    """
    tokens = words(text.lower())
    return [tuple(tokens[at : at + n]) for at in range(len(tokens) - n + 1)]


Pair = tuple[str, ...]


def novelty(groups: Sequence[Sequence[str]]) -> list[list[float]]:
    """The novelty of every reply, from 0 to 1, group by group. It is 0 for a reply of fewer than two words, and 1
    otherwise if there is only one group.

    >>> novelty([["how are you", "what hurts most"], ["how are things", "tell me"]])
    [[0.75, 1.0], [0.75, 1.0]]
    """
    pairs = [[ngrams(reply, 2) for reply in group] for group in groups]
    own = [Counter(pair for one in group for pair in set(one)) for group in pairs]
    everyone = Counter[Pair]()
    for counts in own:
        everyone.update(counts)
    return [
        [sum(1 / (1 + everyone[pair] - counts[pair]) for pair in one) / max(1, len(one)) for one in group]
        for group, counts in zip(pairs, own, strict=True)
    ]
