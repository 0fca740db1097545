"""How much danger is this person in now, from all they said? What small networks and a language model make of it.

    Reader        whatever gives five probabilities (`Odds`) for a conversation
    SmallReader   small networks, always there
    ModelReader   answers to a question about safety by the supporter's own base, with an adapter that has learned to
                  read them (`runs/safety/tune_answers.py`); everything else by the small networks
    heed          a message as lexicon, network and rules read it (`context`), and what the reader says, as one reading

The model is shown a question (`QUESTION`, role system) and the end of the conversation, and answers with one of five
words (`WORDS`), of which only the probabilities of their first tokens are read: so it reads some eighty tokens, and
writes none.

How they are put together:

- the reader raises: to watch, high, emergency or other danger, where its probability reaches the threshold;
- what the *lexicon* found it softens by one step, where the person was asked and the reader is sure that nothing is
  wrong: emergency to high, high to watch, watch to none. Never high to none;
- what only the network or the rules for answers found counts, after such a question, for nothing where the reader is
  sure, and for watch where it is not;
- unasked, what only the network of single messages heard is dropped where the reader holds nothing for likelier;
- asked about safety, and with a reader that sees less than is kept in mind, risk comes down (`eased`);
- a guard's word (`guard`, `Trusted`) counts before all of this; what the lexicon found it softens by one step.

`UNASKED`, `ASKED` and `CARE` are the one place for all numbers, by language, and say how they were set. Where no model
reads, small networks do (`SmallReader`).
"""

# patterns are kept on the line of what they stand for
# ruff: noqa: E501
from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from compeer.errors import UserError
from compeer.reasoning.ontology import words
from compeer.safety.context import Reading, heard_in, questions_in
from compeer.safety.levels import DANGER_OF, SUSPECTED, Finding, Level, Risk, at_least, lower, worst
from compeer.safety.network import conversation_odds, sentence_odds
from compeer.safety.normalise import fold

#: the words of the answer; what is read is the first token of each
WORDS = ("none", "watch", "high", "emergency", "other")
#: the answer in full, as it is learned
ANSWERS = ("none", "watch", "high", "emergency", "other danger")
QUESTION = {
    "en": "How much danger does the last answer tell: none, watch, high, emergency, or other danger?",
    "zh": "最后的回答说明有多危险：none、watch、high、emergency，还是 other danger？",
}


class Odds(msgspec.Struct, frozen=True):
    """How likely each answer is; together they are one."""

    none: float
    watch: float
    high: float
    emergency: float
    other: float


class Learned(Odds, frozen=True):
    """The same, by a model that has learned to read answers: it counts before the rules for answers."""


class Trusted(Odds, frozen=True):
    """The same, by a language model that an operator has configured to read (`guard`): it counts before the rules for
    everything, and the likeliest of the five is what it says."""


class Reader(Protocol):
    """Reads a conversation; None where it cannot."""

    async def odds(self, messages: Sequence[Mapping[str, str]], language: str) -> Odds | None:
        """What it makes of these messages (roles user and assistant), the person's last."""
        ...


#: how likely each of some answers is after these messages (`compeer.models.weighing.weigh` with its model)
Weigh = Callable[[Sequence[dict[str, Any]], Sequence[str]], Awaitable[dict[str, float]]]


#: English: how much the network of word pieces counts beside that on sentence vectors
PIECES = 0.5
#: how much a model counts beside the small networks
MODEL = 0.6


class SmallReader:
    """The networks that are shipped. Chinese: one on sentence vectors (`network.sentence_odds`). English: that one and one
    of word pieces (`network.conversation_odds`), by their weighted geometric mean."""

    async def odds(self, messages: Sequence[Mapping[str, str]], language: str) -> Odds | None:
        by_vectors = sentence_odds(messages, language)
        if language == "zh":
            return None if by_vectors is None else Odds(*by_vectors)
        by_pieces = conversation_odds(messages)
        return mixed(Odds(*by_pieces), None if by_vectors is None else Odds(*by_vectors), PIECES)


