"""What every judge does and returns, and the hash of what it is asked with.

    judgements = await judge.judge(cases, orders="both")
    judgements[0].total, judgements[0].parts()

A judge that has no answer says so in `failure`, as "KIND: what happened", readable as a sentence and countable as a
category; it never raises for a single case. The caller decides what a missing answer is worth: `total` counts it like a
wrong step, policy training replaces it.

A judge is known by the hashes of its weights (`models.checkpoint.model_sha256`) and of these words, not by its place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, get_args

import msgspec

from compeer.cer.item import PastTurn, Preference, Question
from compeer.models.request import FailureKind, NoAnswer, run
from compeer.reasoning import STEPS
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case
from compeer.reward.conversation import JudgeThread, messages, threads
from compeer.reward.scoring import GOOD, total
from compeer.reward.verdict import PAIR_WORDS, PREFERENCES, STEP_WORDS, Kind, preference_of

T = TypeVar("T")
#: `one`: an order drawn from the case's id; `both`: each pair is shown twice and the probabilities are averaged
Orders = Literal["one", "both", "candidate_first", "reference_first"]
PARTS: tuple[str, ...] = (*STEPS, "preference", "format")


class JudgeError(NoAnswer):
    """No answer to a whole request, which may help later or with fewer cases."""


class StepVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """True, False, or None for a missing step or an unreadable answer; `p` is the probability of True."""

    value: bool | None = None
    p: float | None = None
    reason: str = ""


class PairVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The preference for one order of the pair; `p` holds the probability of each preference, if known."""

    candidate_first: bool
    preference: Preference | None = None
    p: dict[Preference, float] = {}
    reason: str = ""


