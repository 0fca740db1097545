"""ROUGE-L (Lin 2004): the longest common subsequence of a reply and its reference, as F1.

Recall and precision weigh the same, as in the tools that are used today (the first version weighed recall more). The
subsequence is counted on the bits of one integer (Hyyrö 2004): a step a word instead of a step a pair of words.
"""

from __future__ import annotations

from collections.abc import Sequence

from compeer.reasoning.language import words


def rouge_l(text: str, reference: str) -> float:
    """F1 of the longest common subsequence of words.

    >>> rouge_l("police kill the gunman", "police killed the gunman"), rouge_l("", "hello")
    (0.75, 0.0)
    """
    said, wanted = words(text.lower()), words(reference.lower())
    common = common_length(said, wanted)
    return 2 * common / (len(said) + len(wanted)) if common else 0.0


def common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence.

    >>> common_length("ABCBDAB", "BDCABA")
    4
    """
    places: dict[str, int] = {}
    for at, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << at
    whole = (1 << len(first)) - 1
    open_bits = whole  # a zero for each row in which the length of the subsequence grows
    for word in second:
        hits = open_bits & places.get(word, 0)
        open_bits = ((open_bits + hits) | (open_bits - hits)) & whole
    return len(first) - open_bits.bit_count()
