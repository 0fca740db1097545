"""What the conversation so far offers to a step's slots: quotes, facts, names, and what is special about the moment.

Nothing said later, nothing untold: a sentence of the questionnaire counts only once most of it has been said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from random import Random

import msgspec

from compeer.cer.silver import chinese, english_emotion, english_history
from compeer.cer.silver.feelings import family
from compeer.cer.silver.moment import Moment, size, stream
from compeer.cer.silver.own_words import about_them, quotes, retold, topics
from compeer.cer.silver.phrases import Slots
from compeer.reasoning.ontology import Language

_DISCLOSED = 25  # words after which the seeker has usually said what it is about
_TELLING = 8  # words, or characters
_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_REFUSES = re.compile(
    r"^\W*(?:no|not|nah|but|i (?:can't|cant|don't|dont|tried|already))\b|^不|但是|没用", re.IGNORECASE
)
_THANKS = re.compile(r"\b(?:thank|thanks|thx|appreciate|bye)\b|谢谢|再见", re.IGNORECASE)
_LAUGH = re.compile(r"\b(?:lol|haha\w*|lmao)\b|哈哈", re.IGNORECASE)
_PROBLEMS = {"en": english_history.PROBLEMS, "zh": chinese.PROBLEMS}
_GIVEAWAYS = {"en": english_emotion.GIVEAWAYS, "zh": chinese.GIVEAWAYS}
_LONGER = re.compile(r"\w{4,}")
_PLAIN = frozenset({"they", "them", "their", "have", "been", "that", "this", "with"})


class Evidence(msgspec.Struct, frozen=True):
    """Everything a moment offers; `slots` draws from it."""

    moment: Moment
    last: tuple[str, ...]  # quotes from the message that is being answered
    quotes: tuple[str, ...]
    telling: tuple[str, ...]  # those with a feeling in them
    facts: tuple[str, ...]
    topics: tuple[str, ...]
    word: str | None
    occasions: tuple[str, ...]


def gather(moment: Moment) -> Evidence:
    language = moment.language
    turns = [_mine(text, language) for text in moment.seeker]
    return Evidence(
        moment,
        quotes(moment.last, language),
        tuple(dict.fromkeys(q for turn in turns for q in turn.quotes)),
        tuple(dict.fromkeys(q for turn in turns for q in turn.telling)),
        tuple(dict.fromkeys([f for turn in turns for f in turn.facts] + _situation(moment))),
        tuple(dict.fromkeys(t for turn in reversed(turns) for t in turn.topics))[:3],
        next((w for turn in reversed(turns) if (w := turn.words.get(family(moment.emotion)))), None),
        occasions(moment),
    )


class _Mined(msgspec.Struct, frozen=True):
    quotes: tuple[str, ...]
    telling: tuple[str, ...]
    facts: tuple[str, ...]
    topics: tuple[str, ...]
    words: dict[str, str]  # family -> the feeling word of it that was used


@lru_cache(maxsize=1 << 16)  # a turn stands in the history of every later moment
def _mine(text: str, language: Language) -> _Mined:
    own = tuple(q for q in quotes(text, language) if about_them(q))
    words = {name: found.group() for name, word in _feeling_words(language).items() if (found := word.search(text))}
    telling = tuple(q for q in own if words and any(word.search(q) for word in _feeling_words(language).values()))
    return _Mined(own, telling, retold(text, language), topics(text, language), words)


@cache
def _feeling_words(language: Language) -> dict[str, re.Pattern[str]]:
    bound = r"\b" if language == "en" else ""
    banks = _GIVEAWAYS[language]
    return {family: re.compile(rf"{bound}(?:{words}){bound}", re.IGNORECASE) for family, words in banks.items()}


def slots(evidence: Evidence, step: str, seed: int) -> Slots:
    """One drawing for one step: the same names in another step hold other words."""
    moment, language = evidence.moment, evidence.moment.language
    rng = stream(seed, moment.key, step, "evidence")
    found: dict[str, str] = {}
    if evidence.last:
        found["last"] = quoted(rng.choice(evidence.last), language)
    pool = [q for q in evidence.quotes if quoted(q, language) != found.get("last")] or list(evidence.quotes)
    telling = [q for q in evidence.telling if q in pool]
    if pool:
        first = draw(telling if telling and step == "emotion" and rng.random() < 0.5 else pool, rng)
        second = draw(pool, rng)
        found["quote"] = quoted(first, language)
        if second != first:
            found["quote2"] = quoted(second, language)
    if evidence.facts:
        first, second = draw(evidence.facts, rng), draw(evidence.facts, rng)
        found["fact"] = first
        if second != first:
            found["fact2"] = second
    if evidence.topics:
        found["topic"] = rng.choice(evidence.topics)
    found["it"] = found.get("topic", rng.choice(("this", "all this", "it all")))
    phrases = _PROBLEMS[language].get(moment.dialogue.problem or "")
    if phrases and moment.words >= _DISCLOSED:
        found["problem"] = rng.choice(phrases)
    if 3 <= moment.index < len(_NUMBERS):
        found["count"] = _NUMBERS[moment.index]
    if moment.seen and (seen := quotes(moment.seen, language)):
        found["seen"] = seen[0]
    if evidence.word:
        found["word"] = quoted(evidence.word, language)
    return found


def quoted(text: str, language: Language) -> str:
    return f'"{text}"' if language == "en" else f"“{text}”"


def draw(pool: Sequence[str], rng: Random) -> str:
    """The later and the longer, the likelier."""
    one, other = (pool[int(len(pool) * rng.random() ** 0.67)] for _ in range(2))
    return max(one, other, key=len)


def _situation(moment: Moment) -> list[str]:
    """Sentences of the questionnaire that the seeker has told by now: most of their longer words have been said."""
    facts = []
    told = moment.told.lower()
    for fact in _mine(moment.dialogue.situation or "", moment.language).facts:
        words = [w for w in _LONGER.findall(fact.lower()) if w not in _PLAIN]
        if len(words) >= 2 and sum(w in told for w in words) >= 0.6 * len(words):
            facts.append(fact)
    return facts


def tells(moment: Moment) -> bool:
    """Whether the last message has something that can be said back."""
    return size(moment.last, moment.language) >= _TELLING and "thanks" not in occasions(moment)


def occasions(moment: Moment) -> tuple[str, ...]:
    """What is special about the message that is being answered."""
    return _occasions(moment.last, moment.language, len(moment.seeker), moment.before[-2:])


@lru_cache(maxsize=1 << 16)
def _occasions(last: str, language: Language, turns: int, before: tuple[str, ...]) -> tuple[str, ...]:
    words = size(last, language)
    previous = before[-1] if before else ""
    holds = {
        "short": words <= 5,
        "long": words >= 40,
        "asks": "?" in last or "？" in last,
        "thanks": turns > 3 and bool(_THANKS.search(last)),
        "first": turns <= 2,
        "answered": previous == "question",
        "asked": before == ("question", "question"),
        "advised": previous in ("providing suggestions", "information"),
        "refuses": bool(_REFUSES.search(last)),
        "loud": last.count("!") + last.count("！") >= 2,
        "trailing": ".." in last or "…" in last,
        "laugh": bool(_LAUGH.search(last)),
    }
    return tuple(name for name, true in holds.items() if true)