class Judgement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    complete: bool
    steps: tuple[StepVerdict, StepVerdict, StepVerdict] = (StepVerdict(), StepVerdict(), StepVerdict())
    pairs: tuple[PairVerdict, ...] = ()
    failure: str | None = None
    tokens: int = 0  # encoded for this case, where the judge counts them

    @property
    def preference_p(self) -> dict[Preference, float]:
        """Probabilities of the four preferences, averaged over the orders in which the pair was shown."""
        known = [pair.p for pair in self.pairs if pair.p]
        return {name: sum(p.get(name, 0.0) for p in known) / len(known) for name in PREFERENCES} if known else {}

    @property
    def preference(self) -> Preference | None:
        """The preference over all orders; None when two orders disagree and there are no probabilities."""
        given = [pair.preference for pair in self.pairs if pair.preference is not None]
        if len(given) > 1 and all(pair.p for pair in self.pairs if pair.preference is not None):
            mean = self.preference_p
            return max(PREFERENCES, key=lambda name: mean[name])
        return given[0] if given and len(set(given)) == 1 else None

    @property
    def swayed(self) -> bool | None:
        """Whether the preference depends on the order; None when only one order was asked."""
        given = [pair.preference for pair in self.pairs if pair.preference is not None]
        return None if len(given) < 2 else len(set(given)) > 1

    @property
    def total(self) -> int:
        """The paper's reward, -5 to 5."""
        return total([step.value for step in self.steps], self.preference, self.complete)

    def parts(self, soft: bool = False) -> dict[str, float]:
        """Each part of the reward, -1 to 1. `soft` uses probabilities instead of verdicts where they are known."""
        good = [step.value is True for step in self.steps] + [self.preference in GOOD, self.complete]
        found = {name: 1.0 if is_good else -1.0 for name, is_good in zip(PARTS, good, strict=True)}
        if soft:
            known = {name: step.p for name, step in zip(STEPS, self.steps, strict=True) if step.value is not None}
            found |= {name: 2 * p - 1 for name, p in known.items() if p is not None}
            if p := self.preference_p:
                found["preference"] = 2 * sum(p[name] for name in GOOD) - 1
        return found


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A judgement with its reward. Both parts and total are None for a judgement that failed."""

    id: str
    judgement: Judgement
    parts: dict[str, float] | None
    total: int | None


def score_of(judgement: Judgement) -> Scored:
    """The row that is written for a judgement."""
    failed = judgement.failure is not None
    parts, total = (None, None) if failed else (judgement.parts(), judgement.total)
    return Scored(id=judgement.id, judgement=judgement, parts=parts, total=total)


class OpenCase:
    """A case that is being judged: its conversations and the verdicts so far. `size` is for sorting."""

    def __init__(self, case: Case, threads: Sequence[JudgeThread] = (), failure: str | None = None) -> None:
        self.case, self.threads, self.failure = case, list(threads), failure
        self.size = sum(len(turn.text) for turn in case.history)
        self.has_images = bool(threads) and any(turn.images for turn in case.history)
        self.clear()

    def clear(self) -> None:
        """Forget the verdicts: the case will be judged again."""
        self.steps: dict[str, StepVerdict] = {}
        self.pairs: dict[bool, PairVerdict] = {}  # by whether the candidate came first
        self.tokens = 0

    def record(self, question: Question, first: bool, verdict: Any, shares: Mapping[Any, float], reason: str) -> None:
        """Keep a verdict with its probabilities, which are by place for the pair; `first`: the candidate came first."""
        if question != "preference":
            self.steps[question] = StepVerdict(verdict, shares.get(True), reason)
            return
        preference = None if verdict is None else preference_of(verdict, first)
        by_origin = {preference_of(choice, first): share for choice, share in shares.items()}
        self.pairs[first] = PairVerdict(first, preference, by_origin, reason)

    def judgement(self) -> Judgement:
        """The verdicts found so far; a step without one is None."""
        first, second, third = (self.steps.get(step, StepVerdict()) for step in STEPS)
        return Judgement(
            id=self.case.id,
            complete=self.case.complete,
            steps=(first, second, third),
            pairs=tuple(self.pairs[first] for first in (True, False) if first in self.pairs),
            failure=self.failure,
            tokens=self.tokens,
        )


class Judge(Protocol):
    """A reward model. `kind` says which questions it answers."""

    @property
    def kind(self) -> Kind: ...

    @property
    def name(self) -> str: ...

    async def identity(self) -> Mapping[str, Any]:
        """What must be equal for rewards to be comparable: weights (by hash), kind, prompts."""
        ...

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        """A judgement per case, in the order of the cases. Keep cases with the same history next to each other."""
        ...

    async def close(self) -> None: ...


def run_and_close(work: Coroutine[Any, Any, T], judges: Iterable[Judge]) -> T:
    """The result of work with judges, which are closed whatever becomes of it."""

    async def close_afterwards() -> T:
        try:
            return await work
        finally:
            for judge in judges:
                await judge.close()

    return run(close_afterwards())


def shown_orders(case: Case, orders: Orders) -> tuple[bool, ...]:
    """For each time the pair is shown, whether the candidate comes first.

    >>> from compeer.reward.case import Case
    >>> none = (None, None, None)
    >>> case = Case(id="a", language="en", history=(), steps=none, reply="x", reference="y", complete=False)
    >>> shown_orders(case, "both"), shown_orders(case, "reference_first")
    ((True, False), (False,))
    """
    if orders == "both":
        return (True, False)
    if orders == "one":
        return (hashlib.sha256(case.id.encode()).digest()[0] % 2 == 0,)
    return (orders == "candidate_first",)


def prompts_sha256(kind: Kind) -> str:
    """A hash of every word that a judge of this kind is asked with, in both languages."""
    asked = []
    languages: tuple[Language, ...] = ("en", "zh")
    for language in languages:
        case = Case(
            id="",
            language=language,
            history=(PastTurn("seeker", "a"), PastTurn("supporter", "b", ("c.png",))),
            steps=("d", "e", "f"),
            reply="g",
            reference="h",
            complete=True,
            left_out=1,
        )
        words = [*STEP_WORDS[language].values(), *PAIR_WORDS[language].values()]
        asked.append([words, [messages(thread, ["i"] * 4) for thread in threads(case, kind, candidate_first=True)]])
    return hashlib.sha256(msgspec.json.encode(asked)).hexdigest()


def fingerprint(identity: Mapping[str, Any]) -> str:
    """A short hash of a judge's identity, independent of the order of its fields.

    >>> fingerprint({"kind": "prm", "weights": "ab"}) == fingerprint({"weights": "ab", "kind": "prm"})
    True
    """
    return hashlib.sha256(msgspec.json.encode(identity, order="sorted")).hexdigest()[:16]


def failed_judgement(case: Case, kind: FailureKind, why: str) -> Judgement:
    return Judgement(id=case.id, complete=case.complete, failure=f"{kind}: {why}")


def failure_kind(failure: str) -> FailureKind:
    """The category of a failure.

    >>> failure_kind("time: no answer within 60 s"), failure_kind("the history is too long")
    ('time', 'judge')
    """
    named = failure.partition(":")[0]
    return next((kind for kind in get_args(FailureKind) if kind == named), "judge")


def missing_answer(case: Case, judgement: Judgement, kind: Kind) -> JudgeError | None:
    """The missing answer that asking again may bring, or None."""
    if judgement.failure is not None:
        reason = failure_kind(judgement.failure)
        passing = reason in ("time", "connection", "nonsense") or "No answer from" in judgement.failure
        return JudgeError(reason, judgement.failure.removeprefix(f"{reason}: ")) if passing else None
    asked = (kind != "orm" and any(case.steps)) or (kind != "prm" and case.comparable)
    given = [step.value for step in judgement.steps] + [pair.preference for pair in judgement.pairs]
    return JudgeError("nonsense", "it gave no verdict at all") if asked and set(given) <= {None} else None


def reply_problem(cases: Sequence[Case], judgements: Sequence[Judgement]) -> str | None:
    """Why these cannot be the judgements of the cases, or None.

    Whether the format is complete is known before the judge is asked; a judge cannot change it.
    """
    if len(judgements) != len(cases):
        return f"{len(judgements)} judgements for {len(cases)} cases"
    for case, judgement in zip(cases, judgements, strict=True):
        if judgement.id != case.id:
            return f"a judgement of {judgement.id!r:.80} where {case.id!r:.80} was asked about"
        if judgement.complete != case.complete:
            return f"{case.id!r:.80}: another result on the format than the parser's"
        known = [step.p for step in judgement.steps if step.p is not None]
        known += [value for pair in judgement.pairs for value in pair.p.values()]
        if not all(-1e-6 <= value <= 1 + 1e-6 for value in known):  # false for a NaN too
            return f"{case.id!r:.80}: a probability outside of 0 to 1"
        missing = [step is None for step in case.steps]
        if any(gone and step.value is not None for gone, step in zip(missing, judgement.steps, strict=True)):
            return f"{case.id!r:.80}: a verdict on a step that is not there"
    return None
