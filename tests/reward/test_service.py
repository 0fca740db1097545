"""The judge as a service: real processes and ports. What it judges is by rule; the tiny model shows the equality."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import aiohttp
import msgspec
import pytest
from tests.cli.command import compeer
from tests.endpoints.process import ROOT, environment
from tests.reward.judge_process import JudgeProcess, gold_cases
from tests.reward.rule_judge import RuleJudge

from compeer.cer import gold
from compeer.errors import UserError
from compeer.models.request import Patience
from compeer.reward.case import Case, case_of, trial_case
from compeer.reward.judge import JudgeError, Judgement, Orders
from compeer.reward.remote_judge import JudgeReply, JudgeRequest, RemoteJudge
from compeer.reward.service import JudgeQueue, JudgeService, ServiceMetrics, ServiceSettings, serve

ONE_TRY = Patience(attempts=1, timeout=20.0)


@pytest.fixture(scope="module")
def server() -> Iterator[JudgeProcess]:
    with JudgeProcess() as process:
        yield process


def asked(url: str, cases: list[Case], **options: object) -> list[Judgement]:
    async def ask() -> list[Judgement]:
        judge = RemoteJudge(url, patience=ONE_TRY)
        try:
            return await judge.judge(cases, **options)  # type: ignore[arg-type]
        finally:
            await judge.close()

    return asyncio.run(ask())


class TestJudging:
    def test_the_judgements_are_those_of_the_judge_itself(self, server: JudgeProcess) -> None:
        cases = gold_cases(40, candidates=4)
        assert asked(server.url, cases, orders="both") == asyncio.run(RuleJudge().judge(cases, orders="both"))

    def test_the_orders_of_the_service_count_when_a_request_names_none(self) -> None:
        with JudgeProcess() as process:
            status, text = process.post("/v1/judge", msgspec.json.encode(JudgeRequest(gold_cases(3))))
        assert status == 200
        reply = msgspec.json.decode(text, type=JudgeReply)
        assert reply.judgements == asyncio.run(RuleJudge().judge(gold_cases(3), orders="one"))

    def test_no_cases_no_judgements(self, server: JudgeProcess) -> None:
        assert asked(server.url, []) == []
        assert server.post("/v1/judge", {"cases": []})[0] == 200

    def test_the_identity_is_the_judges_own(self, server: JudgeProcess) -> None:
        judge = RemoteJudge(server.url)
        assert judge.kind == "unified" and judge.name == "rule:a"
        assert asyncio.run(judge.identity()) == asyncio.run(RuleJudge().identity())

    def test_score_takes_items_and_outputs(self, server: JudgeProcess) -> None:
        item = next(gold.load())
        output = {"history": [{"speaker": "seeker", "text": "我很难过"}], "output": "嗯。", "reference": "怎么了？"}
        status, text = server.post("/v1/score", {"items": [msgspec.to_builtins(item), output]})
        assert status == 200
        first, second = json.loads(text)["scores"]
        expected = asyncio.run(RuleJudge().judge([case_of(item)]))[0]
        assert (first["id"], first["total"], first["parts"]) == (item.id, expected.total, expected.parts())
        assert second["parts"]["format"] == -1 and second["parts"]["emotion"] == -1

    def test_score_says_which_item_cannot_be_used(self, server: JudgeProcess) -> None:
        item = msgspec.structs.replace(next(gold.load()), candidate=None)
        status, text = server.post("/v1/score", {"items": [msgspec.to_builtins(item)]})
        assert status == 400 and "$.items[0]" in text and "has no candidate" in text
        status, text = server.post("/v1/score", {"items": [{"output": "x"}]})
        assert status == 400 and "missing required field `history`" in text


class TestRefusals:
    @pytest.mark.parametrize(
        ("body", "says"),
        [
            (b"{", "cannot be read: Input data was truncated"),
            (b"[]", "Expected `object`, got `array`"),
            (b'{"cases": [{"id": "x"}]}', "missing required field `language` - at `$.cases[0]`"),
            (b'{"cases": [], "orders": "all"}', "Invalid enum value 'all' - at `$.orders`"),
            (b'{"cases": [], "order": "one"}', "unknown field `order`"),
            (b"\xff\xfe", "cannot be read"),
            (b"[" * 100_000, "cannot be read"),
        ],
    )
    def test_a_body_that_is_no_request_is_refused_with_the_place(
        self, server: JudgeProcess, body: bytes, says: str
    ) -> None:
        status, text = server.post("/v1/judge", body)
        assert status == 400 and says in json.loads(text)["error"]["message"]

    def test_a_web_page_cannot_post_unasked(self, server: JudgeProcess) -> None:
        assert server.post("/v1/judge", {"cases": []}, kind="text/plain")[0] == 415

    def test_unknown_paths_and_methods_are_json_errors_too(self, server: JudgeProcess) -> None:
        for status, text in (server.get("/v2"), server.get("/v1/judge")):
            assert status in (404, 405) and json.loads(text)["error"]["message"]

    def test_sizes_are_limited(self) -> None:
        with JudgeProcess(most_cases=4, most_bytes=20_000) as process:
            status, text = process.post("/v1/judge", msgspec.json.encode(JudgeRequest([trial_case("good", "en")] * 5)))
            assert status == 413 and "5 cases in one request; the maximum is 4" in text
            status, text = process.post("/v1/judge", {"cases": [], "orders": "x" * 30_000})
            assert status == 413 and "larger than 20,000 bytes" in text
            assert len(asked(process.url, [trial_case("good", "en")] * 4)) == 4

    def test_a_request_that_takes_too_long_is_answered_504_and_leaves(self) -> None:
        with JudgeProcess(delay=1.5, timeout=0.2) as process:
            status, text = process.post("/v1/judge", msgspec.json.encode(JudgeRequest([trial_case("good", "en")])))
            assert status == 504 and "no judgement within 0.2 s" in text
            assert process.metric("compeer_judge_queue_requests") == 0

    def test_keys(self) -> None:
        with JudgeProcess(key="geheim") as process:
            body = msgspec.json.encode(JudgeRequest([trial_case("good", "en")]))
            for path in ("/identity", "/metrics", "/nothing"):
                assert process.get(path)[0] == 401
            assert process.post("/v1/judge", body)[0] == 401
            assert process.post("/v1/judge", body, key="wrong")[0] == 401
            assert process.post("/v1/judge", body, key="geheim")[0] == 200
            assert process.get("/health")[0] == 200
            with pytest.raises(JudgeError, match="COMPEER_API_KEY"):
                asked(process.url, [trial_case("good", "en")])
            judge = RemoteJudge(process.url, "geheim")
            assert judge.kind == "unified"

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "judge.example.org"])
    def test_a_public_address_without_a_key_is_refused(self, host: str) -> None:
        with pytest.raises(UserError, match="can be reached from other machines, and no key is set"):
            JudgeService(RuleJudge(), ServiceSettings(host=host))

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
    def test_this_machine_needs_none(self, host: str) -> None:
        JudgeService(RuleJudge(), ServiceSettings(host=host))

    def test_a_taken_port_is_an_error_for_people(self, server: JudgeProcess) -> None:
        words = [sys.executable, "-m", "tests.reward.rule_judge", f"--port={server.options['port']}"]
        done = subprocess.run(words, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=30)
        assert done.returncode != 0 and f"Cannot listen on 127.0.0.1 port {server.options['port']}" in done.stderr

    def test_an_address_that_is_none_is_refused_at_once(self) -> None:
        for url in ("127.0.0.1:8020", "ftp://x", "http://", "http://a:0"):
            with pytest.raises(JudgeError, match="is not the address of a judge"):
                RemoteJudge(url)


class TestLoading:
    def test_it_is_ready_only_when_the_weights_are(self) -> None:
        process = JudgeProcess(load=1.5).start(wait=False)
        try:
            assert process.get("/health") == (503, '{"status":"loading"}')
            assert process.get("/identity")[0] == 503
            status, text = process.post("/v1/judge", {"cases": []})
            assert status == 503 and "still loading" in text
            process.wait_until_ready()
            assert process.get("/health") == (200, '{"status":"ready"}')
        finally:
            process.kill()

    def test_a_judge_that_cannot_be_loaded_ends_the_service_with_its_message(self) -> None:
        class Broken(RuleJudge):
            async def judge(self, cases: Sequence[Case], *, orders: Orders = "one") -> list[Judgement]:
                raise UserError("The weights are not there.")

        with pytest.raises(UserError, match="The weights are not there"):
            asyncio.run(serve(Broken(), ServiceSettings(port=0)))


class TestCommands:
    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (
                ["serve", "--model", "hf:x", "--host", "0.0.0.0"],
                "can be reached from other machines, and no key is set",
            ),
            (["serve", "--model", "nonsense"], "'nonsense' does not name a judge"),
            (
                ["serve", "--model", "hf:x", "--orders", "all"],
                "--orders is one, both, candidate_first or reference_first",
            ),
            (["serve", "--model", "hf:x", "--kind", "x"], "--kind is unified, prm or orm"),
            (["serve", "--model", "hf:x", "--pictures", "nowhere"], "There is no folder nowhere with pictures"),
            (["score", "nowhere.jsonl", "--model", "hf:x", "--out", "o.jsonl"], "nowhere.jsonl cannot be read"),
            (["score", "x", "--model", "http://127.0.0.1:9", "--out", "o", "--explain"], "started with --explain"),
        ],
    )
    def test_what_cannot_be_is_refused_with_a_message(self, words: list[str], says: str, tmp_path: Path) -> None:
        done = compeer("reward", *words, seconds=60)
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert says in " ".join(done.stderr.split())


class TestBatching:
    def test_requests_that_wait_together_are_judged_together(self) -> None:
        cases = gold_cases(60, candidates=2)

        async def thirty(url: str) -> list[list[Judgement]]:
            judges = [RemoteJudge(url) for _ in range(30)]
            answers = await asyncio.gather(
                *(judge.judge(cases[2 * number : 2 * number + 2]) for number, judge in enumerate(judges))
            )
            for judge in judges:
                await judge.close()
            return answers

        with JudgeProcess(delay=0.1) as process:
            before = process.metric("compeer_judge_batch_cases_count")
            answers = asyncio.run(thirty(process.url))
            batches = process.metric("compeer_judge_batch_cases_count") - before
            assert process.metric("compeer_judge_cases_total") >= 60
            assert process.metric("compeer_judge_requests_total") >= 30
            assert process.metric("compeer_judge_tokens_total") >= 6000
        assert [one for few in answers for one in few] == asyncio.run(RuleJudge().judge(cases))
        assert batches <= 10  # alone they would have been thirty

    def test_those_who_give_up_leave_the_queue_and_are_not_judged(self) -> None:
        async def impatient(url: str, count: int) -> None:
            body = msgspec.json.encode(JudgeRequest([trial_case("bad", "en")]))
            async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:
                posts = [session.post(url + "/v1/judge", data=body) for _ in range(count)]
                tasks = [asyncio.create_task(post.__aenter__()) for post in posts]
                while process.metric("compeer_judge_queue_requests") < count:
                    await asyncio.sleep(0.02)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        with JudgeProcess(delay=1.0, batch=4) as process:
            judged = process.metric("compeer_judge_cases_total")
            busy = subprocess.Popen(
                [sys.executable, "-c", _POST, process.url], cwd=ROOT, env=environment(), stdout=subprocess.DEVNULL
            )
            deadline = time.monotonic() + 20
            while not _under_way(process):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            asyncio.run(impatient(process.url, 12))
            while process.metric("compeer_judge_queue_requests"):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert busy.wait(timeout=20) == 0
            assert process.metric("compeer_judge_cancelled_total") == 12
            assert process.metric("compeer_judge_cases_total") - judged == 2  # those of the patient one

    def test_a_full_queue_says_when_to_come_back(self) -> None:
        async def many(url: str) -> list[tuple[int, str | None]]:
            body = msgspec.json.encode(JudgeRequest([trial_case("good", "en")] * 2))
            async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as session:

                async def one() -> tuple[int, str | None]:
                    async with session.post(url + "/v1/judge", data=body) as response:
                        return response.status, response.headers.get("Retry-After")

                return await asyncio.gather(*(one() for _ in range(12)))

        with JudgeProcess(delay=0.3, batch=2, room=4) as process:
            answers = asyncio.run(many(process.url))
        refused = [wait for status, wait in answers if status == 503]
        assert {status for status, _ in answers} == {200, 503} and len(refused) >= 6
        assert all(wait is not None and 1 <= int(wait) <= 30 for wait in refused)

    def test_a_client_that_waits_as_told_gets_its_judgements(self) -> None:
        async def many(url: str) -> list[list[Judgement]]:
            judge = RemoteJudge(url, patience=Patience(attempts=20, first=0.1, longest=0.5))
            try:
                return await asyncio.gather(*(judge.judge([trial_case("good", "en")] * 2) for _ in range(12)))
            finally:
                await judge.close()

        with JudgeProcess(delay=0.05, batch=2, room=4) as process:
            assert len(asyncio.run(many(process.url))) == 12

    def test_one_requests_trouble_stays_its_own(self) -> None:
        cases = gold_cases(6)
        cases[3] = msgspec.structs.replace(cases[3], reply="POISON")
        cases[4] = msgspec.structs.replace(cases[4], reply="UNJUDGEABLE")

        async def scenario(url: str) -> list[list[Judgement] | BaseException]:
            judge = RemoteJudge(url, patience=ONE_TRY)
            try:
                return await asyncio.gather(*(judge.judge([case]) for case in cases), return_exceptions=True)
            finally:
                await judge.close()

        with JudgeProcess(delay=0.05) as process:
            answers = asyncio.run(scenario(process.url))
            assert process.metric("compeer_judge_failures_total") == 2
        poisoned = answers[3]
        assert isinstance(poisoned, JudgeError) and "the weights did not like this" in str(poisoned)
        assert isinstance(answers[4], list) and answers[4][0].failure == "the reply is too long"
        assert all(isinstance(answers[n], list) and answers[n][0].failure is None for n in (0, 1, 2, 5))

    def test_groups_stay_together_across_requests(self) -> None:
        groups = [gold_cases(8, candidates=4)[start::4] for start in range(4)]  # one candidate of each history

        async def scenario() -> list[str]:
            judge = RuleJudge(delay=0.01)
            queue = JudgeQueue(judge, ServiceMetrics(), ServiceSettings(batch=16, patience=0.05))
            working = asyncio.create_task(queue.work())
            answers = await asyncio.gather(*(queue.submit(cases, "one") for cases in groups))
            working.cancel()
            queue.judge_loop.close()
            assert [[one.id for one in few] for few in answers] == [[case.id for case in cases] for cases in groups]
            return judge.seen

        seen = asyncio.run(scenario())
        assert [name.partition("/1")[0].partition("/2")[0].partition("/3")[0] for name in seen] == sorted(
            [case.id for case in groups[0]] * 4
        )


class TestStopping:
    @pytest.mark.parametrize(("grace", "told"), [(30.0, "2 judged"), (0.2, "refused: it answered 503")])
    def test_what_is_in_flight_is_finished_as_long_as_the_grace_lasts(self, grace: float, told: str) -> None:
        with JudgeProcess(delay=0.8 if grace > 1 else 20.0, grace=grace) as process:
            assert process.process is not None
            asking = subprocess.Popen(
                [sys.executable, "-c", _POST, process.url],
                cwd=ROOT,
                env=environment(),
                stdout=subprocess.PIPE,
                text=True,
            )
            deadline = time.monotonic() + 20
            while not _under_way(process):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.process.send_signal(signal.SIGTERM)
            assert told in asking.communicate(timeout=20)[0]
            assert process.process.wait(timeout=15) == 0
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", process.options["port"])) != 0


#: a process that posts two cases and waits for their judgements
_POST = """
import asyncio, sys
from compeer.models.request import Patience
from compeer.reward.remote_judge import RemoteJudge
from compeer.reward.case import trial_case
from compeer.reward.judge import JudgeError
async def main():
    judge = RemoteJudge(sys.argv[1], patience=Patience(attempts=1))
    try:
        print(len(await judge.judge([trial_case("good", "en"), trial_case("good", "zh")])), "judged")
    except JudgeError as error:
        print(error.kind + ": " + str(error).partition(": ")[2])
    await judge.close()
asyncio.run(main())
"""


def _under_way(process: JudgeProcess) -> bool:
    """Whether a request has been taken from the queue and not been answered."""
    taken = process.metric("compeer_judge_taken_total")
    return taken > process.metric("compeer_judge_batch_requests_sum")
