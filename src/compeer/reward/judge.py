"""What every judge does and returns, and the hash of what it is asked with.

    judgements = await judge.judge(cases, orders="both")
    judgements[0].total, judgements[0].parts()

A judge that has no answer says so in `failure`; it never raises for a single case. The caller decides what a missing
answer is worth: `total` counts it like a wrong step, policy training replaces it.

A judge is known by the hashes of its weights (`models.checkpoint.model_sha256`) and of these words, not by its place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from compeer.cer.item import PastTurn, Preference, Question
from compeer.reasoning import STEPS
from compeer.reasoning.ontology import Language
from compeer.reward.case import Case
from compeer.reward.conversation import JudgeThread, messages, threads
from compeer.reward.scoring import GOOD, total
from compeer.reward.verdict import PAIR_WORDS, PREFERENCES, STEP_WORDS, Kind, preference_of

#: `one`: an order drawn from the case's id; `both`: each pair is shown twice and the probabilities are averaged
Orders = Literal["one", "both", "candidate_first", "reference_first"]
PARTS: tuple[str, ...] = (*STEPS, "preference", "format")


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
        if not known:
            return {}
        return {name: sum(p.get(name, 0.0) for p in known) / len(known) for name in PREFERENCES}

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
        found: dict[str, float] = {}
        for name, step in zip(STEPS, self.steps, strict=True):
            if soft and step.p is not None and step.value is not None:
                found[name] = 2 * step.p - 1
            else:
                found[name] = 1.0 if step.value is True else -1.0
        p = self.preference_p
        if soft and p:
            found["preference"] = 2 * sum(p[name] for name in GOOD) - 1
        else:
            found["preference"] = 1.0 if self.preference in GOOD else -1.0
        found["format"] = 1.0 if self.complete else -1.0
        return found


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
