"""The phrase banks of silver reasoning, and how a sentence is made of a pattern.

The phrases are data: `phrases_en.json` and `phrases_zh.json`, one pattern a line. `[this|that|]` is a choice, `{name}`
a slot, and both may stand inside a choice:

    "[So|Right,] {fact}[, and that is what the rest depends on|]."

Slots: {fact} a sentence of the seeker's told of them, {quote} and {last} their words with quotation marks, {topic}
"their boss", {problem} the corpus's problem in a few words, {count} how many exchanges there have been, {word} a word
of theirs for a feeling, {seen} what a camera saw; {name}, {state} of the feeling concluded, {other} of one that is not
meant; in replies {you}, their sentence said to them, and {feeling}.

A pattern whose slots are not all there is passed over, so a bank can hold patterns for every occasion. Choices are made
before slots are filled: brackets in what a seeker wrote mean nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random

import msgspec

from compeer.reasoning.ontology import EMOTIONS, Language
from compeer.typed import from_json

Bank = tuple[str, ...]


class Feeling(msgspec.Struct, frozen=True):
    """An emotion of the contract in words. Families decide what a *wrong* emotion is: sadness called depression is no
    error a judge should be taught, sadness called anger is."""

    family: str
    names: Bank  # "what I hear is …"
    states: Bank  # "they are …"


class Phrases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that is said in one language."""

    problems: dict[str, Bank]  # a corpus's problem types, as one would say them
    issue: Bank
    moment: dict[str, Bank]  # by occasion
    standing: dict[str, Bank]  # by stage
    giveaways: dict[str, str]  # words that give a feeling away, by family, as a regular expression
    signs: dict[str, Bank]  # by occasion
    reading: Bank
    degree: dict[int, Bank]  # by intensity
    need: dict[str, Bank]  # by occasion
    plan: dict[str, Bank]  # by strategy
    against: dict[str, Bank]  # by the strategy that is not chosen
    last_resort: Bank  # where nothing can be quoted
    made: dict[str, Bank]  # replies made of the seeker's own words, by strategy
    generic: Bank  # replies that would suit anyone
    rewordings: tuple[tuple[str, Bank], ...]  # what supporters often write, as a regular expression, and other words
    contractions: dict[str, str]
    interjections: Bank
    feelings: dict[str, Feeling] = {}


@cache
def phrases(language: Language) -> Phrases:
    """The phrases of a language. Chinese feelings are named and defined by the ontology; families are the same."""
    found = from_json(Path(__file__).with_name(f"phrases_{language}.json").read_bytes(), Phrases)
    if found.feelings:
        return found
    named = {
        value.id: Feeling(family(value.id), (value.zh, f"{value.zh}，{value.definition_zh}"), (value.zh,))
        for value in EMOTIONS
    }
    return msgspec.structs.replace(found, feelings=named)


def family(emotion: str) -> str:
    """The family an emotion belongs to.

    >>> family("depression") == family("sadness"), family("anger") == family("sadness")
    (True, False)
    """
    return phrases("en").feelings[emotion].family


_SLOT = re.compile(r"\{(\w+)\}")
_GAP = re.compile(r" (?=[.,;:!?])")  # where a choice was empty
_CHOICE = re.compile(r"\[([^\[\]]*)\]")

Slots = Mapping[str, str]


def say(bank: Sequence[str], rng: Random, slots: Slots) -> str | None:
    """One sentence of the bank, or None where no pattern finds all its slots.

    `{Name}` is `{name}` with a capital.

    >>> say(["[Yes|No], {fact}.", "{missing}"], Random(1), {"fact": "they left"})
    'Yes, they left.'
    """
    left = list(bank)
    while left:
        chosen = _GAP.sub("", " ".join(_choose(left.pop(rng.randrange(len(left))), rng).split()))
        if all(_value(name, slots) for name in _SLOT.findall(chosen)):
            filled = _SLOT.sub(lambda found: _value(found.group(1), slots) or "", chosen)
            return _tidy(filled)
    return None


def _choose(pattern: str, rng: Random) -> str:
    while found := _CHOICE.search(pattern):  # innermost first
        pattern = pattern[: found.start()] + rng.choice(found.group(1).split("|")) + pattern[found.end() :]
    return pattern


def _value(name: str, slots: Slots) -> str | None:
    if name in slots:
        return slots[name]
    plain = slots.get(lower_first(name))
    return capital(plain) if plain else None


def capital(text: str) -> str:
    """The first letter large, also behind an opening quotation mark.

    >>> capital("they left"), capital('"i left"')
    ('They left', '"i left"')
    """
    return text[:1].upper() + text[1:]


def _tidy(text: str) -> str:
    """No stop behind another, a capital in front; what is quoted stays as it was."""
    one_stop = re.sub(r"([?!][\"”])[.,;。，；]|([?!])\.$", r"\1\2", text.strip())
    return capital(one_stop)


def lower_first(text: str) -> str:
    """For the middle of a sentence: the first letter small, unless it is the word I or all in capitals."""
    first = text.split(" ", 1)[0]
    keep = first in {"I", "I'm", "I’m", "I've", "I’ve", "I'd", "I'll", "TA"} or (len(first) > 1 and first.isupper())
    return text if keep else text[:1].lower() + text[1:]
