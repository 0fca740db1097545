"""The three steps of one moment: the seeker's own words, and what is concluded from them.

    history    issue (their words, and what it is about)    standing -> Stage
    emotion    signs (their words)                          reading  -> Emotion     degree -> Intensity
    strategy   need (their last words)                      plan     -> Strategy

Quotes are verbatim (white space aside) and only from what had been said by then, so a test can find each of them.
A part depends on one moment only. So any part can be another moment's: a wrong conclusion behind one's own quotes, or
another conversation's quotes as well. Each part is right somewhere, which is why nothing in the text alone tells right
from wrong.

The sentences are data: `phrases_en.json` and `phrases_zh.json`. `[this|that|]` is a choice, `{name}` a slot: {quote},
{quote2} and {last} the seeker's words with quotation marks, {problem} the corpus's problem in a few words, {name} the
feeling that is concluded, {other} one that is not. A pattern whose slots are not all there is passed over. Choices are
made before slots are filled: brackets in what a seeker wrote mean nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from random import Random

import msgspec

from compeer.cer.silver.moment import Moment, size, stream
from compeer.reasoning.ontology import EMOTIONS, Language
from compeer.reasoning.schema import STEPS
from compeer.typed import from_json

#: step -> its parts in the order in which they are told; the first holds quotes, the others conclude
PARTS: dict[str, tuple[str, ...]] = {
    "history": ("issue", "standing"),
    "emotion": ("signs", "reading", "degree"),
    "strategy": ("need", "plan"),
}
Parts = dict[str, dict[str, str]]  # by step and part
_DISCLOSED = 25  # words after which the seeker has usually said what it is about
_QUOTE: dict[Language, tuple[int, int]] = {"en": (3, 18), "zh": (4, 24)}  # words, or characters
_SENTENCE = re.compile(r"(?:[^.!?\n。！？…~]|\.(?=\d))+[.!?。！？…~]*")  # "4.0" is not an end
_CLAUSE: dict[Language, re.Pattern[str]] = {
    "en": re.compile(r"\s*(?:[,;:]|\s-+\s|--+|\bbut\b|\band then\b|\bbecause\b(?! of)|\bso that\b)\s*", re.IGNORECASE),
    "zh": re.compile(r"[，、；：,;:\s]+"),
}
_LEAD = re.compile(r"^(?:(?:yes|yeah|well|so|and|but|or|because(?! of)|ok|okay|oh|um|hmm|hi|hello)\b[\s,.!]*)+", re.I)
_COUNTER = re.compile(r"\s*\(\d+\)$")  # some seekers numbered their messages
#: small talk, and what is said to the supporter, tells nothing about the seeker
_TO_SUPPORTER = re.compile(
    r"\b(?:you|your|yours|u|ur|thank|thanks|hello|hi|bye|goodbye|chat|chatting|appreciate|agree|makes sense)\b|你",
    re.IGNORECASE,
)
_UNFIT = re.compile(r"[<>\[\]{}\"“”|@#*_/\\]|https?:|\d{5,}")
#: feelings that another is told apart from
_COMMON = ("anxiety", "fear", "sadness", "depression", "anger", "disgust", "shame", "guilt", "loneliness")
_SLOT = re.compile(r"\{(\w+)\}")
_CHOICE = re.compile(r"\[([^\[\]]*)\]")

Bank = tuple[str, ...]


class Phrases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    problems: dict[str, Bank]  # a corpus's problem types, as one would say them
    issue: Bank
    standing: dict[str, Bank]  # by stage
    signs: Bank
    reading: Bank
    degree: dict[int, Bank]  # by intensity
    need: Bank
    plan: dict[str, Bank]  # by strategy
    nothing_said: Bank  # where nothing can be quoted
    made: dict[str, Bank]  # replies with the seeker's own words, by strategy
    generic: Bank  # replies that would suit anyone
    rewordings: tuple[tuple[str, Bank], ...]  # what supporters often write, as a regular expression, and other words
    families: dict[str, Bank] = {}  # emotions by family, in the English file


@cache
def phrases(language: Language) -> Phrases:
    return from_json(Path(__file__).with_name(f"phrases_{language}.json").read_bytes(), Phrases)


@cache
def family(emotion: str) -> str:
    """The family of an emotion. Families decide what a wrong emotion is: sadness called depression is no error.

    >>> family("depression") == family("sadness"), family("anger") == family("sadness")
    (True, False)
    """
    return next(name for name, emotions in phrases("en").families.items() if emotion in emotions)


def say(bank: Sequence[str], rng: Random, slots: Mapping[str, str]) -> str | None:
    """One sentence of the bank, or None where no pattern finds all its slots. `{Name}` is `{name}` with a capital.

    >>> say(["[Yes|No], {fact}.", "{missing}"], Random(0), {"fact": "they left"})
    'Yes, they left.'
    """
    filled = {**slots, **{name.capitalize(): capital(value) for name, value in slots.items()}}
    for pattern in rng.sample(bank, len(bank)):
        while found := _CHOICE.search(pattern):
            pattern = pattern[: found.start()] + rng.choice(found.group(1).split("|")) + pattern[found.end() :]
        if all(name in filled for name in _SLOT.findall(pattern)):
            return capital(_SLOT.sub(lambda found: filled[found.group(1)], pattern))
    return None


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


@lru_cache(maxsize=1 << 16)  # a turn stands in the history of every later moment
def quotes(text: str, language: Language, fewest: int | None = None) -> tuple[str, ...]:
    """Verbatim pieces worth quoting, in order: whole sentences where they are short, else their clauses.

    >>> quotes("Hi. Well, my boss yelled at me again today, in front of everyone!", "en")
    ('my boss yelled at me again today, in front of everyone',)
    """
    low, high = _QUOTE[language]
    found = []
    for sentence in _SENTENCE.findall(text):
        for piece in [sentence] if size(sentence, language) <= high else _CLAUSE[language].split(sentence):
            clean = _COUNTER.sub("", _LEAD.sub("", " ".join(piece.split()))).strip(" .,;:!…~-。，；：！")
            if (fewest or low) <= size(clean, language) <= high and not _UNFIT.search(clean):
                found.append(clean)
    return tuple(dict.fromkeys(found))


def own_words(moment: Moment) -> tuple[str, ...]:
    """What the seeker has said about themselves, in quotable pieces; where there is nothing, whatever they said."""
    found = dict.fromkeys(quote for text in moment.seeker for quote in quotes(text, moment.language))
    about_them = tuple(quote for quote in found if not _TO_SUPPORTER.search(quote))
    return about_them or tuple(quote for text in moment.seeker for quote in quotes(text, moment.language, 2))


def quoted(text: str, language: Language) -> str:
    return f'"{text}"' if language == "en" else f"“{text}”"


def true_steps(moment: Moment, seed: int) -> Parts:
    """The right steps of a moment, in parts; the corpus's own reasoning, as one part, where it has one."""
    if moment.written:
        return {step: {"whole": " ".join(getattr(moment.written, step).split())} for step in STEPS}
    bank = phrases(moment.language)
    feeling = {
        "name": _name(moment.emotion, moment.language),
        "other": _name(_another(moment, stream(seed, moment.key, "other")), moment.language),
    }
    conclusions = {
        "standing": (bank.standing[moment.stage], {}),
        "reading": (bank.reading, feeling),
        "degree": (bank.degree[moment.intensity], {}),
        "plan": (bank.plan[moment.strategy], {}),
    }
    found: Parts = {}
    for step, names in PARTS.items():
        evidence = {names[0]: (getattr(bank, names[0]), _quoted_slots(moment, stream(seed, moment.key, step)))}
        found[step] = {}
        for name in names:
            patterns, slots = (evidence | conclusions)[name]
            rng = stream(seed, moment.key, name)
            found[step][name] = say(patterns, rng, slots) or say(bank.nothing_said, rng, {}) or ""
    return found


def text_of(parts: Mapping[str, str], language: Language) -> str:
    return ("" if language == "zh" else " ").join(parts.values())


def _quoted_slots(moment: Moment, rng: Random) -> dict[str, str]:
    """Two different quotes, one from the message that is being answered, and the problem once it has been told."""
    language = moment.language
    found: dict[str, str] = {}
    if last := quotes(moment.last, language, 1):
        found["last"] = quoted(rng.choice(last), language)
    said = [quoted(quote, language) for quote in own_words(moment)] or list(found.values())
    others = [quote for quote in said if quote != found.get("last")] or said
    for name, quote in zip(("quote", "quote2"), rng.sample(others, min(2, len(others))), strict=False):
        found[name] = quote
    problem = phrases(language).problems.get(moment.dialogue.problem or "")
    if problem and moment.words >= _DISCLOSED:
        found["problem"] = rng.choice(problem)
    return found


def _another(moment: Moment, rng: Random) -> str:
    return rng.choice([one for one in _COMMON if family(one) != family(moment.emotion)])


def _name(emotion: str, language: Language) -> str:
    return EMOTIONS.get(emotion).name(language)
