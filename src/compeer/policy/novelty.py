"""How new a reply is beside what others are told: a part of the reward that looks across conversations.

Equation 5 compares a reply with its own group and its own history. A policy that tells every seeker the same pleasant
sentence once goes unnoticed by both; distinct-2 over many conversations falls. This part sees it: a word pair counts
1 / (1 + c), where c is how many replies to *other* prompts of the step use it, and a reply's novelty is the mean over
its pairs. Averaged over one reply to each prompt that is distinct-2 itself, where every pair counts 1 over its uses.

Not in the paper. It enters the sum before equation 5 as `2 novelty - 1`, with weight 0 unless a config says otherwise.
The replies to the same prompt are left out: how alike they are is what s_in measures already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from compeer.policy.diversity import ngrams

Pair = tuple[str, ...]


def novelty(groups: Sequence[Sequence[str]]) -> list[list[float]]:
    """Every reply's novelty from 0 to 1, group by group. A reply of less than two words has none. Where there is only
    one group there is nobody else, and all replies are as new as can be.

    >>> novelty([["how are you", "what hurts most"], ["how are things", "tell me"]])
    [[0.75, 1.0], [0.75, 1.0]]
    """
    pairs = [[ngrams(reply, 2) for reply in group] for group in groups]
    own = [Counter(pair for one in group for pair in set(one)) for group in pairs]
    everyone = Counter[Pair]()
    for counts in own:
        everyone.update(counts)
    return [
        [_mean([1 / (1 + everyone[pair] - counts[pair]) for pair in one]) for one in group]
        for group, counts in zip(pairs, own, strict=True)
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
