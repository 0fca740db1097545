"""A few fixed answers as a tree of tokens, and how likely each is.

    True.  False.                  two branches at the root
    The first …  The second …      "The" is common, the next token tells them apart
    The two …  Neither …

Only where answers part has a model a choice among them: at each branching point its logits are normalised over the
tokens that lead on to some answer, and an answer's probability is the product along its way. This is what decoding
under a grammar would draw, without drawing; the probabilities of all answers add up to one. Whatever lies between the
branching points costs nothing but the encoding of the tokens that lead to a deeper one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

Path = tuple[int, ...]
K = TypeVar("K", bound=Hashable)


class Trie(Generic[K]):
    """Answers as paths of tokens. No path may be the beginning of another one.

    >>> trie = Trie({"first": (4, 1, 9), "second": (4, 2, 9), "neither": (5, 9)})
    >>> trie.branches
    {(): (4, 5), (4,): (1, 2)}
    >>> trie.ways
    ((4,),)
    """

    def __init__(self, paths: Mapping[K, Path]) -> None:
        self.paths = dict(paths)
        following: dict[Path, dict[int, None]] = {}
        for path in self.paths.values():
            for at, token in enumerate(path):
                following.setdefault(path[:at], {})[token] = None
        if len(set(self.paths.values())) < len(self.paths) or any(path in following for path in self.paths.values()):
            raise ValueError("an answer that is the beginning of another one, or the same, cannot be told from it")
        #: each branching point (the tokens that lead to it) with the tokens it chooses among
        self.branches: dict[Path, tuple[int, ...]] = {
            point: tuple(tokens) for point, tokens in following.items() if len(tokens) > 1
        }
        #: the ways that pass every branching point: the first one is enough unless the tree has several deep branches
        self.ways: tuple[Path, ...] = tuple(
            point
            for point in self.branches
            if not any(other != point and other[: len(point)] == point for other in self.branches)
        ) or ((),)

    def probabilities(self, logits: Callable[[Path], Sequence[float]]) -> dict[K, float]:
        """The probability of each answer; `logits(point)` are those of the tokens in `branches[point]`.

        >>> trie = Trie({"yes": (1,), "no": (2,)})
        >>> trie.probabilities(lambda point: [math.log(3.0), 0.0])
        {'yes': 0.75, 'no': 0.25}
        """
        shares = {
            point: dict(zip(tokens, _softmax(logits(point)), strict=True)) for point, tokens in self.branches.items()
        }
        return {
            key: round(math.prod(shares[path[:at]][path[at]] for at in range(len(path)) if path[:at] in shares), 12)
            for key, path in self.paths.items()
        }


def likeliest(probabilities: Mapping[K, float]) -> K:
    """The most probable answer; of two equal ones the first.

    >>> likeliest({"True.": 0.5, "False.": 0.5})
    'True.'
    """
    return max(probabilities, key=lambda key: probabilities[key])


def shared(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginning.

    >>> shared([1, 2, 3], [1, 2, 4]), shared([1], [1, 2]), shared([], [1])
    (2, 1, 0)
    """
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


def _softmax(logits: Sequence[float]) -> list[float]:
    highest = max(logits)
    weights = [math.exp(value - highest) for value in logits]
    whole = sum(weights)
    return [weight / whole for weight in weights]
