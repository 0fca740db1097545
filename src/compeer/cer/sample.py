"""Which rounds of a dialogue become items: equation 1, and nowhere else.

    p(i) = exp(-(i - mu)^2 / 2 sigma^2) / sum over j of the same,    mu = N_r / 2, sigma = N_r / 4

The middle of a conversation is favoured, its greetings and goodbyes are not. N_s rounds are drawn one after
the other; a round that was drawn is out, and the rest share the probability in their old proportions.

As printed: mu is N_r / 2, although rounds are counted from 1 and their middle is (N_r + 1) / 2. So the
distribution leans half a round to the beginning, and a single round has its exponent at -2, which the
normalisation undoes. No exponent is ever below -2 (at i = N_r), so nothing overflows or vanishes at any length.

Where we decide because the paper does not say: N_s is 3 unless given. A round without a history cannot be
asked of a model (the supporter opens the conversation), so a round with fewer than `min_history` turns before
it has no chance, and the others keep equation 1's proportions.

    compeer cer sample dialogues.jsonl --out items.jsonl
"""

from __future__ import annotations

import math
from bisect import bisect
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta

from compeer.cer.item import Item, item_at
from compeer.dialogue import Dialogue, rounds
from compeer.dialogue.jsonl import decode_dialogue
from compeer.pipeline.stage import Reject, Stage, Tools
from compeer.typed import from_plain


class SampleOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    n_samples: Annotated[int, Meta(ge=1)] = 3  # N_s; not printed in the paper
    min_history: Annotated[int, Meta(ge=0)] = 1  # turns before the reply, at least


def round_probabilities(n_rounds: int) -> list[float]:
    """p(1) … p(n_rounds) of equation 1.

    >>> [round(p, 3) for p in round_probabilities(4)]
    [0.258, 0.426, 0.258, 0.058]
    >>> round_probabilities(1), round_probabilities(0)
    ([1.0], [])
    """
    if n_rounds < 0:
        raise ValueError(f"a dialogue cannot have {n_rounds} rounds")
    mu, sigma = n_rounds / 2, n_rounds / 4
    weights = [math.exp(-((i - mu) ** 2) / (2 * sigma**2)) for i in range(1, n_rounds + 1)]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


@lru_cache(maxsize=4096)
def _probabilities(n_rounds: int) -> list[float]:
    return round_probabilities(n_rounds)


def sample_rounds(n_rounds: int, n_samples: int, rng: Random, first: int = 1) -> list[int]:
    """`n_samples` different rounds, counted from 1, ascending; every round once where there are no more than that.

    Rounds before `first` have no chance; the others keep their proportions.

    >>> sample_rounds(12, 3, Random(0)), sample_rounds(2, 3, Random(0))
    ([5, 8, 9], [1, 2])
    """
    if n_rounds < 0 or n_samples < 0:
        raise ValueError(f"{n_samples} of {n_rounds} rounds cannot be drawn")
    left = list(range(first, n_rounds + 1))
    if n_samples >= len(left):
        return left
    probabilities = _probabilities(n_rounds)
    chosen: list[int] = []
    while len(chosen) < n_samples:
        cumulative = list(accumulate(probabilities[i - 1] for i in left))
        # the product can round up to the total: never look past the last
        at = bisect(cumulative, rng.random() * cumulative[-1], 0, len(left) - 1)
        chosen.append(left.pop(at))
    return sorted(chosen)


async def sample(dialogue: Dialogue, tools: Tools) -> list[Item] | Reject:
    options = from_plain(tools.options, SampleOptions)
    available = rounds(dialogue)
    first = next((one.index for one in available if one.place >= options.min_history), None)
    if first is None:
        detail = f"no supporter turn has {options.min_history} or more turns before it"
        return Reject(dialogue.id, "no-round", detail, dialogue)
    drawn = sample_rounds(len(available), options.n_samples, tools.rng("sample", dialogue.id), first)
    return [item_at(dialogue, available[index - 1]) for index in drawn]


STAGE = Stage(
    name="sample", function=sample, reads=Dialogue, writes=Item, options=SampleOptions, decode=decode_dialogue
)
