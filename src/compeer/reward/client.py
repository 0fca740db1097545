"""The judge as a training run uses it: all cases of a step at once, within a time budget, never raising.

    client = JudgeClient(RemoteJudge("http://127.0.0.1:8020"), budget=60.0)
    report = client.check(kind="unified")        # before the training starts; UserError says what is wrong
    judgements = client.judge_all(cases)         # in a step; never raises for anything the judge does

Cases are sent in pieces, a bounded number at a time. A piece without an answer is sent again after a growing pause.
When the judge did answer, but not usably, the piece is halved, so that a case that cannot be judged (too large, or it
makes the server fail) ends up alone and is given up once others were judged. While nothing at all is judged, the judge
is the problem, and only the budget ends the attempts. What is not judged by then comes back with a `failure` that
begins with its kind (`FailureKind`), and is counted.

A judge that was found dead does not cost the whole budget again: each later step first sends one small case, and the
rest only when that is judged. So training continues with the first step in which the judge answers.

Everything runs in an event loop in its own thread, started with the first use. The caller may be any thread of any
process, forked or spawned, with or without an event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import threading
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import msgspec

from compeer.errors import UserError
from compeer.models.request import FailureKind
from compeer.reasoning import STEPS
from compeer.reasoning.ontology import Language
from compeer.reward.background_loop import BackgroundLoop
from compeer.reward.case import Case, split_by_history, trial_case
from compeer.reward.judge import (
    Judge,
    JudgeError,
    Judgement,
    Orders,
    failed_judgement,
    failure_kind,
    fingerprint,
    missing_answer,
    reply_problem,
)
from compeer.reward.remote_judge import RemoteJudge
from compeer.reward.verdict import Kind

T = TypeVar("T")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between two attempts
_ENOUGH = 3  # attempts at a case that fails while others are judged, or at anything when there is no budget


class JudgeCounts(msgspec.Struct):
    """What became of all cases so far: `judged` and the values of `failed` add up to `cases`."""

    steps: int = 0
    cases: int = 0
    judged: int = 0
    failed: dict[str, int] = {}
    retried: int = 0  # cases sent again after a failed attempt
    recovered: int = 0  # cases judged after a failed attempt
    outages: int = 0  # times the judge was found dead
    probes: int = 0  # small cases sent to see whether it is back
    seconds: float = 0.0  # waiting time of all steps


class JudgeClient:
    """A judge with retries and a time budget.

    `budget`: seconds per step. `attempt`: seconds per attempt at a piece (default: half the budget). `chunk`: cases
    per piece (default: 32, or 1 where each case is asked by itself). `concurrency`: pieces in flight (8, or 16).
    """

    def __init__(
        self,
        judge: Judge,
        *,
        budget: float = 60.0,
        attempt: float | None = None,
        concurrency: int | None = None,
        chunk: int | None = None,
        orders: Orders = "one",
    ) -> None:
        self.budget, self.attempt = budget, attempt or budget / 2
        self.judge, alone = _without_own_retries(judge, self.attempt)
        self.concurrency, self.chunk = concurrency or (16 if alone else 8), chunk or (1 if alone else 32)
        self.orders: Orders = orders
        self.counts = JudgeCounts()
        self.dead: str | None = None  # why the judge was given up, until it answers again
        self._background = BackgroundLoop("judge-client")
        self._counting = threading.Lock()

    def judge_all(self, cases: Sequence[Case]) -> list[Judgement]:
        """A judgement per case, in the order of the cases, within the budget."""
        step = _Step(cases, self.budget)
        future = self._background.submit(self._run(step))
        # a judge that blocks its loop cannot be interrupted from inside; then the step ends without it
        limit = None if step.endless else step.budget * 1.2 + 1.0
        try:
            return future.result(limit)
        except (TimeoutError, CancelledError):
            future.cancel()
            return self._finish(step)

    def alive(self) -> bool:
        """Whether the judge judges a small case now, within a fraction of the budget."""
        return self._wait(self._is_back(_Step((), self.budget)))

    def identity(self, *, wait: float = 60.0) -> dict[str, Any]:
        """The judge's identity; UserError when it cannot be reached. A judge that is loading gets `wait` seconds."""
        return self._wait(self._identity(wait))

    def warm(self) -> None:
        """Have a small case judged, which loads a judge in this process; UserError when that fails."""
        self._wait(self._try(trial_case("good", "en"), "one"))

    def check(
        self, *, kind: Kind | None = None, languages: Sequence[Language] = ("en",), wait: float = 60.0
    ) -> JudgeCheck:
        """Ask the judge what it is, and have it judge a plainly good and a plainly bad case, one at a time.

        `kind` is what is needed; a service that is loading gets `wait` seconds. A judge that cannot be reached, is of
        the wrong kind or answers nonsense is a UserError. One that cannot tell the two cases apart is only a warning:
        training a judge begins with such a one.
        """
        return self._wait(self._check(kind, languages, wait))

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._background.submit(self.judge.close()).result(5.0)
        self._background.close()

    def __enter__(self) -> JudgeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_counting": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state | {"_counting": threading.Lock()}

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._background.submit(coroutine).result()

    async def _run(self, step: _Step) -> list[Judgement]:
        if step.cases and (self.dead is None or await self._is_back(step)):
            gate = asyncio.Semaphore(self.concurrency)
            pieces = split_by_history(step.cases, self.chunk)
            tasks = [asyncio.create_task(self._judge(step, gate, list(places))) for places in pieces]
            _, late = await asyncio.wait(tasks, timeout=None if step.endless else max(0.0, step.left))
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1.0)  # a judge that ignores being cancelled is left behind
        return self._finish(step)

    async def _judge(
        self, step: _Step, gate: asyncio.Semaphore, places: list[int], tries: int = 0, seen: int | None = None
    ) -> None:
        """Judge the cases at these places together, and retry those without an answer.

        `seen`: how many pieces had been judged when this one first failed.
        """
        lacking: list[tuple[JudgeError, list[int]]]
        async with gate:
            step.retried += len(places) if tries else 0
            before = step.judged
            try:
                answers = await self._ask([step.cases[place] for place in places], min(self.attempt, step.left))
                lacking = step.take(places, answers, self.judge.kind)
                self.dead = self.dead if step.last_failed else None
            except JudgeError as error:
                lacking, step.last_failed = [(error, places)], True
        seen = step.judged if seen is None else seen
        await asyncio.gather(*(self._judge_again(step, gate, *one, tries + 1, seen, before) for one in lacking))

    async def _judge_again(
        self,
        step: _Step,
        gate: asyncio.Semaphore,
        error: JudgeError,
        places: list[int],
        tries: int,
        seen: int,
        before: int,
    ) -> None:
        """Try again after a pause, in halves if the judge did answer, unless trying is of no use.

        `before`: how many pieces had been judged when the last attempt began. An attempt that began in an outage and
        ended after it says nothing about its case.
        """
        step.failures |= dict.fromkeys(places, (error.kind, str(error)))
        alone, answered = len(places) == 1, error.kind not in ("time", "connection")
        enough = tries >= _ENOUGH and (before > seen or step.endless)
        if alone and answered and (error.again == "smaller" or enough):
            step.hopeless.add(places[0])
            return
        if error.again == "never" or (step.endless and enough and (alone or not answered)):
            return
        if error.again != "smaller":
            await asyncio.sleep(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** (tries - 1)) * random.uniform(0.5, 1.0))
        middle = len(places) // 2 if answered else 0
        halves = [places[:middle], places[middle:]] if middle else [places]
        await asyncio.gather(*(self._judge(step, gate, half, tries, seen) for half in halves))

    async def _ask(self, cases: Sequence[Case], limit: float, orders: Orders | None = None) -> list[Judgement]:
        """One attempt. Whatever the judge does, it ends in judgements or in a JudgeError."""
        try:
            async with asyncio.timeout(None if math.isinf(limit) else max(0.05, limit)):
                answers = await self.judge.judge(cases, orders=orders or self.orders)
        except JudgeError:
            raise
        except TimeoutError:
            raise JudgeError("time", f"no answer within {limit:.3g} s") from None
        except UserError as error:
            raise JudgeError("judge", str(error)) from error
        except Exception as error:
            raise JudgeError("judge", f"{self.judge.name} failed: {type(error).__name__}: {error}") from error
        if problem := reply_problem(cases, answers):
            raise JudgeError("nonsense", f"{self.judge.name} gave {problem}")
        return answers

    async def _try(self, case: Case, orders: Orders | None = None, limit: float = math.inf) -> Judgement:
        """A trial case judged, or a JudgeError that says why not."""
        try:
            answer = (await self._ask([case], limit, orders))[0]
        except JudgeError as error:
            raise JudgeError(error.kind, f"The judge did not judge an easy case. {error}") from None
        if answer.failure is not None:
            why = f"{self.judge.name} could not judge an easy case: {answer.failure}"
            raise JudgeError(failure_kind(answer.failure), why)
        if missing_answer(case, answer, self.judge.kind):
            reasons = [step.reason for step in answer.steps] + [pair.reason for pair in answer.pairs]
            example = next((f" It said: {text[:120]!r}." for text in reasons if text), "")
            raise JudgeError("nonsense", f"{self.judge.name} gave no verdict at all on an easy case.{example}")
        return answer

    async def _is_back(self, step: _Step) -> bool:
        """Whether a judge that was dead answers again: one small case, a fraction of the budget."""
        with self._counting:
            self.counts.probes += 1
        try:
            await self._try(
                trial_case("good", "en"), "one", step.budget if step.endless else min(10.0, step.budget / 4)
            )
            self.dead = None
            return True
        except JudgeError as error:
            why = (error.kind, f"the judge is not back: {error}")
            step.failures = dict.fromkeys(range(len(step.cases)), why)
            return False

    async def _identity(self, wait: float) -> dict[str, Any]:
        ends = time.monotonic() + wait
        while True:
            try:
                return dict(await self.judge.identity())
            except JudgeError as error:
                if error.kind == "nonsense" or error.again != "later" or time.monotonic() > ends:
                    raise
                await asyncio.sleep(0.5)

    async def _check(self, kind: Kind | None, languages: Sequence[Language], wait: float) -> JudgeCheck:
        identity, judge = await self._identity(wait), self.judge
        if kind is not None and judge.kind != kind:
            raise UserError(f"{judge.name} is a judge of the kind {judge.kind}; {kind} is needed.")
        tried: list[Judgement] = []
        warnings: list[str] = []
        for language in languages:
            good, bad = await self._try(trial_case("good", language)), await self._try(trial_case("bad", language))
            tried += [good, bad]
            if good.total <= bad.total:
                warnings.append(
                    f"It gives the plainly good case in {language} {good.total} and the plainly bad one {bad.total}: "
                    "it has not learnt to judge, or does not know the language."
                )
            missing = [*_unanswered(good, judge.kind), *_unanswered(bad, judge.kind)]
            warnings += [f"It gave no verdict on {what}." for what in missing]
        return JudgeCheck(judge.name, judge.kind, fingerprint(identity), identity, tuple(tried), tuple(warnings))

    def _finish(self, step: _Step) -> list[Judgement]:
        """Close the step and add it to the counts, once."""
        with self._counting:
            if step.result is not None:
                return step.result
            result, counts = step.close(), self.counts
            good = [judgement.failure is None for judgement in result]
            counts.steps += 1
            counts.cases += len(result)
            counts.judged += sum(good)
            counts.retried += step.retried
            counts.recovered += sum(good[place] for place in step.failures)
            counts.seconds += time.monotonic() - step.began
            for judgement in result:
                if judgement.failure is not None:
                    kind = failure_kind(judgement.failure)
                    counts.failed[kind] = counts.failed.get(kind, 0) + 1
            if step.died:
                counts.outages += self.dead is None
                self.dead = next(judgement.failure for judgement in result if judgement.failure is not None)
            return result


