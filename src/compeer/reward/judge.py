"""What every judge does and what it returns, wherever it lives.

    judgements = await judge.judge(cases, orders="both")
    judgements[0].total, judgements[0].parts()

A judge that had no answer says so in `failure`; it never raises for a single case. What a missing answer is worth is
for the caller to decide: `total` counts it like a wrong step, training replaces it (`policy`).

Two judges in the place of one: a PRM for the steps and an ORM for the pair, asked side by side.

This is the baseline that the paper's unified judge is compared with. To everybody else it is one judge.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from compeer.cer.item import Preference
from compeer.errors import UserError
from compeer.reasoning import STEPS
from compeer.reward.case import Case
from compeer.reward.scoring import GOOD, total
from compeer.reward.verdict import PREFERENCES, Kind

#: `one`: an order drawn from the case's id; `both`: each pair is shown twice and the probabilities are averaged
Orders = Literal["one", "both", "candidate_first", "reference_first"]
PARTS: tuple[str, ...] = (*STEPS, "preference", "format")


class StepVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """True, False, or None when the step was missing or the answer was no verdict; `p` is the probability of True."""

    value: bool | None = None
    p: float | None = None
    reason: str = ""


class PairVerdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The preference among the replies as they were shown once; `p` holds the probability of each, if it is known."""

    candidate_first: bool
    preference: Preference | None = None
    p: dict[Preference, float] = {}
    reason: str = ""


class Judgement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All verdicts on one case."""

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
        """The preference over all orders. Two orders that contradict each other without probabilities: none."""
        said = [pair.preference for pair in self.pairs if pair.preference is not None]
        if len(said) > 1 and all(pair.p for pair in self.pairs if pair.preference is not None):
            mean = self.preference_p
            return max(PREFERENCES, key=lambda name: mean[name])
        return said[0] if said and len(set(said)) == 1 else None

    @property
    def swayed(self) -> bool | None:
        """Whether the verdict hung on the order; None when only one order was asked."""
        said = [pair.preference for pair in self.pairs if pair.preference is not None]
        return None if len(said) < 2 else len(set(said)) > 1

    @property
    def total(self) -> int:
        """The paper's reward, -5 to 5."""
        return total([step.value for step in self.steps], self.preference, self.complete)

    def parts(self, soft: bool = False) -> dict[str, float]:
        """Each part of the reward, -1 to 1. `soft` takes probabilities for the verdicts where they are known."""
        found: dict[str, float] = {}
        for name, step in zip(STEPS, self.steps, strict=True):
            known = soft and step.p is not None and step.value is not None
            found[name] = 2 * step.p - 1 if known and step.p is not None else 1.0 if step.value is True else -1.0
        p = self.preference_p
        if soft and p:
            found["preference"] = 2 * sum(p[name] for name in GOOD) - 1
        else:
            found["preference"] = 1.0 if self.preference in GOOD else -1.0
        found["format"] = 1.0 if self.complete else -1.0
        return found


class Judge(Protocol):
    """A reward model. `kind` says which questions it answers, `identity` tells it from every other judge."""

    @property
    def kind(self) -> Kind: ...

    @property
    def name(self) -> str: ...

    async def identity(self) -> Mapping[str, Any]:
        """What must be the same for rewards to be comparable: weights (by hash), kind, prompts."""
        ...

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        """A judgement for each case, in their order. Cases of one group (one history) belong next to each other."""
        ...

    async def close(self) -> None: ...


def shown_orders(case: Case, orders: Orders) -> tuple[bool, ...]:
    """For each showing of the pair whether the candidate comes first.

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


class SeparateJudge:
    """PRM and ORM. When one of them fails on a case, the other's verdicts stand and the failure is told."""

    kind: Kind = "unified"

    def __init__(self, prm: Judge, orm: Judge) -> None:
        if (prm.kind, orm.kind) != ("prm", "orm"):
            raise UserError(
                f"Two judges are a prm and an orm, in this order; {prm.name} is {prm.kind}, {orm.name} is {orm.kind}."
            )
        self.prm, self.orm = prm, orm
        self.name = f"{prm.name},{orm.name}"

    async def identity(self) -> Mapping[str, Any]:
        prm, orm = await asyncio.gather(self.prm.identity(), self.orm.identity())
        return {"home": "separate", "kind": self.kind, "prm": dict(prm), "orm": dict(orm)}

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        steps, pairs = await asyncio.gather(self.prm.judge(cases, orders=orders), self.orm.judge(cases, orders=orders))
        return [_joined(step, pair) for step, pair in zip(steps, pairs, strict=True)]

    async def close(self) -> None:
        await asyncio.gather(self.prm.close(), self.orm.close())


def _joined(steps: Judgement, pairs: Judgement) -> Judgement:
    failures = [found.failure for found in (steps, pairs) if found.failure]
    return Judgement(
        id=steps.id,
        complete=steps.complete,
        steps=steps.steps,
        pairs=pairs.pairs,
        failure=" ".join(dict.fromkeys(failures)) or None,
        tokens=steps.tokens + pairs.tokens,
    )
