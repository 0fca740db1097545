"""A language model reads the conversation: how much danger is this person in now, from all they said?

The supporter's own model is asked, where it has learned to answer. After the messages of the conversation comes one more
(`QUESTION`, role system), and the answer is one of five words (`WORDS`). Only the probabilities of their first tokens
are read, so a reading costs the question and nothing else: system prompt and history are those of the reply that
follows, and llama.cpp keeps them.

    Reader      whatever gives these probabilities (`Odds`): a model (`ModelReader`), a small network (`SmallReader`), or
                a file in a measurement
    heed        a message as lexicon, network and rules read it (`context`), and what the reader says, as one reading

How they are put together:

- the reader raises: to watch, high, emergency or other danger, where its probability reaches the threshold;
- what the *lexicon* found it softens by one step, where the person was asked and the reader is sure that nothing is
  wrong: emergency to high, high to watch, watch to none. Never high to none;
- what only the network or the rules for answers found counts, after such a question, for nothing where the reader is
  sure, and for watch where it is not;
- asked about safety, and with a reader that sees less than is kept in mind, risk comes down (`eased`).

`UNASKED` and `ASKED` are the one place for all numbers, and say how they were set. Where no model reads, a small network
does (`SmallReader`, English only); Chinese is read by lexicon, network and rules alone.
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

from compeer.dialogue import trim
from compeer.errors import UserError
from compeer.reasoning.ontology import words
from compeer.safety.context import Reading
from compeer.safety.levels import Finding, Level, Risk, at_least, lower, worst
from compeer.safety.network import conversation_odds
from compeer.safety.normalise import fold

#: the words of the answer; what is read is the first token of each
WORDS = ("none", "watch", "high", "emergency", "other")
#: the answer in full, as it is learned
ANSWERS = ("none", "watch", "high", "emergency", "other danger")
QUESTION = {
    "en": "How much danger is this person in now, from all they said: none, watch, high, emergency, or other danger?",
    "zh": "从对方说过的全部来看，现在有多危险：none、watch、high、emergency，还是 other danger？",
}


class Odds(msgspec.Struct, frozen=True):
    """How likely each answer is; together they are one."""

    none: float
    watch: float
    high: float
    emergency: float
    other: float


class Reader(Protocol):
    """Reads a conversation; None where it cannot."""

    async def odds(self, messages: Sequence[Mapping[str, str]], language: str) -> Odds | None:
        """What it makes of these messages (roles user and assistant), the person's last."""
        ...


#: how likely each of some answers is after these messages (`compeer.models.weighing.weigh` with its model)
Weigh = Callable[[Sequence[dict[str, Any]], Sequence[str]], Awaitable[dict[str, float]]]


class ModelReader:
    """Asks a model. `system`: the message that opens its conversations, the same as for replies. `words`: how much of a
    conversation it reads; of a longer one the end."""

    def __init__(
        self, weigh: Weigh, system: Mapping[str, Any] | None = None, *, words: int = 1500, seconds: float = 60.0
    ) -> None:
        self.weigh, self.system, self.words, self.seconds = weigh, system, words, seconds
        self.silent = 0  # questions without an answer

    async def odds(self, messages: Sequence[Mapping[str, str]], language: str) -> Odds | None:
        kept = trim(messages, self._fits, lambda one: one["role"] == "user")
        try:
            async with asyncio.timeout(self.seconds):
                shares = await self.weigh(question(kept, language, self.system), WORDS)
        except (TimeoutError, UserError):
            self.silent += 1
            return None
        return Odds(*(shares[word] for word in WORDS))

    def _fits(self, messages: Sequence[Mapping[str, str]]) -> bool:
        return sum(len(words(one["content"])) for one in messages) <= self.words


def reader_of(model: object, system: Mapping[str, Any] | None = None, *, words: int = 1500) -> ModelReader | None:
    """The reader that a model is, if its adapter has learned the question: then `reader.json` lies beside it, with the
    question and the answers that it was taught."""
    adapter = getattr(model, "adapter", None)
    if adapter is None or not _learned(Path(adapter)):
        return None
    from compeer.models.weighing import weigh

    return ModelReader(partial(weigh, model), system, words=words)  # type: ignore[arg-type]


@cache
def _learned(adapter: Path) -> bool:
    note = (adapter if adapter.is_dir() else adapter.parent) / "reader.json"
    return note.is_file() and json.loads(note.read_text(encoding="utf-8")) == taught()


def taught() -> dict[str, Any]:
    """What `reader.json` beside an adapter must say."""
    return {"question": QUESTION, "answers": list(ANSWERS)}


class SmallReader:
    """The network of whole conversations that is shipped (`network.conversation_odds`), for English."""

    async def odds(self, messages: Sequence[Mapping[str, str]], language: str) -> Odds | None:
        return None if language == "zh" else Odds(*conversation_odds(messages))


