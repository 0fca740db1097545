"""Before a training starts: who is the judge, and does it judge?

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

from compeer.cer.item import QUESTIONS
from compeer.errors import UserError
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case
from compeer.reward.client.trial import BAD, GOOD
from compeer.reward.conversation import threads
from compeer.reward.judge import Judge, Judgement, Orders
from compeer.reward.service.wire import JudgeError, fingerprint, problem_with
from compeer.reward.verdict import Kind


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
