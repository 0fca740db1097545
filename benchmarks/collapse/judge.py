"""A judge that likes one reply best, served as judges are (`compeer.reward.service`), in a process of its own.

The thinking is right. Of a reply it likes one sentence in each of three places; the more of them, the surer it is that
the reply is the better one. So the reward before equation 5 is 3, 3.67, 4.33 or 5, and the shortest way up is to say
these three to everybody. A reply that is not three whole sentences of this world is no reply: nothing in it is liked,
and the strategy is wrong. (A judge that overlooked this was gamed: most runs, with and without equation 5, ended in its
favourite with noise added, which such a judge likes as much.)

    python -m benchmarks.collapse.judge
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from benchmarks.collapse.world import FAVOURITE, sentences
from compeer.cer.item import Preference
from compeer.reward.case import Case
from compeer.reward.judge import Judgement, Orders, PairVerdict, StepVerdict
from compeer.reward.verdict import Kind


class Fond:
    """The rule."""

    kind: Kind = "unified"
    name = "fond of three sentences"

    async def identity(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "rule": list(FAVOURITE)}

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        return [self.one(case) for case in cases]

    async def close(self) -> None:
        pass

    def one(self, case: Case) -> Judgement:
        said = sentences(case.reply)
        liked = sum(one == wanted for one, wanted in zip(said, FAVOURITE, strict=True)) / 3 if said else 0.0
        right = (True, True, said is not None)
        first, second, third = (
            StepVerdict() if step is None else StepVerdict(value, float(value))
            for step, value in zip(case.steps, right, strict=True)
        )
        p: dict[Preference, float] = {"candidate": liked, "reference": 1 - liked, "both": 0.0, "neither": 0.0}
        better: Preference = "candidate" if liked > 0.5 else "reference"
        pairs = (PairVerdict(True, better, p),) if case.comparable else ()
        return Judgement(id=case.id, complete=case.complete, steps=(first, second, third), pairs=pairs)


class Served:
    """`with Served() as url`: the judge's process while it lasts."""

    def __enter__(self) -> str:
        command = [sys.executable, "-m", "benchmarks.collapse.judge"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the judge did not start: {line!r}")
        return line.removeprefix("listening on ").strip()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


if __name__ == "__main__":
    from compeer.reward.service import ServiceSettings, serve

    asyncio.run(serve(Fond(), ServiceSettings(port=0, patience=0.0)))
