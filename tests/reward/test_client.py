"""The judge as a training asks it: whatever the judge does, a step ends in time, says what it lacks, and recovers.

Budgets are compared generously (less than twice), never to the second.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from tests.models.serving import Server, fault, said, serving
from tests.reward.judge_process import JudgeProcess, gold_cases
from tests.reward.rule_judge import Awkward, RuleJudge

from compeer.models.endpoint import Endpoint
from compeer.reward.case import Case, trial_case
from compeer.reward.chat_judge import ChatJudge
from compeer.reward.client import JudgeClient, JudgeCounts
from compeer.reward.judge import JudgeError, Judgement, Orders, StepVerdict, failure_kind
from compeer.reward.remote_judge import RemoteJudge

BUDGET = 1.6


@pytest.fixture(scope="module")
def running() -> Iterator[JudgeProcess]:
    with JudgeProcess() as process:
        yield process


@pytest.fixture
def server(running: JudgeProcess) -> Iterator[JudgeProcess]:
    """A service that many tests share; each finds it well."""
    yield running
    running.fault("none")


def until_judged(client: JudgeClient, cases: Sequence[Case]) -> list[Judgement]:
    """The first step in which the judge is back: on a busy machine the very first look may come too late."""
    deadline = time.monotonic() + 20
    while True:
        answers = client.judge_all(cases)
        if client.dead is None or time.monotonic() > deadline:
            return answers


def client_of(process: JudgeProcess, **options: Any) -> JudgeClient:
    return JudgeClient(RemoteJudge(process.url), **({"budget": BUDGET, "chunk": 8, "concurrency": 4} | options))


def expected(cases: Sequence[Case], orders: Orders = "one") -> list[Judgement]:
    return asyncio.run(RuleJudge().judge(cases, orders=orders))


def timed(client: JudgeClient, cases: Sequence[Case]) -> tuple[list[Judgement], float]:
    began = time.monotonic()
    return client.judge_all(cases), time.monotonic() - began


def kinds(judgements: Sequence[Judgement]) -> set[str]:
    return {failure_kind(one.failure) if one.failure else "judged" for one in judgements}


def adds_up(counts: JudgeCounts) -> bool:
    return counts.judged + sum(counts.failed.values()) == counts.cases


class TestWell:
    def test_judgements_come_in_order_and_are_counted(self, server: JudgeProcess) -> None:
        cases = gold_cases(50, candidates=4)
        with client_of(server, orders="both") as client:
            assert client.judge_all(cases) == expected(cases, "both")
            assert client.judge_all([]) == []
            assert (client.counts.cases, client.counts.judged, client.counts.failed) == (50, 50, {})
            assert client.counts.steps == 2 and client.counts.retried == 0

    def test_a_bounded_number_is_in_flight(self) -> None:
        class Watched(RuleJudge):
            now = most = 0

            async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
                self.now += 1
                self.most = max(self.most, self.now)
                try:
                    return await super().judge(cases, orders=orders)
                finally:
                    self.now -= 1

        judge = Watched(delay=0.01)
        with JudgeClient(judge, chunk=4, concurrency=3) as client:
            assert kinds(client.judge_all(gold_cases(60))) == {"judged"}
        assert judge.most == 3 and max(judge.calls) == 4

    def test_it_serves_callers_in_a_loop_and_callers_in_threads(self) -> None:
        cases = gold_cases(12)
        with JudgeProcess(delay=0.02) as process, client_of(process) as client:

            async def inside() -> list[list[Judgement]]:
                return await asyncio.gather(*(asyncio.to_thread(client.judge_all, cases) for _ in range(3)))

            assert asyncio.run(inside()) == [expected(cases)] * 3
            found: list[list[Judgement]] = []
            threads = [threading.Thread(target=lambda: found.append(client.judge_all(cases))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert found == [expected(cases)] * 4
            assert client.counts.judged == client.counts.cases == 12 * 7


class TestOutages:
    @pytest.mark.parametrize(
        ("fault", "kind"), [("hang", "time"), ("garbage", "nonsense"), ("half", "connection"), ("500", "refused")]
    )
    def test_a_judge_that_fails_for_a_while_costs_one_budget_and_comes_back(
        self, server: JudgeProcess, fault: str, kind: str
    ) -> None:
        cases = gold_cases(32)
        with client_of(server) as client:
            assert kinds(client.judge_all(cases)) == {"judged"}
            server.fault(fault)
            answers, seconds = timed(client, cases)
            assert kinds(answers) == {kind} and seconds < 2 * BUDGET
            assert [one.id for one in answers] == [case.id for case in cases]
            assert client.dead is not None and client.counts.outages == 1 and client.counts.retried > 0

            retried = client.counts.retried
            answers, seconds = timed(client, cases)  # the second step only looks whether it is back
            assert kinds(answers) == {kind} and seconds < BUDGET
            assert "the judge is not back" in str(answers[0].failure)
            assert client.counts.probes == 1 and client.counts.retried == retried
            assert client.counts.failed == {kind: 64} and client.counts.judged == 32 and adds_up(client.counts)

            server.fault("none")
            assert until_judged(client, cases) == expected(cases)
            assert client.dead is None and client.counts.probes >= 2 and adds_up(client.counts)

    @pytest.mark.parametrize("fault", ["hang", "shuffled", "500"])
    def test_a_fault_shorter_than_the_budget_costs_nothing_but_time(self, server: JudgeProcess, fault: str) -> None:
        cases = gold_cases(32)
        with client_of(server, budget=20.0, attempt=1.0) as client:
            server.fault(fault)
            mend = threading.Timer(0.6, server.fault, ["none"])
            mend.start()
            assert client.judge_all(cases) == expected(cases)
            mend.join()
            assert client.counts.recovered == 32 and client.counts.retried >= 32
            assert client.counts.failed == {} and client.counts.outages == 0

    def test_killed_in_the_middle_and_started_again(self) -> None:
        cases = gold_cases(64)
        with JudgeProcess(delay=0.08, batch=8) as process, client_of(process, budget=20.0, concurrency=1) as client:
            found: list[list[Judgement]] = []
            step = threading.Thread(target=lambda: found.append(client.judge_all(cases)))
            step.start()
            _kill_after(process, 17)
            time.sleep(0.3)
            process.start()
            step.join()
            assert found == [expected(cases)]
            assert 0 < client.counts.recovered < 64 and client.counts.failed == {}

    def test_killed_for_good_in_the_middle_it_keeps_what_was_judged(self) -> None:
        cases = gold_cases(64)
        with JudgeProcess(delay=0.1, batch=8) as process, client_of(process, concurrency=1) as client:
            killer = threading.Thread(target=_kill_after, args=(process, 9))
            killer.start()
            answers, seconds = timed(client, cases)
            killer.join()
            assert {"judged", "connection"} <= kinds(answers) <= {"judged", "connection", "time"}
            assert seconds < 2 * BUDGET and adds_up(client.counts)
            assert 0 < client.counts.judged < 64
            good = [one for one in answers if one.failure is None]
            assert good == expected(cases)[: len(good)]
            answers, seconds = timed(client, cases)
            assert kinds(answers) == {"connection"} and seconds < BUDGET
            process.start()
            assert until_judged(client, cases[:8]) == expected(cases[:8])

    def test_a_judge_that_is_not_well_when_it_is_first_asked(self, server: JudgeProcess) -> None:
        cases = gold_cases(8)
        with client_of(server, budget=20.0) as client:
            server.fault("garbage")
            mend = threading.Timer(0.4, server.fault, ["none"])
            mend.start()
            assert client.judge_all(cases) == expected(cases)
            mend.join()
            assert client.counts.recovered == 8

    def test_nobody_there_at_all(self, free_port: int) -> None:
        with JudgeClient(RemoteJudge(f"http://127.0.0.1:{free_port}"), budget=BUDGET) as client:
            answers, seconds = timed(client, gold_cases(5))
            assert kinds(answers) == {"connection"} and seconds < 2 * BUDGET
            assert all(one.steps == (StepVerdict(),) * 3 and one.pairs == () for one in answers)

    def test_a_judge_that_is_too_slow_for_the_budget_gives_what_it_can(self) -> None:
        with JudgeProcess(delay=0.25, batch=8) as process, client_of(process, concurrency=1) as client:
            answers, seconds = timed(client, gold_cases(160))
            assert kinds(answers) == {"judged", "time"} and seconds < 2 * BUDGET and adds_up(client.counts)

    def test_another_judge_at_the_address_is_refused(self) -> None:
        cases = gold_cases(8)
        with JudgeProcess() as process, client_of(process) as client:
            client.check()
            process.kill()
            process.options["salt"] = "b"
            process.start()
            answers, seconds = timed(client, cases)
            assert kinds(answers) == {"refused"} and "Another judge answers" in str(answers[0].failure)
            assert seconds < BUDGET
            process.kill()
            process.options["salt"] = "a"
            process.start()
            assert until_judged(client, cases) == expected(cases)


def _kill_after(process: JudgeProcess, cases: int) -> None:
    """kill -9 when so many have been judged."""
    deadline = time.monotonic() + 20
    while process.metric("compeer_judge_cases_total") < cases and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()


class TestChatEndpoints:
    """The same when the judge is any chat model behind an OpenAI-compatible server."""

    @staticmethod
    def answered(server: Server, body: dict[str, Any]) -> Any:
        asked = body["messages"][-1]["content"]
        return said("True. It fits." if "True or False?" in asked else "The first sentence is better.")

    @pytest.mark.parametrize(
        ("fault", "kind"),
        [
            (lambda: fault(500, "out of memory"), "refused"),
            (lambda: fault(200, "<html>"), "nonsense"),
            (lambda: said("I would rather talk about the weather."), "nonsense"),
            (lambda: asyncio.sleep(3600), "time"),
        ],
        ids=["500", "garbage", "no verdicts", "hangs"],
    )
    def test_an_outage_is_marked_counted_and_over_when_it_is_over(self, fault: Any, kind: str) -> None:
        cases = gold_cases(6)
        well = True

        def reply(server: Server, body: dict[str, Any]) -> Any:
            return self.answered(server, body) if well else fault()

        async def scenario() -> None:
            nonlocal well
            async with serving(reply) as server:
                client = JudgeClient(ChatJudge(Endpoint("m", server.url)), budget=BUDGET)
                assert kinds(await asyncio.to_thread(client.judge_all, cases)) == {"judged"}
                well = False
                began = time.monotonic()
                answers = await asyncio.to_thread(client.judge_all, cases)
                assert kinds(answers) == {kind} and time.monotonic() - began < 2 * BUDGET
                assert client.counts.failed == {kind: 6} and client.counts.judged == 6
                assert (
                    kinds(await asyncio.to_thread(client.judge_all, cases)) <= {kind, "time"}
                    and client.counts.probes == 1
                )
                assert sum(client.counts.failed.values()) == 12
                well = True
                deadline = time.monotonic() + 20
                while client.dead is not None and time.monotonic() < deadline:
                    answers = await asyncio.to_thread(client.judge_all, cases)
                assert kinds(answers) == {"judged"} and adds_up(client.counts)
                await asyncio.to_thread(client.close)

        asyncio.run(scenario())

    def test_nobody_there(self, free_port: int) -> None:
        judge = ChatJudge(Endpoint("m", f"http://127.0.0.1:{free_port}/v1"))
        with JudgeClient(judge, budget=BUDGET) as client:
            answers, seconds = timed(client, gold_cases(3))
            assert kinds(answers) == {"connection"} and seconds < 2 * BUDGET


class TestBadCases:
    def test_one_that_makes_the_judge_fail_does_not_take_others_with_it_nor_the_budget(self) -> None:
        cases = gold_cases(32)
        cases[13] = msgspec.structs.replace(cases[13], reply="POISON")
        with JudgeProcess() as process, client_of(process, budget=30.0) as client:
            answers, seconds = timed(client, cases)
            assert seconds < 15
            assert [place for place, one in enumerate(answers) if one.failure] == [13]
            assert "the weights did not like this" in str(answers[13].failure)
            assert client.counts.failed == {"refused": 1} and client.dead is None

    def test_one_that_is_too_large_fails_alone(self) -> None:
        cases = gold_cases(16)
        cases[5] = msgspec.structs.replace(cases[5], reply="x" * 60_000)
        with JudgeProcess(most_bytes=50_000) as process, client_of(process, budget=30.0) as client:
            answers, seconds = timed(client, cases)
            assert seconds < 15
            assert [place for place, one in enumerate(answers) if one.failure] == [5]
            assert "413" in str(answers[5].failure)

    def test_what_the_judge_says_it_cannot_judge_is_counted_as_its_own(self) -> None:
        cases = gold_cases(4)
        cases[2] = msgspec.structs.replace(cases[2], reply="UNJUDGEABLE")
        with JudgeClient(RuleJudge()) as client:
            assert [one.failure for one in client.judge_all(cases)] == [None, None, "the reply is too long", None]
            assert client.counts.failed == {"judge": 1} and client.dead is None and adds_up(client.counts)


class TestAwkwardJudges:
    @pytest.mark.parametrize(
        ("how", "kind"), [("raises", "judge"), ("short", "nonsense"), ("blocks", "time"), ("stubborn", "time")]
    )
    def test_nothing_a_judge_does_raises_or_holds_up_a_step(self, how: str, kind: str) -> None:
        client = JudgeClient(Awkward(how), budget=0.8)
        answers, seconds = timed(client, gold_cases(6))
        assert kinds(answers) == {kind} and seconds < 4
        assert client.counts.failed == {kind: 6} and adds_up(client.counts)

    def test_without_a_budget_a_broken_judge_is_given_up_too(self) -> None:
        with JudgeClient(Awkward("raises"), budget=float("inf")) as client:
            assert kinds(client.judge_all(gold_cases(2))) == {"judge"}


class TestProcesses:
    def test_a_forked_child_and_its_parent_both_go_on(self, server: JudgeProcess) -> None:
        cases = gold_cases(8)
        with client_of(server) as client:
            assert client.judge_all(cases) == expected(cases)
            child = os.fork()
            if child == 0:
                good = client.judge_all(cases) == expected(cases)
                os._exit(0 if good else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert client.judge_all(cases) == expected(cases)

    def test_it_can_be_sent_to_a_spawned_process(self, server: JudgeProcess) -> None:
        cases = gold_cases(8)
        with client_of(server) as client:
            client.judge_all(cases)
            copy: JudgeClient = pickle.loads(pickle.dumps(client))
            assert copy.judge_all(cases) == expected(cases)
            copy.close()
            spawn = multiprocessing.get_context("spawn")
            with spawn.Pool(1) as pool:
                assert pool.apply(_in_a_child, (client, cases)) == [one.total for one in expected(cases)]

    def test_closing_twice_and_from_another_thread_is_safe(self, server: JudgeProcess) -> None:
        client = client_of(server)
        client.judge_all(gold_cases(4))
        threads = [threading.Thread(target=client.close) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        client.close()


def _in_a_child(client: JudgeClient, cases: list[Case]) -> list[int]:
    return [one.total for one in client.judge_all(cases)]


def test_the_identity_is_pinned_by_the_first_answer_too(server: JudgeProcess) -> None:
    async def scenario() -> None:
        judge = RemoteJudge(server.url)
        await judge.judge([trial_case("good", "en")])
        judge.fingerprint = "another"
        with pytest.raises(JudgeError, match="Another judge answers"):
            await judge.judge([trial_case("good", "en")])
        with pytest.raises(JudgeError, match="Another judge answers"):
            await judge.identity()
        await judge.close()

    asyncio.run(scenario())