class ModelReader:
    """Answers to a question about safety are read by a model, all else, and where it fails, by the small networks."""

    def __init__(self, weigh: Weigh, *, seconds: float = 20.0) -> None:
        self.weigh, self.seconds, self.small = weigh, seconds, SmallReader()

    async def odds(self, messages: Sequence[Mapping[str, str]], language: str) -> Odds | None:
        small = await self.small.odds(messages, language)
        before = messages[-2]["content"] if len(messages) > 1 else ""
        if not set(questions_in(before) or heard_in(before)) - {"who_is_near"}:
            return small
        try:
            async with asyncio.timeout(self.seconds):
                shares = await self.weigh(shown(messages, language), WORDS)
        except (TimeoutError, UserError):
            return small
        return mixed(Learned(*(shares[word] for word in WORDS)), small, MODEL)


def shown(messages: Sequence[Mapping[str, str]], language: str) -> list[dict[str, Any]]:
    """What a model reads: the question, and the end of the conversation."""
    said = [{"role": one["role"], "content": " ".join(one["content"].split())} for one in messages[-3:]]
    texts = [one["content"] for one in said]
    cut = [text[:300] if at == len(texts) - 1 else text[-200:] for at, text in enumerate(texts)]
    asked = {"role": "system", "content": QUESTION["zh" if language == "zh" else "en"]}
    return [asked, *({"role": one["role"], "content": text} for one, text in zip(said, cut, strict=True))]


def reader_of(model: object) -> ModelReader | None:
    """The reader that a model is, if it has an adapter that has learned to be one: `reader.json` beside it says what
    question and answers it was taught."""
    adapter = getattr(model, "others", {}).get("reader")
    if adapter is None or not _learned(adapter):
        return None
    from compeer.models.weighing import weigh

    number = model.number_of("reader")  # type: ignore[attr-defined]
    return ModelReader(partial(weigh, model, adapter=number))  # type: ignore[arg-type]


@cache
def _learned(adapter: Path) -> bool:
    note = adapter / "reader.json"
    return note.is_file() and json.loads(note.read_text(encoding="utf-8")) == taught()


def taught() -> dict[str, Any]:
    """What `reader.json` beside an adapter must say."""
    return {"question": QUESTION, "answers": list(ANSWERS)}


def mixed(one: Odds, other: Odds | None, weight: float) -> Odds:
    """The weighted geometric mean of two readings; `weight`: of the first."""
    if other is None:
        return one
    both = [
        a**weight * b ** (1 - weight)
        for a, b in zip(msgspec.structs.astuple(one), msgspec.structs.astuple(other), strict=True)
    ]
    return type(one)(*(share / sum(both) for share in both))


class Thresholds(msgspec.Struct, frozen=True):
    """From which probability on the reader is believed. `watch`: of anything but none. `high`: of high, emergency and
    other danger together. `some_emergency`: of emergency, to be high. `emergency`, `other`: of these. `harmless`: of none,
    to overrule what others found. `certain`: of none, to take an answer of no known kind for a no."""

    watch: float
    high: float
    some_emergency: float
    emergency: float
    other: float
    harmless: float
    certain: float = 1.1


class Care(msgspec.Struct, frozen=True):
    """From which probability on a reply is not the model's, or is read as a whole, though the level is not raised.
    `unsettling`: of high, emergency and other danger together; no unchecked model answers. `uneasy`: of the same, and
    `uneasy_at_all`: of anything but none; the model's reply is read as a whole (`outgoing.unfit_when_uneasy`)."""

    unsettling: float
    uneasy: float
    uneasy_at_all: float


