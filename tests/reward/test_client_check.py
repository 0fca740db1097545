"""Before a training starts: the judge says who it is and really judges, or the error says what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from tests.reward.judge_process import JudgeProcess
from tests.reward.rule_judge import Awkward, RuleJudge

from compeer.errors import UserError
from compeer.reward.case import Case
from compeer.reward.client import JudgeClient
from compeer.reward.judge import JudgeError, Judgement, Orders, StepVerdict
from compeer.reward.remote_judge import RemoteJudge


@pytest.fixture(scope="module")
def running() -> Iterator[JudgeProcess]:
    with JudgeProcess() as process:
        yield process


@pytest.fixture
def server(running: JudgeProcess) -> Iterator[JudgeProcess]:
    yield running
    running.fault("none")


def client_of(process: JudgeProcess) -> JudgeClient:
    return JudgeClient(RemoteJudge(process.url), budget=2.0)


class TestCheck:
    def test_it_tells_who_judges_and_really_judges(self, server: JudgeProcess) -> None:
        with client_of(server) as client:
            report = client.check(kind="unified", languages=("en", "zh"))
        assert report.identity == {"kind": "unified", "weights": "a"} and report.name == "rule:a"
        assert [one.id for one in report.tried] == ["good-en", "bad-en", "good-zh", "bad-zh"]
        assert len(report.fingerprint) == 16

    def test_a_judge_that_prefers_the_bad_case_is_warned_about(self) -> None:
        class Wrong(RuleJudge):
            async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
                good = cases[0].id.startswith("good")
                step = StepVerdict(not good, 0.5)
                return [Judgement(id=case.id, complete=True, steps=(step,) * 3) for case in cases]

        with JudgeClient(Wrong()) as client:
            warnings = client.check().warnings
        assert "plainly good case in en -3 and the plainly bad one 3" in warnings[0]
        assert any("no verdict on the replies of good-en" in warning for warning in warnings)

    def test_it_waits_for_a_service_that_is_loading(self) -> None:
        process = JudgeProcess(load=1.2).start(wait=False)
        try:
            with client_of(process) as client:
                assert client.check().name == "rule:a"
                with pytest.raises(UserError, match="is a judge of the kind unified; prm is needed"):
                    client.check(kind="prm")
        finally:
            process.kill()

    def test_nobody_there(self, free_port: int) -> None:
        with (
            JudgeClient(RemoteJudge(f"http://127.0.0.1:{free_port}")) as client,
            pytest.raises(UserError, match=r"Is it running \(compeer reward serve\), and is the address right"),
        ):
            client.check(wait=0.5)

    def test_something_else_there(self, server: JudgeProcess) -> None:
        with client_of(server) as client:
            server.fault("garbage")
            with pytest.raises(UserError, match="is not a judge: it answers b'<html>"):
                client.check()

    def test_a_service_that_hangs(self, server: JudgeProcess) -> None:
        with client_of(server) as client:
            server.fault("hang")
            with pytest.raises(UserError, match="it did not answer within"):
                client.check(wait=0.1)

    def test_a_chat_model_without_verdicts(self) -> None:
        class Chatty(RuleJudge):
            async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
                step = StepVerdict(reason="As a language model I")
                return [Judgement(id=case.id, complete=True, steps=(step,) * 3) for case in cases]

        with (
            JudgeClient(Chatty()) as client,
            pytest.raises(UserError, match=r"no verdict at all on an easy case\. It said: 'As a language"),
        ):
            client.check()

    def test_a_judge_that_breaks(self) -> None:
        with JudgeClient(Awkward("raises")) as client, pytest.raises(UserError, match="MemoryError: no more"):
            client.check()
        with JudgeClient(Awkward("short")) as client, pytest.raises(JudgeError, match="0 judgements for 1 cases"):
            client.check()
