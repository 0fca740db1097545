"""The seeker's own words, ready for use: short quotes, the same in the third or the second person, people and things.

Quotes are verbatim (white space aside), so a test can find each of them in what was said before. Turning a
sentence from "I" to "they" or to "you" is done word by word; what would not survive that (questions, talk to
the supporter, fragments) is left out rather than bent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from compeer.reasoning.ontology import Language

_SENTENCE = re.compile(r"(?:[^.!?\n。！？…~]|\.(?=\d))+[.!?。！？…~]*")  # "4.0" is not an end
_CLAUSE = {
    "en": re.compile(r"\s*(?:[,;:]|\s-+\s|--+|\bbut\b|\band then\b|\bbecause\b(?! of)|\bso that\b)\s*", re.IGNORECASE),
    "zh": re.compile(r"[，、；：,;:\s]+"),
}
#: what a clause opens with before it says anything
_LEAD = re.compile(
    r"^(?:(?:yes|yeah|yep|yup|nope|well|so|and|but|or|because(?! of)|cause(?! of)|also|then|ok|okay|oh|um|uh|hmm|hi"
    r"|hello|hey|(?:no|right|sure|true|like)(?=[,.!])|thanks|thank you|honestly|actually|basically|i mean|i guess"
    r"|i think|you know|plus|i know|i see|i feel like|lol|haha|just that|it's just|its just|the thing is)\b[\s,.!]*)+",
    re.IGNORECASE,
)
_COUNTER = re.compile(r"\s*\(\d+\)$")  # some seekers numbered their messages
_DANGLING = re.compile(
    r"\b(?:and|but|or|because|that|which|who|to|the|a|an|of|my|his|her|their|our|your|in|on|at|with|for|from|as|if|when"
    r"|than|about|is|are|was|were|am|be|been|i|he|she|they|we|not|very|so|just|will|would|can|could|have|has|had|do"
    r"|did|does|into|by|what|how|this|i'm|i've|it's|don't|going|being|get|got)$",
    re.IGNORECASE,
)
#: a clause that begins so and speaks of the seeker can be retold
_TELLABLE = re.compile(
    r"^(?:i|im|i['’]m|ive|i['’](?:ve|d|ll)|my|we|we['’](?:re|ve)|our|he|she|his|her|there|it|everyone|nobody|no one"
    r"|people|everything|nothing|all) +\w",
    re.IGNORECASE,
)
_SELF = re.compile(r"\b(?:i|im|ive|i['’](?:m|ve|d|ll)|my|me|myself|we|our|us|mine)\b", re.IGNORECASE)
_TO_YOU = re.compile(r"\b(?:you|your|yours|u|ur|thank|thanks|hello|hi|bye|goodbye|chat|chatting)\b", re.IGNORECASE)
_THIN = re.compile(
    r"\b(?:appreciate|agree|understand|glad|sounds|will try|hope so|guess so|think so|makes sense|see what"
    r"|good (?:point|idea|advice|to know|one))\b",
    re.IGNORECASE,
)
_UNFIT = re.compile(r"[<>\[\]{}\"“”|@#*_/\\]|https?:|\d{5,}")
_ADVERB = (
    r"((?:really|just|also|always|still|never|so|only|already|currently|usually|often|probably|sometimes|kind of) )?"
)

PEOPLE = (
    "boss|manager|supervisor|coworkers?|co-workers?|colleagues?|teacher|professor|boyfriend|girlfriend|ex|husband|wife|partner"
    "|fiance|mom|mum|mother|dad|father|parents|brother|sister|son|daughter|kids|children|baby|family|grandmother|grandma"
    "|grandfather|uncle|aunt|cousin|best friend|friends?|roommates?|neighbors?|dog|cat|therapist|doctor"
)
THINGS = (
    "job|work|career|business|school|college|classes|exams?|grades|studies|degree|marriage|relationship|divorce|house|apartment"
    "|home|health|weight|sleep|drinking|anxiety|depression|money|bills|debt|rent|savings|life|future|past|feelings|thoughts"
)
_TOPIC = re.compile(
    rf"\bmy ((?:ex|best|old|new|own|younger|older|little|big|former|current) )?({PEOPLE}|{THINGS})\b", re.IGNORECASE
)
_PRONOUNS: dict[str, list[tuple[re.Pattern[str], str]]] = {}
for _who, (_subject, _object, _own, _self, _was) in {
    "they": ("they", "them", "their", "themselves", "were"),
    "you": ("you", "you", "your", "yourself", "were"),
}.items():
    _PRONOUNS[_who] = [
        (re.compile(rf"\b(?:i|we) {_ADVERB}was\b", re.I), rf"{_subject} \1{_was}"),
        (re.compile(rf"\b(?:i|we) {_ADVERB}wasn['’]?t\b", re.I), rf"{_subject} \1{_was}n't"),
        (re.compile(r"\b(?:i['’]m|im|we['’]re|i am)\b", re.I), f"{_subject} are"),
        (re.compile(r"\b(?:i['’]ve|ive|we['’]ve)\b", re.I), f"{_subject} have"),
        (re.compile(r"\b(?:i['’]d|we['’]d)\b", re.I), f"{_subject}'d"),
        (re.compile(r"\b(?:i['’]ll|we['’]ll)\b", re.I), f"{_subject}'ll"),
        (re.compile(r"\bam\b", re.I), "are"),
        (re.compile(r"\b(?:i|we)\b", re.I), _subject),
        (re.compile(r"\b(?:me|us)\b", re.I), _object),
        (re.compile(r"\b(?:my|our)\b", re.I), _own),
        (re.compile(r"\b(?:mine|ours)\b", re.I), f"{_own}s"),
        (re.compile(r"\b(?:myself|ourselves)\b", re.I), _self),
    ]


def clauses(text: str, language: Language) -> Iterator[str]:
    """Whole sentences where they are short, else their parts; cleaned at both ends, verbatim inside."""
    longest = 16 if language == "en" else 26
    for sentence in _SENTENCE.findall(text):
        pieces = [sentence] if _length(sentence, language) <= longest else _CLAUSE[language].split(sentence)
        for piece in pieces:
            clean = " ".join(piece.split())
            if language == "en":
                clean = _COUNTER.sub("", _LEAD.sub("", clean))
            clean = clean.strip(" .,;:!…~-。，；：！")
            if clean and not _UNFIT.search(clean):
                yield clean


def quotes(text: str, language: Language) -> tuple[str, ...]:
    """Verbatim pieces worth quoting, in order.

    >>> quotes("Hi. Well, my boss yelled at me again today, in front of everyone!", "en")
    ('my boss yelled at me again today, in front of everyone',)
    """
    low, high = (3, 14) if language == "en" else (4, 24)
    found = []
    for clause in clauses(text, language):
        short = clause if language == "zh" else _cut(clause, high)
        if low <= _length(short, language) <= high and not (language == "en" and _small_talk(short)):
            found.append(short)
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=1 << 15)  # a turn stands in the history of every later moment
def retold(text: str, language: Language, who: str = "they") -> tuple[str, ...]:
    """Clauses about the seeker, told of them ("they") or to them ("you"), without a full stop.

    >>> retold("I was fired last week. My boss hates me! What should I do?", "en")
    ('they were fired last week', 'their boss hates them')
    """
    low, high = (4, 18) if language == "en" else (6, 26)
    found = []
    for clause in clauses(text, language):
        if not low <= _length(clause, language) <= high or clause.endswith(("?", "？")):
            continue
        if language == "zh":
            if "我" in clause and "你" not in clause and "吗" not in clause:
                found.append(clause.replace("我", "TA" if who == "they" else "你"))
        elif _tellable(clause):
            found.append(_turn(clause, who))
    return tuple(dict.fromkeys(found))


def topics(text: str, language: Language) -> tuple[str, ...]:
    """Whom and what the seeker calls theirs, the last named first: "their boss", "their job"."""
    if language == "zh":
        return ()
    named = [" ".join(filter(None, (found.group(1), found.group(2)))) for found in _TOPIC.finditer(text)]
    return tuple(dict.fromkeys("their " + " ".join(name.lower().split()) for name in reversed(named)))


def about_them(text: str) -> bool:
    """Whether it tells of the seeker: not said to the supporter, not just agreement."""
    return not (_TO_YOU.search(text) or _THIN.search(text) or "你" in text)


def lower_first(text: str) -> str:
    """For the middle of a sentence: the first letter small, unless it is the word I or all in capitals."""
    first = text.split(" ", 1)[0]
    keep = first in {"I", "I'm", "I’m", "I've", "I’ve", "I'd", "I'll", "TA"} or (len(first) > 1 and first.isupper())
    return text if keep else text[:1].lower() + text[1:]


def _tellable(clause: str) -> bool:
    about_them = _TELLABLE.match(clause) and _SELF.search(clause)
    return bool(about_them) and not any(bad.search(clause) for bad in (_TO_YOU, _DANGLING, _THIN))


def _turn(clause: str, who: str) -> str:
    told = lower_first(clause)
    for pattern, other in _PRONOUNS[who]:
        told = pattern.sub(lambda found, other=other: found.expand(other).replace("  ", " "), told)  # type: ignore[misc]
    return re.sub(r" +(?=[,.;:])", "", told)


def _cut(clause: str, longest: int) -> str:
    words = clause.split(" ")[:longest]
    if len(words) == longest:
        while len(words) > 3 and _DANGLING.search(" ".join(words)):
            words.pop()
    return " ".join(words).rstrip(" ,;:-")


def _small_talk(clause: str) -> bool:
    return bool(
        re.search(
            r"\b(?:thank|thanks|bye|goodbye|hello|how are you|welcome|have a (?:good|great|nice))\b", clause, re.I
        )
    )


def _length(text: str, language: Language) -> int:
    return len(text.split()) if language == "en" else sum(map(str.isalnum, text))
