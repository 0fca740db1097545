"""Two judges in the place of one: a PRM for the steps and an ORM for the pair, asked side by side.

This is the baseline that the paper's unified judge is compared with. To everybody else it is one judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from compeer.errors import UserError
from compeer.reward.case import Case
from compeer.reward.judge import Judge, Judgement, Orders
from compeer.reward.verdict import Kind


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