#: Set on 20 November 2026 on dev.jsonl of `runs/safety/reader_rows.py` (two opened sets and 200 harmless conversations
#: are by authors of whom nothing was learned), and on 106 conversations of ESConv train. Unasked, watch is not raised by
#: the reader. What only the network of messages heard is dropped where the reader holds nothing for likelier than not:
#: in English that takes back half of the conversations of ESConv that were raised, and one hint in twelve. They are those
#: of the small networks; a model that reads needs its own.
UNASKED = {
    "en": Thresholds(watch=1.1, high=0.93, some_emergency=0.5, emergency=0.6, other=0.5, harmless=0.5),
    "zh": Thresholds(watch=1.1, high=0.75, some_emergency=0.45, emergency=0.7, other=0.4, harmless=0.5),
}
ASKED = {
    "en": Thresholds(watch=0.5, high=0.55, some_emergency=0.3, emergency=0.4, other=0.5, harmless=0.7, certain=0.95),
    "zh": Thresholds(watch=0.45, high=0.5, some_emergency=0.3, emergency=0.45, other=0.35, harmless=0.65, certain=0.95),
}
#: of a model that has learned to read answers, together with the small networks; set on the answers of dev.jsonl
LEARNED = {
    "en": Thresholds(watch=0.5, high=0.5, some_emergency=0.3, emergency=0.35, other=0.35, harmless=0.6),
    "zh": Thresholds(watch=0.4, high=0.4, some_emergency=0.3, emergency=0.45, other=0.35, harmless=0.6),
}
#: English: together they replace about 5 % of the replies of ESConv's supporters, had a model written them
#: (`runs.safety.measure --only guarded`)
CARE = {"en": Care(0.8, 0.4, 0.65), "zh": Care(0.7, 0.4, 0.65)}

#: a first message is raised only where high, emergency and other danger together are so likely: "I took my meds this
#: morning like usual", "I was on the bridge this morning to take photos"
FIRST = 0.9
#: with fewer words (Chinese: characters) a message is brief
BRIEF = {"en": 6, "zh": 9}
#: words of a no that the reader does not overrule
SHORT_NO = 3


def _spoken(language: str) -> str:
    return "zh" if language == "zh" else "en"


def uneasy(odds: Odds, language: str = "en") -> bool:
    """Whether a model's reply to this message is read as a whole before it is shown."""
    care = CARE[_spoken(language)]
    return odds.high + odds.emergency + odds.other >= care.uneasy or 1 - odds.none >= care.uneasy_at_all


def unsettling(odds: Odds, language: str = "en") -> bool:
    """Whether a message is better answered by listening than by a model that nobody has checked."""
    return odds.high + odds.emergency + odds.other >= CARE[_spoken(language)].unsettling


class Told(msgspec.Struct, frozen=True):
    """What the reader says of a conversation. `other`: danger by or to someone else. `sure`: nothing is wrong."""

    level: Level = "none"
    other: bool = False
    sure: bool = False
    certain: bool = False  # of an answer that nothing is wrong, though it is of no known kind
    unsure_kind: str = "hint"  # what a hint is that only the network of single messages heard
    trusted: bool = False  # by `Trusted`, or of an answer by `Learned`