def question(
    messages: Sequence[Mapping[str, str]], language: str, system: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The messages that ask about a conversation."""
    asked = {"role": "system", "content": QUESTION["zh" if language == "zh" else "en"]}
    return [dict(one) for one in (*([system] if system else []), *messages, asked)]


class Thresholds(msgspec.Struct, frozen=True):
    """From which probability on the reader is believed. `watch`: of anything but none. `high`: of high, emergency and
    other danger together. `some_emergency`: of emergency, to be high. `emergency`, `other`: of these. `harmless`: of none,
    to overrule what others found."""

    watch: float
    high: float
    some_emergency: float
    emergency: float
    other: float
    harmless: float


#: Set on development data alone (November 2026). Unasked: high and emergency let 1 % each of 272 harmless conversations
#: of ESConv train through; watch is not raised, because it raised 3 of 60 that nothing else did, and nothing is
#: overruled, because hints were lost. After a question about safety, which those conversations hardly hold: what is
#: likelier than not. They are those of the small network; a model that reads needs its own.
UNASKED = Thresholds(watch=1.1, high=0.93, some_emergency=0.2, emergency=0.5, other=0.75, harmless=1.1)
ASKED = Thresholds(watch=0.5, high=0.5, some_emergency=0.3, emergency=0.4, other=0.6, harmless=0.9)


#: words of a no that the reader does not overrule
SHORT_NO = 3


#: of high, emergency and other danger together: from here on no unchecked model answers the message, though the level
#: is not raised. Reached by 2.9 % of the person's messages in harmless conversations of ESConv train
UNSETTLING = 0.6


#: of the same, and of anything but none: from here on the reply of an unchecked model is read as a whole before it is
#: shown (`outgoing.unfit_when_uneasy`)
UNEASY, UNEASY_AT_ALL = 0.15, 0.4


def uneasy(odds: Odds) -> bool:
    """Whether a model's reply to this message is read as a whole before it is shown."""
    return odds.high + odds.emergency + odds.other >= UNEASY or 1 - odds.none >= UNEASY_AT_ALL


def unsettling(odds: Odds) -> bool:
    """Whether a message is better answered by listening than by a model that nobody has checked."""
    return odds.high + odds.emergency + odds.other >= UNSETTLING


class Told(msgspec.Struct, frozen=True):
    """What the reader says of a conversation. `other`: danger by or to someone else. `sure`: nothing is wrong."""

    level: Level = "none"
    other: bool = False
    sure: bool = False


def told_by(odds: Odds, *, asked: bool = False) -> Told:
    """The level that these probabilities stand for. `asked`: the last message answers a question about safety.

    >>> told_by(Odds(0.02, 0.05, 0.9, 0.02, 0.01)).level
    'high'
    """
    at = ASKED if asked else UNASKED
    if odds.emergency >= at.emergency:
        return Told("emergency")
    if odds.other >= at.other:
        return Told("high", other=True)
    if odds.high + odds.emergency + odds.other >= at.high or odds.emergency >= at.some_emergency:
        return Told("high")
    return Told("watch" if 1 - odds.none >= at.watch else "none", sure=odds.none >= at.harmless)


def heed(reading: Reading, plain: Finding, told: Told, texts: Sequence[str], *, asked: bool, risk: Risk) -> Reading:
    """A reading, with what the reader says. `plain`: what the lexicon alone finds. `texts`: the person's last messages,
    this one last. `asked`: it answers a question about safety. `risk`: what is known from before it."""
    if reading.said_no and (told.level in ("none", "watch") or len(words(texts[-1])) <= SHORT_NO):
        return reading
    if reading.question == "taken" and reading.explained:
        return reading  # what was taken is read by rules
    if at_least(risk.level, told.level) and told.level != "none" and not told.other:
        told = Told()  # known already: the reader sees all that was said, not this message alone
    if not asked and told.level == "none":
        return reading
    finding = reading.finding
    kept = plain.level
    if told.sure and asked:
        kept = lower(kept)
    suspected: Level = "watch" if at_least(finding.level, "watch") and not told.sure else "none"
    level = worst(told.level, kept, suspected if asked else finding.level)
    if level == "none":
        hint = 0.0 if told.sure else finding.hint
        made = msgspec.structs.replace(finding, level="none", kinds=(), hint=hint)
    else:
        kinds = tuple(kind for kind in finding.kinds if at_least(kept, "watch") or kind in ("third", "hint"))
        if told.other:
            kinds = (danger_of("\n".join(texts)), *kinds)
        elif at_least(told.level, "watch"):
            taken = reading.question == "taken" and at_least(told.level, "emergency")
            kinds = (*kinds, *(("ingestion",) if taken else kinds_of(texts[-1], told.level)))
        made = msgspec.structs.replace(
            finding,
            level=level,
            kinds=tuple(dict.fromkeys(kinds)) or ("hint",),
            hint=1.0 if level == "watch" else finding.hint,
            past=finding.past and not at_least(level, "high"),
        )
    question, answer = reading.question, reading.answer
    if asked and at_least(told.level, "high") and question != "safe_now":
        answer = "yes" if question else answer
    elif asked and told.sure and not at_least(risk.level, "high"):
        question, answer = ("safe_now", "yes") if question == "safe_now" else (question or "desire", "no")
    explained = level == "none" and (reading.explained or (asked and told.sure))
    return msgspec.structs.replace(reading, finding=made, question=question, answer=answer, explained=explained)


_TAKEN = re.compile(
    r"\b(?:took|taken|swallow\w*|drank|drunk|overdos\w*|inject\w*|bleed\w*|blood|cut|deep|wound|kick(?:ing|ed)? in|worked)\b"
    r"|吃了|吞了|吞完|喝了|喝下|服了|割|血|药效|起作用|止不住"
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


def eased(risk: Risk, told: Told, said_no: bool) -> Risk:
    """Risk after a plain no to a question about safety: down to watch where the reader sees less than high.

    Means, something taken and a plan stay as they are; they come down by calm alone.
    """
    named = {"means", "ingestion", "plan", "selfharm", "medical"} & set(risk.kinds)
    if not said_no or named or risk.level != "high" or at_least(told.level, "high"):
        return risk
    return msgspec.structs.replace(risk, level="watch", asked=True, calm=0, hints=0.0)
