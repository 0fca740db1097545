"""The judge's conversation through chat models: llama.cpp for real, over HTTP and in this process, and scripted servers
of the kinds that cannot run here."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.models.serving import QUICK, fault, said, serving
from tests.reward.groups import gold_cases, groups, varied

from compeer.models.embedded import Embedded
from compeer.models.endpoint import Endpoint
from compeer.models.llama_server import LlamaServer
from compeer.models.local import Local
from compeer.models.request import Place
from compeer.reward import chat_judge
from compeer.reward.case import Case
from compeer.reward.chat_judge import ChatJudge
from compeer.reward.judge import Judgement, Orders
from compeer.reward.local_judge import LocalJudge
from compeer.reward.verdict import Kind

Body = dict[str, Any]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPEER_THREADS", "1")


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return varied(groups(2, 3, "en")) + groups(1, 2, "zh")


@pytest.fixture(scope="module")
def expected(cases: list[Case], tiny_model_dir: Path) -> list[Judgement]:
    return asyncio.run(LocalJudge(str(tiny_model_dir), device="cpu").judge(cases, orders="both"))


@pytest.fixture(scope="module")
def llama_server(tiny_gguf: Path) -> Iterator[LlamaServer]:
    """llama.cpp's own HTTP server with the tiny model in it."""
    patch = pytest.MonkeyPatch()
    patch.setenv("COMPEER_THREADS", "1")
    with LlamaServer(tiny_gguf, slots=2, context=16384, precise=True) as server:
        yield server
    patch.undo()


def endpoint_of(server: LlamaServer) -> Endpoint:
    return Endpoint("tiny", f"{server.address}/v1", server.key)


def ask(judge: ChatJudge, cases: Sequence[Case], orders: Orders = "both") -> list[Judgement]:
    async def scenario() -> list[Judgement]:
        try:
            return await judge.judge(cases, orders=orders)
        finally:
            await judge.close()

    return asyncio.run(scenario())


def assert_alike(found: Sequence[Judgement], expected: Sequence[Judgement], by: float) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.id, mine.failure) == (theirs.id, None)
        assert [step.value for step in mine.steps] == [step.value for step in theirs.steps]
        assert [step.p for step in mine.steps] == [pytest.approx(step.p, abs=by) for step in theirs.steps]
        assert [pair.preference for pair in mine.pairs] == [pair.preference for pair in theirs.pairs]
        assert [pair.candidate_first for pair in mine.pairs] == [pair.candidate_first for pair in theirs.pairs]
        assert [pair.p for pair in mine.pairs] == [pytest.approx(pair.p, abs=by) for pair in theirs.pairs]
        assert mine.total == theirs.total