def told_by(odds: Odds, *, asked: bool = False, language: str = "en", first: bool = False, brief: bool = False) -> Told:
    """The level that these probabilities stand for. `asked`: the last message answers a question about safety. `first`:
    it is the first of the conversation, and the lexicon finds nothing high in it. `brief`: it is of a few words
    ("That is correct.") and so tells an emergency or nothing by itself.

    >>> told_by(Odds(0.02, 0.05, 0.9, 0.02, 0.01)).level
    'high'
    """
    if isinstance(odds, Trusted):
        word = WORDS[max(range(len(WORDS)), key=msgspec.structs.astuple(odds).__getitem__)]
        other = word == "other"
        return Told("high" if other else word, other, word == "none", trusted=True)  # type: ignore[arg-type]
    trusted = asked and isinstance(odds, Learned)
    at = (LEARNED if trusted else ASKED if asked else UNASKED)[_spoken(language)]
    if not first or odds.high + odds.emergency + odds.other >= FIRST:
        if odds.emergency >= at.emergency:
            return Told("emergency", trusted=trusted)
        if odds.other >= at.other:
            return Told("high", other=True, trusted=trusted)
        high = odds.high + odds.emergency + odds.other >= at.high and (asked or not brief)
        if high or odds.emergency >= at.some_emergency:
            return Told("high", trusted=trusted)
    # English hints are rarely wrong; in Chinese they first ask how the person is
    unsure = "hint" if language != "zh" or odds.high + odds.emergency + odds.other >= 0.5 else "vague"
    level: Level = "watch" if 1 - odds.none >= at.watch else "none"
    return Told(level, False, odds.none >= at.harmless, odds.none >= at.certain, unsure, trusted)


def heed(
    reading: Reading, plain: Finding, told: Told, texts: Sequence[str], *, asked: bool, risk: Risk, over: bool = False
) -> Reading:
    """A reading, with what the reader says. `plain`: what the lexicon alone finds. `texts`: the person's last messages,
    this one last. `asked`: it answers a question about safety. `risk`: what is known from before it.
    `over`: all that was told so far is of the past."""
    if told.trusted:
        return _as_trusted(reading, plain, told, texts, risk, asked)
    if reading.said_no and (reading.firm or told.level in ("none", "watch") or len(words(texts[-1])) <= SHORT_NO):
        # a reason given with a no takes nothing back where the reader still wonders
        sure = told.level == "none" or reading.question == "taken"
        return msgspec.structs.replace(reading, explained=reading.explained and sure)
    if asked and reading.firm and (reading.answer == "no" or at_least(reading.finding.level, told.level)):
        return reading  # the kind of an answer is read by rules; the reader can only raise what is not a no
    nothing_told = set(risk.kinds) <= {"unanswered"}
    if asked and reading.firm and told.level != "emergency" and (reading.finding.level != "watch" or nothing_told):
        return reading
    if reading.question == "taken" and (reading.explained or at_least(reading.finding.level, told.level)):
        return reading  # what was taken is read by rules; the reader can only raise it
    if at_least(risk.level, told.level) and told.level != "none" and not told.other:
        told = Told()  # known already: the reader sees all that was said, not this message alone
    finding = reading.finding
    if finding.kinds == ("intake",) and not asked and not told.other:
        return reading  # what it was is asked first
    elsewhere = finding.kinds == ("unanswered",) or (finding.level == "none" and not asked)
    said_over = finding.past or (over and (reading.answer == "no" or elsewhere))
    if told.level == "high" and not told.other and said_over:
        return reading  # that it is over is read by grammar
    if not asked and told.level == "none":
        if at_least(plain.level, "watch") or set(finding.kinds) - {"hint"} or at_least(finding.level, "high"):
            return reading
        if told.sure:  # only the network of single messages heard something
            return msgspec.structs.replace(reading, finding=Finding(denied=finding.denied))
        if finding.level == "none":
            return reading
        return msgspec.structs.replace(reading, finding=msgspec.structs.replace(finding, kinds=(told.unsure_kind,)))
    only_suspected = risk.level != "emergency" and set(risk.kinds) <= SUSPECTED  # nothing was told
    kept = plain.level
    known_danger = at_least(risk.level, "high") or bool(set(plain.kinds) & set(DANGER_OF))
    if told.sure and asked and not known_danger:  # violence is no answer about suicide
        kept = lower(kept)
    suspected: Level = (
        "watch" if at_least(finding.level, "watch") and not (told.sure and plain.level == "none") else "none"
    )
    unknown = finding.kinds == ("unanswered",) and plain.level == "none"
    if asked and reading.answer != "no" and not reading.explained and at_least(finding.level, "watch"):
        suspected = "none" if unknown and told.certain else "watch"  # what is not plainly a no is kept in mind
    level = worst(told.level, kept, suspected if asked else finding.level)
    if level == "none":
        hint = 0.0 if told.sure else finding.hint
        made = msgspec.structs.replace(finding, level="none", kinds=(), hint=hint)
    else:
        kinds = tuple(
            kind for kind in finding.kinds if at_least(kept, "watch") or kind in ("third", "hint", "unanswered")
        )
        if told.other and not set(kinds) & set(DANGER_OF):
            kinds = (danger_of("\n".join(texts)), *kinds)
        elif at_least(told.level, "watch"):
            taken = reading.question == "taken" and at_least(told.level, "emergency")
            unsaid = not asked and told.level == "high" and plain.level == "none"  # suspected: nothing was said
            kinds = (*kinds, *(("ingestion",) if taken else ("hint",) if unsaid else kinds_of(texts[-1], told.level)))
        made = msgspec.structs.replace(
            finding,
            level=level,
            kinds=tuple(dict.fromkeys(kinds)) or ("hint",),
            hint=1.0 if level == "watch" and finding.kinds != ("unanswered",) else finding.hint,
            past=finding.past and not at_least(level, "high"),
        )
    question, answer = reading.question, reading.answer
    if asked and at_least(told.level, "high") and question != "safe_now":
        answer = "yes" if question else answer
    elif asked and told.sure and only_suspected and not at_least(plain.level, "watch"):
        question, answer = ("safe_now", "yes") if question == "safe_now" else (question or "desire", "no")
    explained = level == "none" and (reading.explained or (asked and told.sure and only_suspected))
    return msgspec.structs.replace(reading, finding=made, question=question, answer=answer, explained=explained)


