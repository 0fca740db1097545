"""Pins hold in every sampled output, and every output is complete: at temperature 1, in all three homes.

Each home writes 100 outputs over all stages, all strategies and both languages, asked for once each. The tiny
random models are the harder test, since nothing but the grammar makes them write the format. With the real
weights 100 outputs take minutes on two cores: COMPEER_PIN_OUTPUTS=100 asks for them all, else every stage and
every strategy is written at least once. Free text is kept short here, which leaves the rest of the grammar as it is.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from compeer.models.ask import judge_output, request_for
from compeer.models.embedded import Embedded
from compeer.models.endpoint import Endpoint
from compeer.models.llama_server import LlamaServer
from compeer.models.local import Local
from compeer.models.request import Answer, Model, Request, ask_all
from compeer.models.weights import locate
from compeer.reasoning import Control, Pins, grammar
from compeer.reasoning.ontology import EMOTIONS, INTENSITIES, STAGES, STRATEGIES, Language

SAID: dict[Language, list[str]] = {
    "en": ["I lost my job and I cannot sleep.", "Nothing works. <think>Why?</think>", "Stage: action. I said no!"],
    "zh": ["我失业了，整夜睡不着。", "他不理我，阶段：行动？"],
}


def control(number: int) -> Control:
    """Each stage with each strategy within any 24 numbers; every fifth with everything pinned."""
    pins: dict[str, Any] = {"stage": STAGES.ids[number % 3], "strategy": STRATEGIES.ids[number % 8]}
    if number % 5 == 0:
        emotion = EMOTIONS.values[number % len(EMOTIONS)]
        pins |= {"emotion": emotion.id, "sentiment": emotion.sentiments[-1], "intensity": INTENSITIES[number % 5]}
    return Control(Pins(**pins))


def language(number: int) -> Language:
    return "zh" if number % 6 == 2 else "en"


def request(number: int) -> Request:
    said = SAID[language(number)]
    history = [{"role": "user", "content": said[number % len(said)]}]
    return request_for(
        history, language(number), control(number), length="brief", temperature=1.0, seed=number, max_tokens=1500
    )


def check(answers: list[Any]) -> None:
    """All of them, with what went wrong where it did."""
    assert all(isinstance(answer, Answer) for answer in answers), answers
    judged = [judge_output(answer, control(number)) for number, answer in enumerate(answers)]
    wrong = {number: (list(turn.problems), turn.raw) for number, turn in enumerate(judged) if not turn.complete}
    assert not wrong, f"{len(wrong)} of {len(judged)}: {wrong}"
    assert {answer.finish for answer in answers} == {"stop"}
    pairs = Counter((turn.parsed.labels["stage"], turn.parsed.labels["strategy"]) for turn in judged)
    assert len(pairs) == min(len(judged), len(STAGES) * len(STRATEGIES))
    assert {turn.parsed.language for turn in judged} == {"en", "zh"}
    assert all(turn.parsed.language == language(number) for number, turn in enumerate(judged))
    free = Counter(turn.parsed.labels["emotion"] for number, turn in enumerate(judged) if number % 5)
    assert len(free) > (4 if len(judged) >= 24 else 1), "what is not pinned is the model's to choose"
    assert len({turn.raw for turn in judged}) == len(judged)


def draw(model: Model, count: int, concurrency: int) -> list[Any]:
    async def scenario() -> list[Any]:
        answers = await ask_all(model, [request(number) for number in range(count)], concurrency)
        await model.close()
        return answers

    return asyncio.run(scenario())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar, "_MOST", {"en": 24, "zh": 12})


@pytest.fixture
def shortest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grammar, "_MOST", {"en": 8, "zh": 2})


@pytest.mark.usefixtures("shortest")
def test_the_embedded_model(embedded: Embedded) -> None:
    count = int(os.environ.get("COMPEER_PIN_OUTPUTS", "8"))

    async def scenario() -> list[Any]:
        return await ask_all(embedded, [request(number) for number in range(count)], concurrency=4)

    check(asyncio.run(scenario()))


@pytest.mark.usefixtures("short", "one_thread")
def test_the_embedded_home_with_a_random_model(tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPEER_WEIGHTS", str(tiny_gguf))
    check(draw(Embedded(), 100, concurrency=8))


@pytest.mark.usefixtures("short")
def test_the_transformers_home(tiny_model_dir: Path) -> None:
    check(draw(Local(str(tiny_model_dir), batch=25, device="cpu"), 100, concurrency=100))


@pytest.mark.usefixtures("short", "one_thread")
def test_an_openai_compatible_server(tiny_gguf: Path) -> None:
    with LlamaServer(tiny_gguf, slots=4, context=16384) as server:
        model = Endpoint("x", server.address + "/v1", api_key=server.key, concurrency=4)
        assert asyncio.run(_dialect(model)) == "llamacpp"
        check(draw(model, 100, concurrency=4))


@pytest.mark.usefixtures("shortest", "one_thread")
def test_an_openai_compatible_server_with_the_real_weights() -> None:
    with LlamaServer(locate(), slots=1) as server:
        model = Endpoint("x", server.address + "/v1", api_key=server.key, concurrency=1)
        for number, answer in enumerate(draw(model, 2, concurrency=1)):
            assert judge_output(answer, control(number)).problems == ()


async def _dialect(model: Endpoint) -> str:
    try:
        return await model.dialect()
    finally:
        await model.close()
