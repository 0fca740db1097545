"""A judge that likes one reply best, served as judges are (`compeer.reward.serve`), in a process of its own.

Every step is right. Of the reply it likes each of three sentences; the more of them, the surer it is that the reply is
the better one. So the reward before equation 5 is 3, 3.67, 4.33 or 5, and the shortest way up is to say these three to
everybody.

    python -m benchmarks.collapse.judge
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from benchmarks.collapse.world import FAVOURITE
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
        first, second, third = (StepVerdict(None) if step is None else StepVerdict(True, 1.0) for step in case.steps)
        liked = sum(sentence in case.reply for sentence in FAVOURITE) / len(FAVOURITE)
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
    from compeer.reward.serve import serve
    from compeer.reward.service import Settings

    asyncio.run(serve(Fond(), Settings(port=0, patience=0.0)))
