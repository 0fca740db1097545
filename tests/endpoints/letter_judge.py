"""A judge with a simple rule, as a real HTTP service in a process of its own.

    with LetterJudge() as judge: RemoteJudge(judge.url)

The more often a reply has the letter, the surer the judge is that it is the better one; steps are right when they are
there. So a model that can write nothing sensible can still learn to please it. `python -m tests.endpoints.letter_judge
--letter e --port 0` prints `listening on http://127.0.0.1:PORT`.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tests.endpoints.process import ROOT, environment

from compeer.reward.case import Case
from compeer.reward.judge import Judgement, Orders, PairVerdict, StepVerdict, shown_orders
from compeer.reward.service import ServiceSettings, serve


class ByLetter:
    """The rule. `share` of the letter among the reply's characters; a fifth of them is as good as it gets."""

    kind = "unified"

    def __init__(self, letter: str = "e", latency: float = 0.0) -> None:
        self.letter, self.latency = letter, latency
        self.name = f"letter {letter}"

    async def identity(self) -> Mapping[str, Any]:
        return {"rule": "letter", "letter": self.letter}

    async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
        if self.latency:
            await asyncio.sleep(self.latency)
        return [self.one(case, orders) for case in cases]

    def one(self, case: Case, orders: Orders = "one") -> Judgement:
        first, second, third = (StepVerdict(value=None if step is None else True) for step in case.steps)
        if not case.comparable:
            return Judgement(id=case.id, complete=case.complete, steps=(first, second, third))
        sure = min(1.0, 5 * case.reply.lower().count(self.letter) / len(case.reply))
        p = {"candidate": sure, "reference": 1 - sure, "both": 0.0, "neither": 0.0}
        preferred = "candidate" if sure > 0.5 else "reference"
        pairs = [PairVerdict(placed, preferred, p) for placed in shown_orders(case, orders)]  # type: ignore[arg-type]
        return Judgement(id=case.id, complete=case.complete, steps=(first, second, third), pairs=tuple(pairs))

    async def close(self) -> None:
        pass


class LetterJudge:
    """The service as a test holds it: started, killed, started again at the same port."""

    def __init__(self, letter: str = "e", port: int = 0, latency: float = 0.0) -> None:
        self.letter, self.port, self.latency = letter, port, latency
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> LetterJudge:
        words = ["--letter", self.letter, "--port", str(self.port), "--latency", str(self.latency)]
        command = [sys.executable, "-m", "tests.endpoints.letter_judge", *words]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(f"the judge did not start: {line!r}")
        self.port = int(line.rpartition(":")[2])
        return self

    def kill(self) -> None:
        """kill -9, as a machine that loses power."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def __enter__(self) -> LetterJudge:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--letter", default="e")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--latency", type=float, default=0.0)
    chosen = options.parse_args()
    asyncio.run(serve(ByLetter(chosen.letter, chosen.latency), ServiceSettings(port=chosen.port)))