def _as_trusted(reading: Reading, plain: Finding, told: Told, texts: Sequence[str], risk: Risk, asked: bool) -> Reading:
    """A message as a model reads it whose word counts. What the lexicon found is softened by one step, no further."""
    softened = plain.level if asked and set(plain.kinds) & set(DANGER_OF) else lower(plain.level)
    level = worst(told.level, softened)
    suspected = told.level == "none"  # by the lexicon alone: a plain no takes it back
    kinds = () if softened == "none" else ("hint",) if suspected else plain.kinds
    if told.other and not set(kinds) & set(DANGER_OF):
        kinds = (danger_of("\n".join(texts)), *kinds)
    elif told.level == "watch":
        kinds = kinds or ("hint",)
    elif at_least(told.level, "high"):
        kinds = (*kinds, *kinds_of(texts[-1], told.level))
    question, answer = reading.question, reading.answer
    harm = at_least(level, "high")
    if asked:
        question = question or "desire"  # asked whether they are safe, no is what alarms
        answer = "unsure" if level == "watch" else "yes" if harm is (question != "safe_now") else "no"
    finding = msgspec.structs.replace(
        reading.finding,
        level=level,
        kinds=tuple(dict.fromkeys(kinds)),
        hint=1.0 if level == "watch" else 0.0,
        denied=level == "none",
        other=reading.finding.other and level != "none",
        past=reading.finding.past and not harm,
    )
    explained = level == "none" and not at_least(risk.level, "high") and set(risk.kinds) <= SUSPECTED
    return msgspec.structs.replace(reading, finding=finding, question=question, answer=answer, explained=explained)


