"""`compeer serve` with a model of its own: many clients, hanging up, stopping. The model is tiny and random; once the
real embedded weights."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.conversation.serving import Server, serving
from tests.conversation.test_server_protocol import TAG

MODEL = "embedded"


def hello(number: int = 0, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": f"I lost my job, for the {number}. time."}
    return {"model": MODEL, "messages": [message], "seed": number, "temperature": 1.0} | more


@pytest.fixture(scope="module")
def tiny(tiny_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Eight slots, and a queue for thirty clients."""
    folder = tmp_path_factory.mktemp("serve-tiny")
    with serving(
        folder, "--model=embedded:small", "--name=embedded", "--max-requests=22", COMPEER_WEIGHTS=str(tiny_gguf)
    ) as server:
        yield server


async def listen(client: openai.AsyncOpenAI, number: int, seen: list[tuple[str, int]], **more: Any) -> dict[str, Any]:
    """One client: notes its first token and its end."""
    parts: dict[str, Any] = {"reasoning": "", "content": "", "number": number}
    stream = await client.chat.completions.create(**hello(number, **more), stream=True)
    async for chunk in stream:
        if chunk.usage:
            parts["tokens"] = chunk.usage.completion_tokens
        if not chunk.choices:
            continue
        if not parts["reasoning"]:
            seen.append(("first", number))
        delta: Any = chunk.choices[0].delta
        parts["reasoning"] += getattr(delta, "reasoning", None) or ""
        parts["content"] += delta.content or ""
        parts["compeer"] = getattr(delta, "compeer", None)
        parts["finish"] = chunk.choices[0].finish_reason
    seen.append(("end", number))
    return parts


class TestManyClients:
    def test_thirty_clients_finish_but_for_ten_who_leave_and_free_their_work(self, tiny: Server) -> None:
        """The ten leave while eight answers are being written and the others wait. What they cost is counted in tokens."""

        async def scenario() -> list[Any]:
            async with tiny.crowd() as client:
                seen: list[tuple[str, int]] = []
                told = {"stream_options": {"include_usage": True}}
                tasks = [
                    asyncio.create_task(listen(client, number, seen, max_tokens=2000 if number < 10 else 60, **told))
                    for number in range(30)
                ]
                arrived = 0.0
                while len(seen) < 8 or arrived < 30:
                    await asyncio.sleep(0.02)
                    ended = sum(kind == "end" for kind, _ in seen)
                    arrived = ended + await asyncio.to_thread(tiny.metric, "compeer_serve_in_flight")
                for task in tasks[:10]:
                    task.cancel()
                answers = await asyncio.gather(*tasks, return_exceptions=True)
                return [*answers, await listen(client, 0, [], max_tokens=2000, **told)]

        *answers, whole = asyncio.run(scenario())
        finished = [answer for answer in answers if isinstance(answer, dict)]
        left = sum(isinstance(answer, asyncio.CancelledError) for answer in answers)
        assert (len(finished), left) == (20, 10)
        assert all(answer["finish"] in ("stop", "length") and answer["reasoning"] for answer in finished)
        assert whole["compeer"]["complete"], whole["compeer"]["problems"]
        deadline = time.monotonic() + 10
        while tiny.metric("compeer_serve_slots_busy") and time.monotonic() < deadline:
            time.sleep(0.02)
        assert tiny.metric("compeer_serve_slots_busy") == 0, "llama.cpp works for nobody"
        assert tiny.metric("compeer_serve_in_flight") == tiny.metric("compeer_serve_queue") == 0
        # an answer may have been written to its end a moment before its client left
        assert 8 <= tiny.metric("compeer_serve_cancelled_total") <= 10
        theirs = sum(answer["tokens"] for answer in (*finished, whole))
        wasted = tiny.metric("compeer_serve_tokens_total", "completion") - theirs
        assert wasted < 10 * whole["tokens"] / 2, f"a whole answer is {whole['tokens']} tokens; {wasted} for ten left"

    def test_nobody_waits_for_the_first_token_until_another_has_finished(self, tiny: Server) -> None:
        async def scenario() -> list[tuple[str, int]]:
            async with tiny.crowd() as client:
                seen: list[tuple[str, int]] = []
                await asyncio.gather(*(listen(client, number, seen, max_tokens=400) for number in range(8)))
                return seen

        kinds = [kind for kind, _ in asyncio.run(scenario())]
        assert kinds == ["first"] * 8 + ["end"] * 8

    def test_one_too_many_is_told_when_to_come_again(self, tiny: Server) -> None:
        async def scenario() -> list[Any]:
            async with tiny.crowd() as client:
                tasks = [listen(client, number, [], max_tokens=40) for number in range(34)]
                return await asyncio.gather(*tasks, return_exceptions=True)

        answers = asyncio.run(scenario())
        refused = [answer for answer in answers if isinstance(answer, openai.RateLimitError)]
        assert refused
        assert all(int(error.response.headers["Retry-After"]) >= 1 for error in refused)
        assert sum(isinstance(answer, dict) for answer in answers) == 34 - len(refused) >= 30


