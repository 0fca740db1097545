"""What training uses: a judge within a budget of time, that never raises and says what it could not judge.

client      JudgeClient
step        one step: pieces, retries, giving up
rehearsal   the check before a training starts
trial       the cases it is checked with
background  an event loop in a thread of its own

One step of a training before the judge: its cases in pieces, what is known of each, and when to give one up.

A piece that got no answer is tried again after a pause that grows. When the judge did answer, but not usably, the
piece is halved: so one case that nobody can judge (it is too large, it makes the server fail) ends up alone, and is
given up when others were judged meanwhile. While nothing at all is judged the trouble is the judge's, and only the
budget ends the trying.

The judge as a training asks it: a step's cases at once, within a time budget, whatever the judge does.

    client = JudgeClient(HttpJudge("http://127.0.0.1:8020"), budget=60.0)
    report = client.check(kind="unified")        # before the training starts; UserError says what is wrong
    judgements = client.judge_all(cases)         # in a step; never raises for anything the judge does

Cases go out in pieces, a bounded number at a time, and again when they got no answer (`step`). When the budget ends,
whatever is not judged comes back with a `failure` that begins with its kind (`wire.FailureKind`), and is counted.

A judge that was found dead does not cost the budget again: each later step first sends one small case, and only when
that is judged the rest. So it comes back by itself, with the first step in which it answers.

Everything runs in an event loop of a thread of its own, begun with the first use: the caller may be any thread of any
process, forked or spawned, with a loop of its own or without.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import threading
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import msgspec

from compeer.errors import UserError
from compeer.reasoning.ontology import Language
from compeer.reward.background_loop import Background
from compeer.reward.case import Case, parted
from compeer.reward.judge import Judge, Judgement, Orders
from compeer.reward.rehearsal import GOOD, Rehearsal, identity_of, rehearse
from compeer.reward.remote_judge import HttpJudge
from compeer.reward.verdict import Kind
from compeer.reward.wire import FailureKind, JudgeError, failed, failure_kind, lack, problem_with

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between two attempts
_ENOUGH = 3  # attempts at a single case that fails while others are judged, or at anything when no budget ends them


class Piece:
    """Cases that are sent together, by their places in the step."""

    def __init__(self, places: list[int], tries: int = 0, not_before: float = 0.0, seen: int = 0) -> None:
        self.places, self.tries, self.not_before = places, tries, not_before
        self.seen = seen  # pieces that had been judged when this one first failed


class Step:
    """The cases of one call, its budget in seconds, and what is known so far."""

    def __init__(self, cases: Sequence[Case], budget: float) -> None:
        self.cases, self.budget = list(cases), budget
        self.began = time.monotonic()
        self.open = len(self.cases)  # cases that are neither judged nor given up
        self.found: dict[int, Judgement] = {}
        self.failures: dict[int, tuple[FailureKind, str]] = {}  # the last one of each case that had any
        self.hopeless: set[int] = set()  # cases that were given up for themselves
        self.retried = 0
        self.last_failed = False
        self.result: list[Judgement] | None = None
        self._pieces: deque[Piece] = deque()
        self._judged = 0  # pieces

    @property
    def left(self) -> float:
        """Seconds of the budget."""
        return self.began + self.budget - time.monotonic()

    @property
    def endless(self) -> bool:
        return math.isinf(self.budget)

    def part(self, size: int) -> int:
        """Cut the cases into pieces; how many there are."""
        self._pieces.extend(Piece(list(places)) for places in parted(self.cases, size))
        return len(self._pieces)

    def next(self) -> Piece | None:
        """The first piece that may be sent now."""
        now = time.monotonic()
        piece = next((piece for piece in self._pieces if piece.not_before <= now), None)
        if piece is not None:
            self._pieces.remove(piece)
            self.retried += len(piece.places) if piece.tries else 0
        return piece

    def answered(self, piece: Piece, answers: Sequence[Judgement], kind: Kind) -> None:
        """Keep what was judged, and try again what lacks an answer."""
        lacking: dict[str, tuple[JudgeError, list[int]]] = {}
        for place, answer in zip(piece.places, answers, strict=True):
            error = lack(self.cases[place], answer, kind)
            if error is None:
                self.found[place] = answer
                self.open -= 1
            else:
                lacking.setdefault(str(error), (error, []))[1].append(place)
        missing = sum(len(places) for _, places in lacking.values())
        self._judged += missing < len(piece.places)
        for error, places in lacking.values():
            self.failed(Piece(places, piece.tries, seen=piece.seen), error)
        self.last_failed = missing == len(piece.places)

    def failed(self, piece: Piece, error: JudgeError) -> None:
        """Note it, and put the piece back, whole or in halves, unless trying again is of no use."""
        self.failures |= dict.fromkeys(piece.places, (error.kind, str(error)))
        self.last_failed = True
        tries, alone = piece.tries + 1, len(piece.places) == 1
        seen = piece.seen if piece.tries else self._judged
        answered = error.kind not in ("time", "connection")
        enough = tries >= _ENOUGH and (self._judged > seen or self.endless)
        hopeless = alone and answered and (error.again == "smaller" or enough)
        if hopeless or error.again == "never" or (self.endless and enough and (alone or not answered)):
            self.hopeless |= set(piece.places) if hopeless else set()
            self.open -= len(piece.places)
            return
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**piece.tries) * random.uniform(0.5, 1.0)
        not_before = time.monotonic() + (0.0 if error.again == "smaller" else pause)
        middle = len(piece.places) // 2 if answered else 0
        halves = [piece.places[:middle], piece.places[middle:]] if middle else [piece.places]
        self._pieces.extend(Piece(places, tries, not_before, seen) for places in halves)

    def close(self) -> list[Judgement]:
        """What was found, and a failure for everything else."""
        late: tuple[FailureKind, str] = ("time", f"the {self.budget:g} s for a step were over")
        self.result = [
            self.found.get(place) or failed(case, *self.failures.get(place, late))
            for place, case in enumerate(self.cases)
        ]
        return self.result

    @property
    def died(self) -> bool:
        """Whether it looks as if the judge were gone: nothing was judged, or the last attempts failed."""
        lost = len(self.cases) - len(self.found) - len(self.hopeless)
        judged = any(judgement.failure is None for judgement in self.found.values())
        return bool(self.cases) and (not judged or (lost > 0 and self.last_failed))


T = TypeVar("T")


class Counts(msgspec.Struct):
    """What became of all cases so far: `judged` and the values of `failed` add up to `cases`."""

    steps: int = 0
    cases: int = 0
    judged: int = 0
    failed: dict[str, int] = {}
    retried: int = 0  # cases sent again after an attempt that failed
    recovered: int = 0  # cases judged after an attempt that failed
    outages: int = 0  # times the judge was found dead
    probes: int = 0  # small cases sent to see whether it is back
    seconds: float = 0.0  # that steps have waited


class JudgeClient:
    """A judge, asked patiently but not for ever.

    `budget`: seconds for one step; `attempt`: for one attempt at a piece (default: half the budget); `chunk`: cases of
    a piece (default: 32, or 1 where each case is asked by itself); `concurrency`: pieces in flight (8, or 16).
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
        self.judge, alone = _impatient(judge, self.attempt)
        self.concurrency, self.chunk = concurrency or (16 if alone else 8), chunk or (1 if alone else 32)
        self.orders: Orders = orders
        self.counts = Counts()
        self.dead: str | None = None  # why it was given up, until it answers again
        self._background = Background("judge-client")
        self._counting = threading.Lock()

    def judge_all(self, cases: Sequence[Case], *, budget: float | None = None) -> list[Judgement]:
        """A judgement for each case, in their order, within the budget."""
        step = Step(cases, self.budget if budget is None else budget)
        future = self._background.submit(self._run(step))
        # a judge that blocks its loop cannot be interrupted from inside; then the step ends without it
        limit = None if step.endless else step.budget * 1.2 + 1.0
        try:
            return future.result(limit)
        except (TimeoutError, CancelledError):
            future.cancel()
            return self._finish(step)

    async def judge_all_async(self, cases: Sequence[Case], *, budget: float | None = None) -> list[Judgement]:
        """The same for a caller in an event loop."""
        return await self._background.elsewhere(self._run(Step(cases, self.budget if budget is None else budget)))

    def alive(self) -> bool:
        """Whether the judge judges a small case now, asked within a fraction of the budget."""
        return self._wait(self._back(Step((), self.budget)), None)

    def identity(self, *, wait: float = 60.0) -> dict[str, Any]:
        """What the judge is; UserError when it cannot be reached. One that is still loading is given `wait` seconds."""
        return self._wait(identity_of(self.judge, wait), None)

    def warm(self) -> None:
        """Have a small case judged, which loads a judge that lives in this process; UserError when that fails."""
        answer = self._wait(self._ask([GOOD["en"]], self.attempt, "one"), None)[0]
        if answer.failure is not None:
            raise JudgeError("judge", f"{self.judge.name} cannot judge a first, easy case: {answer.failure}")

    def check(
        self, *, kind: Kind | None = None, languages: Sequence[Language] = ("en",), wait: float = 60.0
    ) -> Rehearsal:
        """Ask the judge who it is, and have it judge a good and a bad case; UserError when it is of no use.

        `kind` is what is needed; a service that is still loading is given `wait` seconds.
        """
        return self._wait(rehearse(self.judge, kind=kind, languages=languages, orders=self.orders, wait=wait), None)

    def close(self) -> None:
        """Close the judge too."""
        with contextlib.suppress(Exception):
            self._wait(self.judge.close(), 5.0)
        self._background.close()

    def __enter__(self) -> JudgeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_counting": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state | {"_counting": threading.Lock()}

    def _wait(self, coroutine: Coroutine[Any, Any, T], limit: float | None) -> T:
        return self._background.submit(coroutine).result(limit)

    async def _run(self, step: Step) -> list[Judgement]:
        if step.cases and (self.dead is None or await self._back(step)):
            pieces = step.part(self.chunk)
            workers = [asyncio.create_task(self._work(step)) for _ in range(min(self.concurrency, pieces))]
            _, late = await asyncio.wait(workers, timeout=None if step.endless else max(0.0, step.left))
            for worker in late:
                worker.cancel()
            if late:
                await asyncio.wait(late, timeout=1.0)  # a judge that ignores being cancelled is left behind
        return self._finish(step)

    async def _work(self, step: Step) -> None:
        """Send piece after piece, until every case is judged or given up."""
        while step.open > 0:
            piece = step.next()
            if piece is None:
                await asyncio.sleep(0.02)  # the others are under way, or wait for their next attempt
                continue
            cases = [step.cases[place] for place in piece.places]
            try:
                step.answered(piece, await self._ask(cases, min(self.attempt, step.left)), self.judge.kind)
                self.dead = self.dead if step.last_failed else None
            except JudgeError as error:
                step.failed(piece, error)

    async def _ask(self, cases: Sequence[Case], limit: float, orders: Orders | None = None) -> list[Judgement]:
        """One attempt. Whatever the judge does, it ends in judgements or in a JudgeError."""
        try:
            async with asyncio.timeout(None if limit == float("inf") else max(0.05, limit)):
                answers = await self.judge.judge(cases, orders=orders or self.orders)
        except JudgeError:
            raise
        except TimeoutError:
            raise JudgeError("time", f"no answer within {limit:.3g} s") from None
        except UserError as error:
            raise JudgeError("judge", str(error)) from error
        except Exception as error:
            raise JudgeError("judge", f"{self.judge.name} failed: {type(error).__name__}: {error}") from error
        if unusable := problem_with(cases, answers):
            raise JudgeError("nonsense", f"{self.judge.name} gave {unusable}")
        return answers

    async def _back(self, step: Step) -> bool:
        """Whether a judge that was dead answers again: one small case, a fraction of the budget."""
        with self._counting:
            self.counts.probes += 1
        try:
            limit = step.budget if step.endless else min(10.0, step.budget / 4)
            answer = (await self._ask([GOOD["en"]], limit, "one"))[0]
            if error := lack(GOOD["en"], answer, self.judge.kind):
                raise error
            if answer.failure is not None:
                raise JudgeError(failure_kind(answer.failure), answer.failure)
            self.dead = None
            return True
        except JudgeError as error:
            why = (error.kind, f"the judge is not back: {error}")
            step.failures = dict.fromkeys(range(len(step.cases)), why)
            return False

    def _finish(self, step: Step) -> list[Judgement]:
        """Close the step and count it, once."""
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


def _impatient(judge: Judge, attempt: float) -> tuple[Judge, bool]:
    """The judge without a patience of its own, for the trying again is done here, where the budget is known; and
    whether it asks about each case alone, so that nothing is gained by sending several together.
    """
    from compeer.models.endpoint import Endpoint
    from compeer.reward.chat_judge import AskedJudge

    if isinstance(judge, HttpJudge):
        return judge.impatient(min(600.0, attempt)), False
    if isinstance(judge, AskedJudge) and isinstance(judge.model, Endpoint):
        own, most = judge.model.patience, 0.8 * attempt
        shorter = {"patience": min(own.patience, most), "timeout": min(own.timeout, most)}
        judge.model.patience = msgspec.structs.replace(own, **shorter)
    return judge, isinstance(judge, AskedJudge)