def _without_own_retries(judge: Judge, attempt: float) -> tuple[Judge, bool]:
    """The judge without retries of its own, because they are done here, where the budget is known; and whether it asks
    about each case alone, so that nothing is gained by sending several together."""
    from compeer.models.endpoint import Endpoint
    from compeer.reward.chat_judge import ChatJudge

    if isinstance(judge, RemoteJudge):
        return judge.without_retries(min(600.0, attempt)), False
    if isinstance(judge, ChatJudge) and isinstance(judge.model, Endpoint):
        own, most = judge.model.patience, 0.8 * attempt
        shorter = {"patience": min(own.patience, most), "timeout": min(own.timeout, most)}
        judge.model.patience = msgspec.structs.replace(own, **shorter)
    return judge, isinstance(judge, ChatJudge)


class _Step:
    """The cases of one call, its budget in seconds, and what is known so far."""

    def __init__(self, cases: Sequence[Case], budget: float) -> None:
        self.cases, self.budget = list(cases), budget
        self.began = time.monotonic()
        self.found: dict[int, Judgement] = {}
        self.failures: dict[int, tuple[FailureKind, str]] = {}  # the last failure of each case that had any
        self.hopeless: set[int] = set()  # cases that were given up because of themselves
        self.judged = 0  # pieces of which something was judged
        self.retried = 0
        self.last_failed = False
        self.result: list[Judgement] | None = None

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.began + self.budget - time.monotonic()

    @property
    def endless(self) -> bool:
        return math.isinf(self.budget)

    @property
    def died(self) -> bool:
        """Whether the judge seems to be gone: nothing was judged, or the last attempts failed."""
        lost = len(self.cases) - len(self.found) - len(self.hopeless)
        judged = any(judgement.failure is None for judgement in self.found.values())
        return bool(self.cases) and (not judged or (lost > 0 and self.last_failed))

    def take(
        self, places: Sequence[int], answers: Sequence[Judgement], kind: Kind
    ) -> list[tuple[JudgeError, list[int]]]:
        """Keep the judged cases; return the others, grouped by their error."""
        lacking: dict[str, tuple[JudgeError, list[int]]] = {}
        for place, answer in zip(places, answers, strict=True):
            error = missing_answer(self.cases[place], answer, kind)
            if error is None:
                self.found[place] = answer
            else:
                lacking.setdefault(str(error), (error, []))[1].append(place)
        self.last_failed = sum(len(some) for _, some in lacking.values()) == len(places)
        self.judged += not self.last_failed
        return list(lacking.values())

    def close(self) -> list[Judgement]:
        late: tuple[FailureKind, str] = ("time", f"the {self.budget:g} s for a step were over")
        self.result = [
            self.found.get(place) or failed_judgement(case, *self.failures.get(place, late))
            for place, case in enumerate(self.cases)
        ]
        return self.result


class JudgeCheck(msgspec.Struct, frozen=True):
    """What the judge is, to be recorded with what it judges, and how it judged the trial cases."""

    name: str
    kind: Kind
    fingerprint: str
    identity: dict[str, Any]
    tried: tuple[Judgement, ...]
    warnings: tuple[str, ...] = ()


def _unanswered(tried: Judgement, kind: Kind) -> list[str]:
    """Questions that a judge of this kind is asked and has not answered."""
    missing = [step for step, verdict in zip(STEPS, tried.steps, strict=True) if verdict.value is None]
    asked = [] if kind == "orm" else missing
    preferred = any(pair.preference for pair in tried.pairs)
    return [f"the {name} of {tried.id}" for name in (asked if kind == "prm" or preferred else [*asked, "replies"])]