class TestOneClient:
    def test_pins_and_given_steps_hold_against_a_random_model(self, tiny: Server) -> None:
        wishes = {"pin": {"strategy": "information", "intensity": 2}, "steps": {"history": "They lost their job."}}
        for number in range(2):
            answer: Any = tiny.client().chat.completions.create(**hello(number), extra_body={"compeer": wishes})
            told = answer.choices[0].message.compeer
            assert told["complete"], told["problems"]
            assert told["steps"]["strategy"]["strategy"] == "information"
            assert told["steps"]["emotion"]["intensity"] == 2
            assert told["steps"]["history"]["text"] == "They lost their job."

    def test_nothing_that_was_said_is_on_disk(self, tiny: Server) -> None:
        said = [{"role": "user", "content": "Rumpelstiltskin took my job."}]
        answer: Any = tiny.client().chat.completions.create(**hello(messages=said, max_tokens=30))
        assert answer.choices[0].message.reasoning
        assert not tiny.on_disk("Rumpelstiltskin")

    def test_usage_and_length(self, tiny: Server) -> None:
        chunks = list(
            tiny.client().chat.completions.create(
                **hello(max_tokens=20), stream=True, stream_options={"include_usage": True}
            )
        )
        assert chunks[-1].usage is not None
        assert (chunks[-1].choices, chunks[-1].usage.completion_tokens) == ([], 20)
        assert chunks[-1].usage.prompt_tokens > 50
        assert chunks[-2].choices[0].finish_reason == "length"
        assert all(chunk.usage is None for chunk in chunks[:-1])

    def test_a_message_that_is_too_long_and_a_picture_are_refused(self, tiny: Server) -> None:
        with pytest.raises(openai.BadRequestError) as caught:
            tiny.client().chat.completions.create(**hello(messages=[{"role": "user", "content": "very " * 20_000}]))
        assert caught.value.code == "context_length_exceeded"
        from tests.conversation.test_requests import PICTURE

        with pytest.raises(openai.BadRequestError, match="cannot see pictures"):
            tiny.client().chat.completions.create(**hello(messages=[{"role": "user", "content": [PICTURE]}]))


class TestStopping:
    def test_what_is_under_way_is_finished_and_what_is_new_refused(self, tiny_gguf: Path, tmp_path: Path) -> None:
        with serving(
            tmp_path, "--model=embedded:small", "--name=embedded", "--grace=20", COMPEER_WEIGHTS=str(tiny_gguf)
        ) as server:
            stream: Any = server.client().chat.completions.create(**hello(), stream=True)
            chunks = [next(stream)]
            stopped: list[int] = []
            thread = threading.Thread(target=lambda: stopped.append(server.stop()))
            thread.start()
            while server.get("/health")[0] == 200:
                time.sleep(0.01)
            status, headers, text = server.post(hello())
            assert (status, json.loads(text)["error"]["code"]) == (503, "stopping")
            assert headers["Retry-After"]
            chunks += stream
            assert chunks[-1].choices[0].delta.compeer["complete"]
            thread.join(30)
            assert stopped == [0]

    def test_what_takes_too_long_is_told_so(self, tiny_gguf: Path, tmp_path: Path) -> None:
        with serving(
            tmp_path, "--model=embedded:small", "--name=embedded", "--grace=0", COMPEER_WEIGHTS=str(tiny_gguf)
        ) as server:
            stream: Any = server.client().chat.completions.create(**hello(), stream=True)
            next(stream)
            thread = threading.Thread(target=server.stop)
            thread.start()
            with pytest.raises(openai.APIError, match="stopped before"):
                list(stream)
            thread.join(30)
            assert server.process.returncode == 0


def test_the_embedded_model_itself(tmp_path: Path) -> None:
    """The real weights: one streamed turn with a pin and an edited step."""
    with serving(tmp_path, "--model=embedded:small", "--name=embedded", "--slots=1", "--context=2048") as server:
        wishes = {
            "pin": {"strategy": "question", "stage": "exploration"},
            "steps": {"history": "They lost their job.", "emotion": "They feel small."},
        }
        answer = asyncio.run(_one(server, extra_body={"compeer": wishes}))
    told = answer["compeer"]
    assert told["complete"], told["problems"]
    assert told["steps"]["strategy"]["strategy"] == "question"
    assert told["steps"]["emotion"]["text"] == "They feel small."
    assert answer["content"] and not TAG.search(answer["content"])


async def _one(server: Server, **more: Any) -> dict[str, Any]:
    async with server.crowd() as client:
        return await listen(client, 1, [], **more)
