"""Two cases that anybody would judge alike, in each language: the supporter who listens, and one who does not.

They warm up a judge that was just loaded, probe one that was down, and stand at the beginning of every training.

Before a training starts: who is the judge, and does it judge?

It is asked what it is, and really judges a case that is plainly good and one that is plainly bad, one at a time. A
judge that cannot be reached, is of the wrong kind or answers nonsense is an error with advice. One that cannot tell
the two cases apart is only a warning: an untrained judge is what a training of the judge begins with.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from compeer.cer.item import QUESTIONS, Said
from compeer.errors import UserError
from compeer.reasoning import Reasoning, parse, render
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case, case_of_parsed
from compeer.reward.conversation import threads
from compeer.reward.judge import Judge, Judgement, Orders
from compeer.reward.verdict import Kind
from compeer.reward.wire import JudgeError, fingerprint, problem_with

_HISTORY: dict[Language, tuple[Said, ...]] = {
    "en": (
        Said("seeker", "I have an exam tomorrow and I can't stop shaking. I keep thinking I will fail."),
        Said("supporter", "That sounds really hard. Is it the exam itself, or what would come after it?"),
        Said("seeker", "What comes after. My parents paid for everything, and I am so scared to let them down."),
    ),
    "zh": (
        Said("seeker", "明天就要考试了，我一直在发抖，总觉得自己会考砸。"),
        Said("supporter", "听起来真的很难受。你怕的是考试本身，还是考完以后的事？"),
        Said("seeker", "是以后的事。学费都是爸妈出的，我特别害怕让他们失望。"),
    ),
}
_REFERENCE: dict[Language, str] = {
    "en": "You love them and do not want to disappoint them, and that makes tomorrow feel enormous.",
    "zh": "你很在乎他们，不想让他们失望，所以明天的考试才显得这么重。",
}
_GOOD: dict[Language, tuple[dict[str, str], str]] = {
    "en": (
        {
            "history": "They face an exam tomorrow and fear to let down the parents who paid for their studies.",
            "emotion": "They shake and say that they are so scared; the fear is about what comes after the exam.",
            "strategy": "They have just named the fear, so it helps to say it back and show that it is understood.",
        },
        "You are so scared of letting them down that the exam has become about them. That is a heavy thing to carry.",
    ),
    "zh": (
        {
            "history": "对方明天要考试，学费是父母出的，害怕考砸了让父母失望。",
            "emotion": "对方一直发抖，说自己特别害怕，怕的是考试之后的事。",
            "strategy": "对方刚刚说出了自己的害怕，先把这份感受说回去，让对方知道被听懂了。",
        },
        "你这么怕让爸妈失望，考试好像成了他们的事，这份担子真的很重。",
    ),
}
_BAD: dict[Language, tuple[dict[str, str], str]] = {
    "en": (
        {
            "history": "They tell about a holiday by the sea and ask which hotel to book.",
            "emotion": "They are full of joy and cannot wait for the party.",
            "strategy": "They want a recipe, so the best thing is to tell how long to boil the rice.",
        },
        "Stop whining. Boil the rice for twelve minutes.",
    ),
    "zh": (
        {
            "history": "对方在说海边度假的事，问该订哪家酒店。",
            "emotion": "对方满心欢喜，等不及要去参加聚会。",
            "strategy": "对方想要菜谱，最好告诉对方米饭要煮多久。",
        },
        "别抱怨了，米饭煮十二分钟就好。",
    ),
}
_GOOD_LABELS: dict[str, str | int] = {
    "stage": "exploration",
    "sentiment": "negative",
    "emotion": "anxiety",
    "intensity": 4,
    "strategy": "reflection of feelings",
}
_BAD_LABELS: dict[str, str | int] = {
    "stage": "action",
    "sentiment": "positive",
    "emotion": "joy",
    "intensity": 5,
    "strategy": "information",
}


def _case(name: str, language: Language, said: tuple[dict[str, str], str], labels: dict[str, str | int]) -> Case:
    written = render(Reasoning.of(said[0], labels, language), said[1])
    return case_of_parsed(f"{name}-{language}", language, _HISTORY[language], _REFERENCE[language], parse(written))


GOOD: dict[Language, Case] = {language: _case("good", language, _GOOD[language], _GOOD_LABELS) for language in _GOOD}
BAD: dict[Language, Case] = {language: _case("bad", language, _BAD[language], _BAD_LABELS) for language in _BAD}


class Tried(msgspec.Struct, frozen=True):
    """One case that was really judged."""

    case: str
    total: int
    seconds: float
    judgement: Judgement


class Rehearsal(msgspec.Struct, frozen=True):
    """Who the judge is, to be recorded with what it judges, and how it did."""

    name: str
    kind: Kind
    fingerprint: str
    identity: dict[str, Any]
    tried: tuple[Tried, ...]
    warnings: tuple[str, ...] = ()

    @property
    def seconds_per_case(self) -> float:
        """Without the first, which may have loaded the weights."""
        later = self.tried[1:] or self.tried
        return sum(one.seconds for one in later) / len(later)


async def rehearse(
    judge: Judge, *, kind: Kind | None, languages: Sequence[Language], orders: Orders, wait: float
) -> Rehearsal:
    """Ask and try; UserError when the judge is of no use."""
    identity = await identity_of(judge, wait)
    if kind is not None and judge.kind != kind:
        raise UserError(f"{judge.name} is a judge of the kind {judge.kind}; {kind} is needed.")
    tried: list[Tried] = []
    warnings: list[str] = []
    for language in languages:
        good = await _try(judge, GOOD[language], orders)
        bad = await _try(judge, BAD[language], orders)
        tried += [good, bad]
        if good.total <= bad.total:
            warnings.append(
                f"It gives the plainly good case in {language} {good.total} and the plainly bad one {bad.total}: "
                "it has not learnt to judge, or does not know the language."
            )
        warnings += [f"It gave no verdict on {gap}." for one in (good, bad) for gap in _gaps(one, judge.kind)]
    return Rehearsal(judge.name, judge.kind, fingerprint(identity), identity, tuple(tried), tuple(warnings))


async def identity_of(judge: Judge, wait: float) -> dict[str, Any]:
    """What the judge says it is. A service that is only starting is asked again, for `wait` seconds."""
    ends = time.monotonic() + wait
    while True:
        try:
            return dict(await judge.identity())
        except JudgeError as error:
            if error.kind == "nonsense" or error.again != "later" or time.monotonic() > ends:
                raise
            await asyncio.sleep(0.5)


async def _try(judge: Judge, case: Case, orders: Orders) -> Tried:
    began = time.monotonic()
    try:
        answers = await judge.judge([case], orders=orders)
    except JudgeError as error:
        raise JudgeError(error.kind, f"The judge did not judge a first, easy case. {error}") from None
    except UserError:
        raise
    except Exception as error:
        message = f"{judge.name} failed on a first, easy case: {type(error).__name__}: {error}"
        raise JudgeError("judge", message) from error
    if problem := problem_with([case], answers):
        raise JudgeError("nonsense", f"{judge.name} does not judge as a judge should: {problem}.")
    answer = answers[0]
    if answer.failure is not None:
        raise JudgeError("judge", f"{judge.name} could not judge a first, easy case: {answer.failure}")
    tried = Tried(case.id, answer.total, time.monotonic() - began, answer)
    asked = len([turn for thread in threads(case, judge.kind, True) for turn in thread.turns])
    if len(_gaps(tried, judge.kind)) == asked:
        said = [step.reason for step in answer.steps] + [pair.reason for pair in answer.pairs]
        example = next((f" It said: {text[:120]!r}." for text in said if text), "")
        raise JudgeError("nonsense", f"{judge.name} gave no verdict at all on an easy case.{example}")
    return tried


def _gaps(tried: Tried, kind: Kind) -> list[str]:
    """Questions that a judge of this kind is asked and has not answered."""
    answer = tried.judgement
    values = [step.value for step in answer.steps]
    preferred = [pair.preference for pair in answer.pairs]
    missing = [f"the {step} of {tried.case}" for step, value in zip(QUESTIONS, values, strict=False) if value is None]
    gaps = [] if kind == "orm" else missing
    return gaps + (["the replies of " + tried.case] if kind != "prm" and not any(preferred) else [])
