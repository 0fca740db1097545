"""What a reply says again: its own earlier words, or the seeker's.

Two shares of a reply's n-grams: those that the supporter has already used in this dialogue, and those that the seeker
has. The first is going round in circles; the second is partly a virtue, since restating is a strategy, so the two are
kept apart. Likeness in meaning is equation 6's s_hi (`compeer.policy.redundancy`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from compeer.policy.diversity import ngrams
from compeer.reasoning.language import words

N = 3


def said_before(reply: str, earlier: Iterable[str], n: int = N) -> float | None:
    """The share of the reply's n-grams that occur in the earlier texts; None for a reply shorter than n words.

    >>> said_before("I hear you, that is hard", ["I hear you."]), said_before("Oh no", ["Oh no"])
    (0.25, None)
    """
    own = ngrams(reply, n)
    known = {gram for text in earlier for gram in ngrams(text, n)}
    return sum(gram in known for gram in own) / len(own) if own else None


def said_elsewhere(replies: Sequence[str]) -> list[bool]:
    """For each reply whether another one has exactly its words.

    >>> said_elsewhere(["I hear you.", "i hear you", "Go on."])
    [True, True, False]
    """
    keys = [tuple(words(reply.lower())) for reply in replies]
    times = Counter(keys)
    return [bool(key) and times[key] > 1 for key in keys]
