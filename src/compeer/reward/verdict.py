"""What a judge says: True or False of a step, one of the paper's four sentences of a pair of replies.

The verdict comes first and the reason after it, so that a reward can be read after a token or two, with its
probability, and a person can still read why. Pairs are judged by place (first, second), labels are stored by
origin (candidate, reference); this file is the only one that translates.
"""

from __future__ import annotations

import re
from typing import Literal

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
    "zh": {
        "first": "第一句更好。",
        "second": "第二句更好。",
        "both": "两句差不多好。",
        "neither": "都不可取。",
    },
}

# what stands before a verdict when a chat model that was not trained for it dresses it up
_DRESSING = re.compile(
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
    """The verdict an answer begins with, or None when it begins with none.

    >>> read_step("True. She says it herself."), read_step("**False**: no."), read_step("It is true that")
    (True, False, None)
    """
    return next((value for value, form in _STEP_FORMS if form.match(_undressed(text))), None)


def read_pair(text: str) -> Choice | None:
    """The place an answer decides for.

    >>> read_pair("The second sentence is better. It asks."), read_pair("都不可取。"), read_pair("Hm.")
    ('second', 'neither', None)
    """
    return next((choice for choice, form in _PAIR_FORMS if form.match(_undressed(text))), None)


def preference_of(choice: Choice, candidate_first: bool) -> Preference:
    """The origin of what was chosen by place.

    >>> preference_of("first", candidate_first=True), preference_of("first", candidate_first=False)
    ('candidate', 'reference')
    """
    if choice == "both" or choice == "neither":
        return choice
    return "candidate" if (choice == "first") == candidate_first else "reference"


def choice_of(preference: Preference, candidate_first: bool) -> Choice:
    """The place that a preference has when the replies are shown in this order."""
    if preference == "both" or preference == "neither":
        return preference
    return "first" if (preference == "candidate") == candidate_first else "second"


def _undressed(text: str) -> str:
    return _DRESSING.sub("", split_thinking(text)[1])
