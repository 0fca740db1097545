"""A reasoned turn from a server that knows no grammar: checked, asked for again, and honest about what is missing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.models.serving import QUICK, Server, event, events, said, serving

from compeer.models.ask import Reasoned, reason, request_for
from compeer.models.cache import CachedModel, RequestCache
from compeer.models.endpoint import Endpoint
from compeer.reasoning import Control, Pins, Reasoning, render

HISTORY = [{"role": "user", "content": "I lost my job and I cannot sleep."}]
ASK = Control(Pins(stage="exploration", strategy="question"))


def output(strategy: str = "question", stage: str = "exploration", language: Any = "en") -> str:
    texts = {"history": "They lost their job.", "emotion": "Afraid of what comes.", "strategy": "Ask, then listen."}
    labels: dict[str, str | int] = {
        "stage": stage, "sentiment": "negative", "emotion": "anxiety", "intensity": 4, "strategy": strategy,
    }  # fmt: skip
    return render(Reasoning.of(texts, labels, language), "What happened at work?")


def turn(*contents: str, control: Control = ASK, attempts: int = 3, **sampling: Any) -> tuple[Reasoned, Server]:
    async def scenario() -> tuple[Reasoned, Server]:
        async with serving(lambda server, _: said(contents[min(len(server.bodies), len(contents)) - 1])) as server:
            model = Endpoint("m", server.url, patience=QUICK)
            request = request_for(HISTORY, "en", control, **sampling)
            result = await reason(model, request, control, attempts=attempts)
            await model.close()
            return result, server

    return asyncio.run(scenario())


class TestAsking:
    def test_a_good_output_is_asked_for_once(self) -> None:
        result, server = turn(output())
        assert result.complete
        assert result.problems == ()
        assert result.parsed.reasoning
        assert result.parsed.reasoning.strategy.strategy == "question"
        assert result.parsed.response == "What happened at work?"
        assert result.raw == result.answer.text == output()
        assert len(server.bodies) == 1

    def test_a_bad_output_is_asked_for_again_with_another_seed(self) -> None:
        result, server = turn("I am sorry to hear that.", output(strategy="information"), output(), seed=5)
        assert result.complete
        assert len(server.bodies) == 3
        assert len({body["seed"] for body in server.bodies}) == 3
        assert server.bodies[0]["seed"] == 5
        assert all(body["messages"] == server.bodies[0]["messages"] for body in server.bodies)

    def test_without_a_seed_none_is_made_up(self) -> None:
        _, server = turn("no", output())
        assert all("seed" not in body for body in server.bodies)

    def test_the_best_of_several_bad_ones_is_returned_with_its_problems(self) -> None:
        result, server = turn("Hm.", output(strategy="information"), "Hm.", attempts=3)
        assert not result.complete
        assert len(server.bodies) == 3
        assert [problem.code for problem in result.problems] == ["pin"]
        assert "strategy was pinned to 'question'; the output says 'information'" in result.problems[0]
        assert result.parsed.complete, "the format was kept, the pin was not"

    def test_an_output_that_was_never_good_says_what_is_missing(self) -> None:
        result, _ = turn("Cheer up!", attempts=2)
        codes = [problem.code for problem in result.problems]
        assert codes.count("missing-step") == 3
        assert codes.count("pin") == 2
        assert result.parsed.response == "Cheer up!"

    def test_a_given_text_must_come_back_unchanged(self) -> None:
        given = Control(ASK.pins, {"history": "They lost their job."})
        assert turn(output(), control=given)[0].complete
        result, _ = turn(output(), control=Control(ASK.pins, {"history": "They moved away."}))
        assert [problem.code for problem in result.problems] == ["given"]

    def test_a_cache_remembers_each_attempt_apart(self, tmp_path: Path) -> None:
        async def scenario() -> tuple[list[Reasoned], int]:
            async with serving(lambda server, _: said(("no", "nor this", output())[len(server.bodies) - 1])) as server:
                model = CachedModel(Endpoint("m", server.url, patience=QUICK), RequestCache(tmp_path / "c"))
                request = request_for(HISTORY, "en", ASK)
                results = [await reason(model, request, ASK) for _ in range(2)]
                await model.close()
                return results, len(server.bodies)

        (first, second), requests = asyncio.run(scenario())
        assert first.complete
        assert second.raw == first.raw
        assert requests == 3, "the second run asks nothing, and does not take the first bad answer for the third"


class TestRequest:
    @pytest.mark.parametrize(("language", "words"), [("en", "Strategy: question"), ("zh", "策略：提问")])
    def test_pins_are_said_in_words_too(self, language: Any, words: str) -> None:
        request = request_for(HISTORY, language, ASK)
        assert request.messages[0]["role"] == "system"
        assert words in request.messages[0]["content"]
        assert request.messages[1:] == HISTORY
        assert request.plan is not None

    def test_the_grammar_can_be_left_out_and_sampling_passes_through(self) -> None:
        request = request_for(HISTORY, grammar=False, temperature=0.0, seed=3, stop=("###",), length="brief")
        assert (request.plan, request.temperature, request.seed, request.stop) == (None, 0.0, 3, ("###",))
        assert len(request.messages[0]["content"]) < len(request_for(HISTORY).messages[0]["content"]) / 3


class TestStreaming:
    def test_a_server_that_splits_thinking_off_is_read_the_same(self) -> None:
        whole = output()
        inside, reply = whole.removeprefix("<think>").split("</think>")

        async def scenario() -> str:
            async with serving(lambda *_: events(event(reasoning=inside), event(content=reply))) as server:
                model = Endpoint("m", server.url, patience=QUICK)
                pieces = [piece async for piece in model.stream(request_for(HISTORY, control=ASK))]
                await model.close()
                return "".join(pieces)

        assert asyncio.run(scenario()) == whole
