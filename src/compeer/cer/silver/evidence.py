"""What the conversation so far offers to a step's slots: quotes, facts, names, and what is special about the moment.

Nothing said later, nothing untold: a sentence of the questionnaire counts only once most of it has been said.

Quotes are the seeker's own words (white space aside), so a test can find each of them in what was said before.
Turning a sentence from "I" to "they" or to "you" is done word by word; what would not survive that (questions, talk to
the supporter, fragments) is left out rather than bent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from random import Random

import msgspec

from compeer.cer.silver.moment import Moment, size, stream
from compeer.cer.silver.phrases import Slots, family, lower_first, phrases
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


_DISCLOSED = 25  # words after which the seeker has usually said what it is about
_TELLING = 8  # words, or characters
_NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_REFUSES = re.compile(
    r"^\W*(?:no|not|nah|but|i (?:can't|cant|don't|dont|tried|already))\b|^不|但是|没用", re.IGNORECASE
)
_THANKS = re.compile(r"\b(?:thank|thanks|thx|appreciate|bye)\b|谢谢|再见", re.IGNORECASE)
_LAUGH = re.compile(r"\b(?:lol|haha\w*|lmao)\b|哈哈", re.IGNORECASE)
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
    banks = phrases(language).giveaways
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
    named = phrases(language).problems.get(moment.dialogue.problem or "")
    if named and moment.words >= _DISCLOSED:
        found["problem"] = rng.choice(named)
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