class TestLlamaCpp:
    def test_over_http_it_scores_as_locally(
        self, llama_server: LlamaServer, cases: list[Case], expected: list[Judgement]
    ) -> None:
        judge = ChatJudge(endpoint_of(llama_server), concurrency=2)
        assert_alike(ask(judge, cases), expected, by=1e-3)

    @pytest.mark.parametrize("kind", ["prm", "orm"])
    def test_so_do_the_baselines(
        self, kind: Kind, llama_server: LlamaServer, cases: list[Case], tiny_model_dir: Path
    ) -> None:
        local = asyncio.run(LocalJudge(str(tiny_model_dir), kind=kind, device="cpu").judge(cases[:4], orders="both"))
        judge = ChatJudge(endpoint_of(llama_server), kind, concurrency=2)
        assert_alike(ask(judge, cases[:4]), local, by=1e-3)

    def test_in_this_process_too(
        self, tiny_gguf: Path, cases: list[Case], expected: list[Judgement], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("COMPEER_WEIGHTS", str(tiny_gguf))
        judge = ChatJudge(Embedded(slots=2, context=16384, precise=True))
        assert_alike(ask(judge, cases), expected, by=1e-3)

    def test_a_case_too_long_is_shortened(self, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COMPEER_WEIGHTS", str(tiny_gguf))
        long = max(gold_cases("en"), key=lambda case: len(case.history))
        endless = msgspec.structs.replace(gold_cases("en")[0], reply="You matter. " * 2000)
        judge = ChatJudge(Embedded(slots=1, context=1536))
        for found in ask(judge, [long, endless], "one"):
            assert found.failure is None
            assert all(step.value is not None for step in found.steps)
            assert found.preference is not None

    def test_reasons_are_written_only_for_people(
        self, llama_server: LlamaServer, expected: list[Judgement], cases: list[Case]
    ) -> None:
        judge = ChatJudge(endpoint_of(llama_server), explain=True)
        (found,) = ask(judge, cases[:1], "one")
        assert [step.value for step in found.steps] == [step.value for step in expected[0].steps]
        assert all(re.fullmatch(r"[A-Za-z0-9][^\n]*", step.reason) for step in found.steps)
        assert found.pairs[0].reason

    def test_a_dead_server_is_a_failure_of_each_case(self, free_port: int) -> None:
        judge = ChatJudge(Endpoint("m", f"http://127.0.0.1:{free_port}/v1", patience=QUICK, dialect="llamacpp"))
        for found in ask(judge, groups(1, 3, "en"), "one"):
            assert "No answer" in (found.failure or "")
            assert [step.value for step in found.steps] == [None] * 3


class TestLocal:
    def test_a_model_that_tells_its_tokens_comes_to_the_same(
        self, tiny_model_dir: Path, cases: list[Case], expected: list[Judgement], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Only the likeliest tokens are told, by their text; when that is all of them it is exact."""
        monkeypatch.setattr(chat_judge, "_ALTERNATIVES", 768)
        found = ask(ChatJudge(Local(str(tiny_model_dir), device="cpu"), concurrency=8), cases[:4])
        assert_alike(found, expected[:4], by=1e-3)

    def test_a_grammar_makes_a_verdict_certain(self, tiny_model_dir: Path, cases: list[Case]) -> None:
        (found,) = ask(ChatJudge(Local(str(tiny_model_dir), device="cpu")), cases[:1], "one")
        assert all(step.value is not None for step in found.steps)
        assert found.preference is not None


def replying(answer: Callable[[str, Body], str | dict[str, float] | list[dict[str, float]]]) -> Callable[..., Any]:
    """A server whose answer depends on the last question: a text, or the chances of tokens at each place (the likeliest
    is written)."""

    def reply(server: Any, body: Body) -> Any:
        told = answer(str(body["messages"][-1]["content"]), body)
        if isinstance(told, str):
            return said(told)
        places = [told] if isinstance(told, dict) else told
        written = [max(place, key=lambda token: place[token]) for place in places]
        completion = said("".join(written))
        completion["choices"][0]["logprobs"] = {
            "content": [
                {
                    "token": token,
                    "logprob": math.log(place[token]),
                    "bytes": list(token.encode()),
                    "top_logprobs": [
                        {"token": other, "bytes": list(other.encode()), "logprob": math.log(p)}
                        for other, p in place.items()
                    ],
                }
                for token, place in zip(written, places, strict=True)
            ]
        }
        return completion

    return reply


def scripted(
    answer: Callable[[str, Body], Any], cases: Sequence[Case], owner: str | None = None, **options: Any
) -> tuple[list[Judgement], list[Body]]:
    async def scenario() -> tuple[list[Judgement], list[Body]]:
        async with serving(replying(answer), owner) as server:
            judge = ChatJudge(Endpoint("m", server.url, patience=QUICK), **options)
            found = await judge.judge(cases, orders="candidate_first")
            await judge.close()
            return found, server.bodies

    return asyncio.run(scenario())


def is_pair(question: str) -> bool:
    return "Which is better?" in question or "哪一句" in question


CASE = gold_cases("en")[4]


class TestAnyServer:
    def test_words_are_read_leniently_and_kept_canonically(self) -> None:
        told = iter(["**True**, she says so.", "Answer: false. He is angry.", "Hmm, hard to say.", "second"])
        (found,), bodies = scripted(lambda question, body: next(told), [CASE])
        assert [step.value for step in found.steps] == [True, False, None]
        assert [step.p for step in found.steps] == [None] * 3
        assert found.pairs[0].preference == "reference"
        assert found.pairs[0].p == {}
        answers = [m["content"] for m in bodies[-1]["messages"] if m["role"] == "assistant"]
        assert answers == ["True.", "False.", "Hmm, hard to say."]
        assert all("grammar" not in body and "structured_outputs" not in body for body in bodies)
        assert {body["temperature"] for body in bodies} == {0.0}
        assert len(bodies) == 4

    def test_the_same_questions_as_everywhere(self) -> None:
        from compeer.reward.conversation import messages, threads

        _, bodies = scripted(lambda question, body: "Neither." if is_pair(question) else "True.", [CASE])
        (thread,) = threads(CASE, "unified", True)
        assert bodies[-1]["messages"] == messages(thread, ["True."] * 3)

    def test_tokens_that_are_told_become_probabilities(self) -> None:
        def answer(question: str, body: Body) -> Any:
            if not is_pair(question):
                return [{"False": 0.6, "True": 0.2, "T": 0.1, "I": 0.1}, {".": 1.0}]
            return [{"The": 0.5, "Neither": 0.3, "Both": 0.2}, {" second": 0.6, " first": 0.3, " two": 0.1}]

        (found,), bodies = scripted(answer, [CASE])
        assert [step.p for step in found.steps] == [pytest.approx(0.25)] * 3
        assert [step.value for step in found.steps] == [False] * 3
        the, rest = 0.5 / 0.8, 0.3 / 0.8
        shares = {"candidate": the * 0.3, "reference": the * 0.6, "both": the * 0.1, "neither": rest}
        assert found.pairs[0].p == pytest.approx(shares)
        assert found.preference == "reference" or rest > the * 0.6
        assert len(bodies) == 4

    def test_what_was_not_written_is_divided_equally(self) -> None:
        def answer(question: str, body: Body) -> Any:
            return [{"Neither": 0.7, "The": 0.3}, {" sentence": 1.0}] if is_pair(question) else "True."

        (found,), _ = scripted(answer, [CASE])
        assert found.pairs[0].p == pytest.approx({"candidate": 0.1, "reference": 0.1, "both": 0.1, "neither": 0.7})
        assert found.preference == "neither"

    def test_a_probability_that_contradicts_the_words_is_dropped(self) -> None:
        def answer(question: str, body: Body) -> Any:
            return [{"**": 0.9, "True": 0.06, "False": 0.04}, {"False": 1.0}]

        (found,), _ = scripted(answer, [CASE])
        assert [(step.value, step.p) for step in found.steps] == [(False, None)] * 3

    def test_a_model_that_thinks_first(self) -> None:
        def answer(question: str, body: Body) -> Any:
            return "<think>False? No.</think>" + ("The two" if is_pair(question) else "True.")

        (found,), _ = scripted(answer, [CASE])
        assert (found.total, found.preference) == (5, "both")
        assert found.steps[0].p is None

    def test_half_characters(self) -> None:
        """Chinese answers in tokens that are no characters."""
        case = gold_cases("zh")[2]

        def answer(question: str, body: Body) -> Any:
            completion = said("第二句更好。" if is_pair(question) else "错误。")
            right, wrong = list("正".encode()[:2]), list("错".encode()[:1])
            pairs = [(right, 0.4), (wrong, 0.6)]
            if is_pair(question):
                pairs = [(list("第".encode()[:2]), 0.8), (list("都".encode()), 0.2)]
            top = [{"token": "\ufffd", "bytes": data, "logprob": math.log(p)} for data, p in pairs]
            completion["choices"][0]["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
            return lambda request: _response(completion)

        (found,), _ = scripted_raw(answer, [case])
        assert [step.p for step in found.steps] == [pytest.approx(0.4)] * 3
        assert found.pairs[0].p == {}, "the tokens cannot tell the second from the first, and the words do"
        assert found.preference == "reference"

    def test_reasons_come_with_the_answer(self) -> None:
        def answer(question: str, body: Body) -> str:
            assert body["max_tokens"] > 60
            return "The first sentence is better. It asks." if is_pair(question) else "False. She never said so."

        (found,), bodies = scripted(answer, [CASE], explain=True)
        assert [step.reason for step in found.steps] == ["She never said so."] * 3
        assert found.pairs[0].reason == "It asks."
        answers = [m["content"] for m in bodies[-1]["messages"] if m["role"] == "assistant"]
        assert answers == ["False."] * 3

    def test_one_case_fails_and_the_others_do_not(self) -> None:
        poison = msgspec.structs.replace(CASE, id="poison", reply="POISON here")

        def answer(question: str, body: Body) -> Any:
            if "POISON" in question:
                return lambda request: _response(None, 403)
            return "Both." if is_pair(question) else "True."

        found, _ = scripted_raw(answer, [CASE, poison, gold_cases("en")[5]], concurrency=2)
        assert [judgement.failure is None for judgement in found] == [True, False, True]
        assert "403" in (found[1].failure or "")
        assert [step.value for step in found[1].steps] == [True] * 3, "what was answered before is kept"
        assert (found[0].total, found[1].total) == (5, 3)

    def test_a_context_that_is_full_drops_old_turns(self) -> None:
        case = max(gold_cases("en"), key=lambda case: len(case.history))
        lengths: list[int] = []

        def answer(question: str, body: Body) -> Any:
            turns = str(body["messages"][1]["content"]).count("> ")
            lengths.append(turns)
            if turns > 6:
                return lambda request: _response(
                    {"error": {"message": "This model's maximum context length is 2048 tokens."}}, 400
                )
            return "Both." if is_pair(question) else "True."

        (found,), bodies = scripted_raw(answer, [case])
        assert found.failure is None
        assert found.total == 5
        assert lengths[0] > 6 >= lengths[-1]
        assert "(earlier turns are left out)" in bodies[-1]["messages"][1]["content"]

    def test_many_cases_at_a_time_but_not_more_than_allowed(self) -> None:
        async def scenario() -> tuple[int, list[Judgement]]:
            async def slow(question: str, body: Body) -> Any:
                await asyncio.sleep(0.01)
                return said("True." if not is_pair(question) else "Both.")

            def reply(server: Any, body: Body) -> Any:
                return slow(str(body["messages"][-1]["content"]), body)

            async with serving(reply) as server:
                judge = ChatJudge(Endpoint("m", server.url, patience=QUICK), concurrency=5)
                found = await judge.judge(groups(4, 4, "en"))
                await judge.close()
                return server.most_in_flight, found

        most, found = asyncio.run(scenario())
        assert most == 5
        assert all(judgement.total == 5 for judgement in found)


class TestVllm:
    def test_it_is_given_the_options_and_asked_for_what_it_did_not_write(self) -> None:
        def answer(question: str, body: Body) -> Any:
            rule = body["structured_outputs"]["regex"]
            if not is_pair(question):
                assert re.fullmatch(rule, "True.")
                assert not re.fullmatch(rule, "Maybe.")
                return [{"True": 0.9, "False": 0.05}, {".": 1.0}]
            if re.fullmatch(rule, "Neither sentence is acceptable."):
                return [{"Neither": 0.6, "The": 0.4}, {" sentence": 1.0}]
            assert re.fullmatch(rule, "The second sentence is better.")
            return [{"The": 0.4, "Neither": 0.3}, {" first": 0.5, " second": 0.25, " two": 0.25}]

        (found,), bodies = scripted(answer, [CASE], "vllm")
        assert [step.p for step in found.steps] == [pytest.approx(0.9 / 0.95)] * 3
        shares = {"candidate": 0.2, "reference": 0.1, "both": 0.1, "neither": 0.6}
        assert found.pairs[0].p == pytest.approx(shares)
        assert len(bodies) == 5


class TestDividing:
    """How the tokens told are understood, one place at a time."""

    @pytest.mark.parametrize(
        ("places", "shares", "alike"),
        [
            ([], [0, 0, 0], ""),
            ([{"a": 1.0}], [1, 0, 0], ""),
            ([{"a": 0.5, "b": 0.5}], [0.5, 0.25, 0.25], "yz"),
            ([{"b": 0.5, "a": 0.5}, {"y": 0.9, "z": 0.1}], [0.5, 0.45, 0.05], ""),
            ([{" b": 0.5, "a": 0.5}, {"y": 0.9, "z": 0.1}], [0.5, 0.45, 0.05], ""),
            ([{"b": 0.2, "by": 0.3, "a": 0.5}], [0.5 / 1.0, 0.3, 0.2], ""),
            ([{"q": 1.0}], [0, 0, 0], ""),
        ],
    )
    def test_shares(self, places: list[dict[str, float]], shares: list[float], alike: str) -> None:
        told = [
            Place(next(iter(place)).encode(), tuple((token.encode(), math.log(p)) for token, p in place.items()))
            for place in places
        ]
        found, still = chat_judge._divide({"x": b"ax", "y": b"by", "z": b"bz"}, told)
        assert [found[key] for key in "xyz"] == pytest.approx(shares)
        assert "".join(still) == alike


class TestIdentity:
    def test_weights_and_prompts_and_not_the_address(self, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def identity(judge: ChatJudge) -> dict[str, Any]:
            return dict(asyncio.run(judge.identity()))

        monkeypatch.setenv("COMPEER_WEIGHTS", str(tiny_gguf))
        embedded = identity(ChatJudge(Embedded()))
        assert embedded["home"] == "llama.cpp"
        assert re.fullmatch(r"[0-9a-f]{64}", embedded["weights"])
        assert identity(ChatJudge(Embedded(), "prm")) != embedded
        assert identity(ChatJudge(Embedded(precise=True))) != embedded
        servers = [Endpoint("m", "http://127.0.0.1:1/v1"), Endpoint("m", "http://127.0.0.1:2/v1")]
        one, same, other = (identity(ChatJudge(server)) for server in (*servers, Endpoint("n", servers[0].base_url)))
        assert one == same != other


async def _response(data: Any, status: int = 200) -> Any:
    from aiohttp import web

    return web.json_response(data, status=status) if data is not None else fault(status, "no")


def scripted_raw(
    answer: Callable[[str, Body], Any], cases: Sequence[Case], **options: Any
) -> tuple[list[Judgement], list[Body]]:
    """As `scripted`, but an answer may also be a handler of the request."""

    async def scenario() -> tuple[list[Judgement], list[Body]]:
        def reply(server: Any, body: Body) -> Any:
            told = answer(str(body["messages"][-1]["content"]), body)
            return said(told) if isinstance(told, str) else told

        async with serving(reply) as server:
            judge = ChatJudge(Endpoint("m", server.url, patience=QUICK), **options)
            found = await judge.judge(cases, orders="candidate_first")
            await judge.close()
            return found, server.bodies

    return asyncio.run(scenario())
