"""What a judge answers: True or False about a step, one of the paper's four sentences about a pair of replies.

The verdict comes first and the reason after it, so that a reward can be read after a token or two, with its
probability, and a person can still read why. Pairs are judged by place (first, second); labels are stored by origin
(candidate, reference). Only this file translates between the two.

`VerdictTrie` holds the possible answers as a tree of tokens:

    True.  False.                  two branches at the root
    The first …  The second …      "The" is common, the next token tells them apart
    The two …  Neither …

A model has a choice only where answers differ. At each branching point its logits are normalised over the tokens that
lead to some answer, and an answer's probability is the product along its path. This is what decoding under a grammar
would draw, without drawing; the probabilities of all answers add up to one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, Literal, TypeVar

from compeer.cer.item import Preference
from compeer.reasoning import split_thinking
from compeer.reasoning.ontology import Language

Kind = Literal["unified", "prm", "orm"]
Choice = Literal["first", "second", "both", "neither"]  # by the place in which the replies were shown
CHOICES: tuple[Choice, ...] = ("first", "second", "both", "neither")
PREFERENCES: tuple[Preference, ...] = ("candidate", "reference", "both", "neither")

STEP_WORDS: dict[Language, dict[bool, str]] = {
    "en": {True: "True.", False: "False."},
    "zh": {True: "正确。", False: "错误。"},
}
PAIR_WORDS: dict[Language, dict[Choice, str]] = {
    "en": {
        "first": "The first sentence is better.",
        "second": "The second sentence is better.",
        "both": "The two sentences are almost good.",
        "neither": "Neither sentence is acceptable.",
    },
    "zh": {"first": "第一句更好。", "second": "第二句更好。", "both": "两句差不多好。", "neither": "都不可取。"},
}

# what an untrained chat model writes before its verdict
_LEAD_IN = re.compile(
    r"^(?:[\s\"'“”‘’`*_#>.:：\-—(\[]+|(?:verdict|answer|judge?ment|判断|结论|答案)\s*[:：]|</?think>)+", re.IGNORECASE
)
_ENDS = r"(?=$|[\s。，、！!.,：:；;的])"  # 对话 and 错过 are other words
_STEP_FORMS: tuple[tuple[bool, re.Pattern[str]], ...] = (
    (
        False,
        re.compile(
            rf"(?:false|incorrect|no|wrong|not (?:true|correct))\b|错误|不正确|不对{_ENDS}|错{_ENDS}", re.IGNORECASE
        ),
    ),
    (True, re.compile(rf"(?:true|correct|yes|right)\b|正确{_ENDS}|对{_ENDS}", re.IGNORECASE)),
)
_PAIR_FORMS: tuple[tuple[Choice, re.Pattern[str]], ...] = (
    ("neither", re.compile(r"neither\b|(?:两句|两者|两个)?(?:话|回复)?都不", re.IGNORECASE)),
    ("both", re.compile(r"(?:the two|both)\b|(?:两句|两者|两个)?(?:话|回复)?(?:都|差不多|一样|同样)", re.IGNORECASE)),
    ("first", re.compile(r"(?:the )?first\b(?! of all|,)|第一", re.IGNORECASE)),
    ("second", re.compile(r"(?:the )?second\b(?!,)|第二", re.IGNORECASE)),
)


def read_step(text: str) -> bool | None:
    """The verdict that an answer begins with, or None.

    >>> read_step("True. She says it herself."), read_step("**False**: no."), read_step("It is true that")
    (True, False, None)
    """
    return next((value for value, form in _STEP_FORMS if form.match(_without_lead_in(text))), None)


def read_pair(text: str) -> Choice | None:
    """The choice that an answer begins with, or None.

    >>> read_pair("The second sentence is better. It asks."), read_pair("都不可取。"), read_pair("Hm.")
    ('second', 'neither', None)
    """
    return next((choice for choice, form in _PAIR_FORMS if form.match(_without_lead_in(text))), None)


def preference_of(choice: Choice, candidate_first: bool) -> Preference:
    """A choice by place as a preference by origin.

    >>> preference_of("first", candidate_first=True), preference_of("first", candidate_first=False)
    ('candidate', 'reference')
    """
    if choice == "both" or choice == "neither":
        return choice
    return "candidate" if (choice == "first") == candidate_first else "reference"


def choice_of(preference: Preference, candidate_first: bool) -> Choice:
    """A preference by origin as a choice by place."""
    if preference == "both" or preference == "neither":
        return preference
    return "first" if (preference == "candidate") == candidate_first else "second"


def _without_lead_in(text: str) -> str:
    return _LEAD_IN.sub("", split_thinking(text)[1])


TokenPath = tuple[int, ...]
K = TypeVar("K", bound=Hashable)


class VerdictTrie(Generic[K]):
    """Answers as paths of tokens. No path may be a prefix of another, and one path must pass all branching points.

    >>> trie = VerdictTrie({"first": (4, 1, 9), "second": (4, 2, 9), "neither": (5, 9)})
    >>> trie.branches
    {(): (4, 5), (4,): (1, 2)}
    >>> trie.way
    (4,)
    """

    def __init__(self, paths: Mapping[K, TokenPath]) -> None:
        self.paths = dict(paths)
        following: dict[TokenPath, dict[int, None]] = {}
        for path in self.paths.values():
            for at, token in enumerate(path):
                following.setdefault(path[:at], {})[token] = None
        if len(set(self.paths.values())) < len(self.paths) or any(path in following for path in self.paths.values()):
            raise ValueError("an answer is a prefix of another one, or equal to it, so they cannot be told apart")
        #: each branching point (the tokens that lead to it) with the tokens to choose from
        self.branches: dict[TokenPath, tuple[int, ...]] = {
            point: tuple(tokens) for point, tokens in following.items() if len(tokens) > 1
        }
        #: the path that passes all of them: one reading of the model along it tells every probability
        self.way: TokenPath = max(self.branches, key=len, default=())
        if any(self.way[: len(point)] != point for point in self.branches):
            raise ValueError("the answers part on several paths; word them so that only one beginning is shared")

    def probabilities(self, logits: Callable[[TokenPath], Sequence[float]]) -> dict[K, float]:
        """The probability of each answer; `logits(point)` are those of the tokens in `branches[point]`.

        >>> trie = VerdictTrie({"yes": (1,), "no": (2,)})
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
    """The most probable answer; the first one of a tie.

    >>> likeliest({"True.": 0.5, "False.": 0.5})
    'True.'
    """
    return max(probabilities, key=lambda key: probabilities[key])


def _softmax(logits: Sequence[float]) -> list[float]:
    highest = max(logits)
    weights = [math.exp(value - highest) for value in logits]
    whole = sum(weights)
    return [weight / whole for weight in weights]