_TAKEN = re.compile(
    r"\b(?:took|taken|swallow\w*|drank|drunk|overdos\w*|inject\w*|bleed\w*|blood|cut|deep|wound|kick(?:ing|ed)? in|worked)\b"
    r"|吃了|吃下|吃进|吞了|吞下|吞完|咽下|喝了|喝下|服了|割|血|药效|起作用|止不住"
)
_MEDICAL = re.compile(
    r"\b(?:seizure|stroke|unconscious|not breathing|isnt breathing|wont wake|chest (?:pain|is crushing|hurts)|heart attack|lips are blue|collapsed|choking|anaphyla\w*|insulin twice|"
    r"numb|passing out|baby)\b|抽搐|昏迷|没呼吸|叫不应|叫不醒|胸口疼|半边|麻了|晕倒|宝宝"
)
_DEATH = re.compile(r"\b(?:die|dying|dead|kill|suicid\w*|end it|goodbye|pills?|tablets?)\b|死|自杀|不想活|遗书|药")
_CHILD = re.compile(
    r"\b(?:im|i am) (?:[5-9]|1[0-7])\b|\b(?:dad|mum|mom|mommy|daddy|stepdad|stepmum|stepmom|step\w+|father|mother|uncle|coach|teacher|tutor|kid|kids|child|children|toddler|little boy|little girl|school|"
    r"son|daughter|nursery|grandson)\b|爸|妈|继父|继母|叔叔|舅|姑父|老师|教练|孩子|小孩|儿子|女儿|弟弟|妹妹|幼儿园|学校|岁"
)
_PARTNER = re.compile(
    r"\b(?:husband|wife|boyfriend|girlfriend|partner|ex|fiance\w*|he|she|marriage|bf|gf)\b|老公|老婆|丈夫|妻子|男朋友|女朋友|男友|女友|前任|前夫|前男友|婆婆|对象|他"
)
_AGAINST = re.compile(
    r"\b(?:im (?:gonna|going to)|ill|i will|i want to|i could|i know where|ive (?:got|been)|i have|im taking|make (?:him|her|them) pay|not going alone)\b.{0,80}\b(?:him|her|them|it out on|locker|bat|knife|gun|petrol|boot|alone)\b"
    r"|following (?:him|her|the guy)|get even|弄死他|弄死她|杀了他|杀了她|跟他拼|同归于尽|磨好|等她下班|堵他|捅|谁也别想|别人也别想|后备箱"
)


def kinds_of(text: str, level: Level) -> tuple[str, ...]:
    """What kind of finding the reader's level stands for, from the words of the message; by it our words are chosen."""
    if level == "watch":
        return ("hint",)
    plain = fold(text).text
    if level == "high":
        return ("wish",)
    if _MEDICAL.search(plain) and not _DEATH.search(plain):
        return ("medical",)
    return ("ingestion",) if _TAKEN.search(plain) else ("means",)


def danger_of(text: str) -> str:
    """Which other danger a person tells of: the kind of finding by which words and lines are chosen."""
    plain = fold(text).text
    if _AGAINST.search(plain):
        return "violence"
    child, partner = _CHILD.search(plain), _PARTNER.search(plain)
    return (
        "child_abuse"
        if child
        and not re.search(r"\b(?:husband|wife|boyfriend|girlfriend|ex)\b|老公|老婆|丈夫|男朋友|男友|前夫|前男友", plain)
        else "partner_violence"
        if partner or not child
        else "child_abuse"
    )


def eased(risk: Risk, told: Told, said_no: bool, explained: bool = False) -> Risk:
    """Risk after a plain no to a question about safety: down to watch where the reader sees less than high.

    Means, something taken and a plan stay as they are; they come down by calm alone, or where a harmless reason is given
    (`explained`) and the reader is sure too.
    """
    if explained and told.sure and at_least(risk.level, "high") and not {"ingestion", "selfharm"} & set(risk.kinds):
        return msgspec.structs.replace(risk, level="watch", asked=True, calm=0, hints=0.0)
    named = {"means", "ingestion", "plan", "selfharm", "medical"} & set(risk.kinds)
    if not said_no or named or risk.level != "high" or at_least(told.level, "high") or risk.danger != "suicide":
        return risk
    if "wish" in risk.kinds and not told.sure:
        return risk  # who has said it plainly and then says no is not believed at once
    return msgspec.structs.replace(risk, level="watch", asked=True, calm=0, hints=0.0)
