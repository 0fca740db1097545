"""The endpoint against real servers: what goes over the wire, and what happens when the other side misbehaves."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.models.serving import HELLO, QUICK, Server, event, events, fault, said, serving

from compeer.models.endpoint import Endpoint
from compeer.models.request import Answer, Failure, ModelError, Patience, Request, Usage, ask_all
from compeer.reasoning import Control, Pins
from compeer.reasoning.grammar import gbnf, plan, regex

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def talk(reply: Callable[[Server, dict[str, Any]], Any], *requests: Request, **options: Any) -> tuple[Any, Server]:
    """Ask these requests one after another; (answers, the server with what it saw)."""
    owner = options.pop("owner", None)

    async def scenario() -> tuple[list[Answer], Server]:
        async with serving(reply, owner) as server:
            model = Endpoint("m", server.url, **{"patience": QUICK, **options})
            try:
                return [await model.ask(request) for request in requests or (HELLO,)], server
            finally:
                await model.close()

    answers, server = asyncio.run(scenario())
    return (answers if len(requests) > 1 else answers[0]), server


def stream(reply: Callable[[Server, dict[str, Any]], Any], request: Request = HELLO) -> tuple[list[str], Server]:
    async def scenario() -> tuple[list[str], Server]:
        async with serving(reply) as server:
            model = Endpoint("m", server.url, patience=QUICK)
            try:
                return [piece async for piece in model.stream(request)], server
            finally:
                await model.close()

    return asyncio.run(scenario())


def refusal(reply: Callable[[Server, dict[str, Any]], Any], **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        talk(reply, **options)
    return str(caught.value)


class TestWire:
    def test_a_plain_request_has_the_fields_of_the_protocol_and_no_others(self) -> None:
        answer, server = talk(lambda *_: said("Hi."))
        assert answer.text == "Hi."
        assert server.bodies == [
            {"model": "m", "messages": HELLO.messages, "max_tokens": 20, "temperature": 0.7, "top_p": 1.0}
        ]
        assert "Authorization" not in server.headers[0]

    def test_every_setting_arrives(self) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        request = msgspec.structs.replace(
            HELLO, seed=7, stop=("###", "\n\n"), schema=schema, logprobs=5, top_p=0.9, temperature=1.0, penalty=1.1
        )
        _, server = talk(lambda *_: said("{}"), request, api_key="secret")
        body = server.bodies[0]
        assert (body["seed"], body["stop"], body["top_p"], body["temperature"]) == (7, ["###", "\n\n"], 0.9, 1.0)
        assert body["response_format"]["type"] == "json_schema"
        assert body["response_format"]["json_schema"]["schema"] == schema
        assert (body["logprobs"], body["top_logprobs"]) == (True, 5)
        assert body["repetition_penalty"] == body["repeat_penalty"] == 1.1
        assert server.headers[0]["Authorization"] == "Bearer secret"

    def test_images_travel_as_data_urls(self, tmp_path: Path) -> None:
        picture = tmp_path / "face.png"
        picture.write_bytes(PIXEL)
        parts = [{"type": "image", "path": str(picture)}, {"type": "text", "text": "How do they feel?"}]
        _, server = talk(lambda *_: said("Sad."), Request(messages=[{"role": "user", "content": parts}]))
        image, text = server.bodies[0]["messages"][0]["content"]
        assert text == parts[1]
        kind, _, data = image["image_url"]["url"].partition(";base64,")
        assert (image["type"], kind, base64.b64decode(data)) == ("image_url", "data:image/png", PIXEL)

    def test_a_missing_image_is_named(self) -> None:
        parts = [{"type": "image", "path": "/no/such/face.png"}]
        with pytest.raises(ModelError, match=r"/no/such/face\.png cannot be read"):
            talk(lambda *_: said("Sad."), Request(messages=[{"role": "user", "content": parts}]))

    @pytest.mark.parametrize(
        ("owner", "field"),
        [("llamacpp", "grammar"), ("vllm", "structured_outputs"), ("sglang", "regex"), ("openai", None), (None, None)],
    )
    def test_a_grammar_goes_where_this_server_reads_it(self, owner: str | None, field: str | None) -> None:
        control = Control(Pins(stage="action", strategy="question"))
        ruled = msgspec.structs.replace(HELLO, plan=plan("en", control))
        _, server = talk(lambda *_: said("x"), ruled, ruled, owner=owner)
        wanted = {"grammar": gbnf(ruled.plan), "structured_outputs": {"regex": regex(ruled.plan)}}
        wanted["regex"] = regex(ruled.plan)
        found = {name: server.bodies[0][name] for name in wanted if name in server.bodies[0]}
        assert found == ({field: wanted[field]} if field else {})
        assert server.listings == 1, "a server that is there is asked once what it is"

    def test_the_dialect_can_be_said(self) -> None:
        ruled = msgspec.structs.replace(HELLO, plan=plan("en"))
        _, server = talk(lambda *_: said("x"), ruled, dialect="vllm")
        assert "structured_outputs" in server.bodies[0]
        assert server.listings == 0

    def test_a_server_that_was_only_starting_gets_the_grammar_later(self) -> None:
        async def scenario() -> list[bool]:
            async with serving(
                lambda server, _: said("x") if server.listings > 2 else fault(503), "llamacpp"
            ) as server:
                server.starting = 2
                model = Endpoint("m", server.url, patience=QUICK)
                await model.ask(msgspec.structs.replace(HELLO, plan=plan("en")))
                await model.close()
                return ["grammar" in body for body in server.bodies]

        assert asyncio.run(scenario()) == [False, False, True]


class TestAnswers:
    def test_usage_and_model_are_read(self) -> None:
        answer, _ = talk(lambda *_: said("Hi."))
        assert (answer.usage, answer.model, answer.finish) == (Usage(11, 7, 4), "scripted", "stop")

    def test_an_answer_without_usage_counts_nothing(self) -> None:
        answer, _ = talk(lambda *_: {"choices": [{"message": {"content": "Hi."}, "finish_reason": "length"}]})
        assert (answer.usage, answer.finish) == (Usage(), "length")

    @pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
    def test_thinking_that_was_split_off_is_put_back(self, field: str) -> None:
        answer, _ = talk(lambda *_: said("The reply.", **{field: "\nThe thought.\n"}))
        assert answer.text == "<think>\nThe thought.\n</think>The reply."

    def test_first_token_alternatives_are_sorted(self) -> None:
        def reply(*_: Any) -> dict[str, Any]:
            whole = said("True.")
            alternatives = [{"token": "False", "logprob": -2.5}, {"token": "True", "logprob": -0.1}]
            whole["choices"][0]["logprobs"] = {"content": [{"token": "True", "top_logprobs": alternatives}, {}]}
            return whole

        answer, _ = talk(reply, msgspec.structs.replace(HELLO, logprobs=2))
        assert answer.first == (("True", -0.1), ("False", -2.5))

    def test_an_empty_answer_is_an_answer(self) -> None:
        assert talk(lambda *_: said(None))[0].text == ""


class TestStreaming:
    def test_pieces_come_as_they_are_written(self) -> None:
        arrived: list[float] = []

        async def scenario() -> str:
            script = events(event(content="One "), event(content="two "), event(content="three"), pause=0.15)
            async with serving(lambda *_: script) as server:
                model = Endpoint("m", server.url, patience=QUICK)
                pieces = []
                async for piece in model.stream(HELLO):
                    arrived.append(time.monotonic())
                    pieces.append(piece)
                await model.close()
                assert server.bodies[0]["stream"] is True
            return "".join(pieces)

        assert asyncio.run(scenario()) == "One two three"
        assert arrived[-1] - arrived[0] > 0.2, "nothing was held back until the end"

    def test_events_split_in_the_middle_of_a_character(self) -> None:
        whole = event(role="assistant", content="") + event(content="睡不着，") + event(content="心里慌。")
        whole += b": ping\n\nevent: message\n" + b'data: {"choices": [], "usage": {}}\n\ndata: [DONE]\n\n'
        pieces, _ = stream(lambda *_: events(*(whole[i : i + 3] for i in range(0, len(whole), 3))))
        assert pieces == ["睡不着，", "心里慌。"]

    @pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
    def test_streamed_thinking_is_put_back(self, field: str) -> None:
        script = events(event(**{field: "a "}), event(**{field: "b"}), event(content="c "), event(content="d"))
        pieces, _ = stream(lambda *_: script)
        assert pieces == ["<think>a ", "b", "</think>c ", "d"]

    def test_thinking_without_a_reply_is_closed_as_when_asking(self) -> None:
        pieces, _ = stream(lambda *_: events(event(reasoning="a"), b"data: [DONE]\n\n"))
        assert "".join(pieces) == talk(lambda *_: said(None, reasoning="a"))[0].text == "<think>a</think>"

    def test_a_busy_server_is_asked_again_before_the_first_piece(self) -> None:
        ready = events(event(content="Hi."))
        pieces, server = stream(lambda server, _: ready if len(server.bodies) > 2 else fault(429))
        assert pieces == ["Hi."]
        assert len(server.bodies) == 3

    @pytest.mark.parametrize(
        ("script", "message"),
        [
            (events(event(content="half"), close=True), "broke off: the connection failed"),
            (events(event(content="half"), b"data: {oops\n\n"), "makes no sense"),
            (events(event(content="half"), b'data: {"error": {"message": "out of memory"}}\n\n'), "out of memory"),
            (events(event(content="half"), b"data: " + b"x" * 600_000), "makes no sense"),
            (events(event(content="half"), b'data: {"choices": [{"delta": "no"}]}\n\n'), "makes no sense"),
            (events(event(content="half"), b": wait\n\n", pause=1.0), "did not answer within 0.5 s"),
        ],
    )
    def test_a_stream_that_breaks_off_ends_in_an_error(self, script: Any, message: str) -> None:
        got: list[str] = []

        async def scenario() -> None:
            async with serving(lambda *_: script) as server:
                model = Endpoint("m", server.url, patience=QUICK)
                try:
                    async for piece in model.stream(HELLO):
                        got.append(piece)
                finally:
                    await model.close()
                assert len(server.bodies) == 1

        with pytest.raises(ModelError, match=message):
            asyncio.run(scenario())
        assert got == ["half"], "what was passed on is never written twice"

    def test_a_refused_stream_says_why(self) -> None:
        with pytest.raises(ModelError, match=r"401: wrong key.*OPENAI_API_KEY"):
            stream(lambda *_: fault(401, '{"error": {"message": "wrong key"}}'))


class TestPatience:
    def test_concurrency_is_never_exceeded(self) -> None:
        async def slowly(server: Server, _: dict[str, Any]) -> dict[str, Any]:
            await asyncio.sleep(0.02)
            return said("Hi.")

        async def scenario() -> tuple[Server, list[Answer | Failure]]:
            async with serving(slowly) as server:
                model = Endpoint("m", server.url, concurrency=5, patience=QUICK)
                answers = await ask_all(model, [HELLO] * 60, concurrency=40)
                await model.close()
                return server, answers

        server, answers = asyncio.run(scenario())
        assert len(answers) == 60
        assert all(isinstance(answer, Answer) for answer in answers)
        assert server.most_in_flight == 5

    def test_waiting_for_a_place_costs_no_patience(self) -> None:
        async def reply(server: Server, _: dict[str, Any]) -> Any:
            number = len(server.bodies)
            await asyncio.sleep(0.8 if number == 1 else 0)
            return fault(500) if number == 2 else said("Hi.")

        async def scenario() -> list[Answer]:
            async with serving(reply) as server:
                patience = Patience(attempts=3, first=0.4, longest=0.4, patience=0.95, timeout=5.0)
                model = Endpoint("m", server.url, concurrency=1, patience=patience)
                answers = await asyncio.gather(model.ask(HELLO), model.ask(HELLO))
                await model.close()
                return answers

        # the second waits 0.8 s for its place, fails, and has its whole patience left for another try
        assert [answer.text for answer in asyncio.run(scenario())] == ["Hi.", "Hi."]

    def test_retry_after_is_respected(self) -> None:
        times: list[float] = []

        def reply(server: Server, _: dict[str, Any]) -> Any:
            times.append(time.monotonic())
            return fault(429, Retry_After="0.3") if len(times) == 1 else said("Hi.")

        patience = Patience(attempts=3, first=0.001, longest=1.0, patience=5.0, timeout=1.0)
        assert talk(reply, patience=patience)[0].text == "Hi."
        assert times[1] - times[0] >= 0.3

    @pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
    def test_passing_failures_are_tried_again_and_counted(self, status: int) -> None:
        async def scenario() -> tuple[str, int]:
            script = [fault(status, "busy"), fault(status, "busy"), said("Hi.")]
            async with serving(lambda server, _: script[len(server.bodies) - 1]) as server:
                model = Endpoint("m", server.url, patience=QUICK)
                answer = await model.ask(HELLO)
                await model.close()
                return answer.text, model.retries

        assert asyncio.run(scenario()) == ("Hi.", 2)

    def test_429_for_ever_ends_within_the_patience(self) -> None:
        patience = Patience(attempts=1000, first=0.05, longest=0.2, patience=1.0, timeout=5.0)
        started = time.monotonic()
        message = refusal(lambda *_: fault(429, '{"error": {"message": "slow down"}}'), patience=patience)
        assert time.monotonic() - started < 2.5
        assert "429: slow down" in message
        assert "attempts" in message

    def test_a_hanging_server_ends_in_a_time_out(self) -> None:
        async def hang(*_: Any) -> dict[str, Any]:
            await asyncio.sleep(30)
            return said("too late")

        started = time.monotonic()
        patience = Patience(attempts=2, first=0.01, longest=0.01, patience=5.0, timeout=0.3)
        assert "did not answer within 0.3 s" in refusal(hang, patience=patience)
        assert time.monotonic() - started < 3

    def test_hanging_attempts_together_stay_within_the_patience(self) -> None:
        async def hang(*_: Any) -> dict[str, Any]:
            await asyncio.sleep(30)
            return said("too late")

        started = time.monotonic()
        patience = Patience(attempts=50, first=0.01, longest=0.01, patience=1.0, timeout=0.7)
        refusal(hang, patience=patience)
        assert time.monotonic() - started < 2

    def test_an_attempt_that_had_no_time_left_does_not_hide_what_went_wrong_before(self) -> None:
        async def overloaded_then_silent(server: Any, *_: Any) -> Any:
            if len(server.bodies) > 2:
                await asyncio.sleep(30)
            return fault(429, '{"error": {"message": "slow down"}}')

        patience = Patience(attempts=3, first=0.3, longest=0.3, patience=1.2, timeout=1.0)
        message = refusal(overloaded_then_silent, patience=patience)
        assert "after 3 attempts" in message and "429: slow down" in message

    def test_a_server_that_drips_does_not_hold_a_request_for_ever(self) -> None:
        drips = events(*([b" "] * 60), pause=0.1)
        started = time.monotonic()
        assert "did not answer within" in refusal(lambda *_: drips, patience=Patience(attempts=1, timeout=0.5))
        assert time.monotonic() - started < 3

    def test_a_connection_closed_in_the_middle(self) -> None:
        cut = events(b'{"choices": [{"mess', close=True)
        assert "the connection failed" in refusal(lambda *_: cut)
        answer, server = talk(lambda server, _: cut if len(server.bodies) < 3 else said("Hi."))
        assert (answer.text, len(server.bodies)) == ("Hi.", 3)

    @pytest.mark.parametrize(
        "body",
        [
            b"<html><body>Welcome to the gateway</body></html>",
            b"",
            b"{}",
            b"[]",
            b"null",
            b'"choices"',
            b'{"choices": []}',
            b'{"choices": null}',
            b'{"choices": [{}]}',
            b'{"choices": [{"message": null}]}',
            b'{"choices": [{"message": {"content": 5}}]}',
            b'{"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": "many"}}',
            b'{"choices": [{"message": {"content": "x"}}], "usage": []',
            b"\xff\xfe\x00garbage",
        ],
    )
    def test_garbage_with_status_200(self, body: bytes) -> None:
        message = refusal(lambda *_: web.Response(body=body, content_type="application/json"))
        assert "its answer makes no sense" in message
        assert "after 4 attempts" in message

    def test_garbage_once_is_forgiven(self) -> None:
        answer, _ = talk(lambda server, _: web.Response(text="oops") if len(server.bodies) < 2 else said("Hi."))
        assert answer.text == "Hi."

    @pytest.mark.parametrize(
        ("status", "advice"),
        [(401, "OPENAI_API_KEY"), (403, "OPENAI_API_KEY"), (404, "right model name"), (400, "shorter"), (418, "later")],
    )
    def test_refusals_are_final_and_say_what_to_do(self, status: int, advice: str) -> None:
        seen: list[Server] = []

        def reply(server: Server, _: dict[str, Any]) -> web.Response:
            seen.append(server)
            return fault(status, '{"error": {"message": "no such thing"}}')

        message = refusal(reply)
        assert f"{status}: no such thing" in message
        assert advice in message
        assert len(seen) == 1, "asking again would not help"

    def test_an_error_page_is_shown_short(self) -> None:
        message = refusal(lambda *_: fault(404, "<h1>Not found</h1>" + "x" * 5000))
        assert "<h1>Not found</h1>" in message
        assert len(message) < 500

    def test_an_unreachable_port(self, free_port: int) -> None:
        model = Endpoint("m", f"http://127.0.0.1:{free_port}/v1", patience=QUICK)

        async def scenario(verb: Callable[[], Any]) -> None:
            try:
                await verb()
            finally:
                await model.close()

        for verb in (lambda: model.ask(HELLO), lambda: model.stream(HELLO).__anext__(), model.models):
            with pytest.raises(ModelError, match=f"{free_port}.*Is the server running"):
                asyncio.run(scenario(verb))

    @pytest.mark.parametrize(
        "url",
        ["", "localhost:8000", "127.0.0.1:8000/v1", "ftp://x/v1", "http://", "http:///v1", "http://[::1/v1",
         "http://127.0.0.1:99999/v1", "http://127.0.0.1:0/v1", "http://127.0.0.1:port/v1", "http://a..b/v1"],
    )  # fmt: skip
    def test_a_bad_address_is_refused_at_once(self, url: str) -> None:
        with pytest.raises(ModelError, match="is not the address of a server; it should look like http://"):
            Endpoint("m", url)

    def test_one_failure_does_not_end_the_others(self) -> None:
        def reply(_: Server, body: dict[str, Any]) -> Any:
            return fault(400, "bad") if body["messages"][0]["content"] == "bad" else said("Hi.")

        async def scenario() -> list[Answer | Failure]:
            async with serving(reply) as server:
                model = Endpoint("m", server.url, patience=QUICK)
                questions = ["a", "bad", "b"]
                requests = [Request(messages=[{"role": "user", "content": text}]) for text in questions]
                counted: list[int] = []
                answers = await ask_all(model, requests, on_answer=lambda number, _: counted.append(number))
                await model.close()
                assert sorted(counted) == [0, 1, 2]
                return answers

        first, second, third = asyncio.run(scenario())
        assert isinstance(first, Answer)
        assert isinstance(second, Failure)
        assert "400: bad" in second.reason
        assert isinstance(third, Answer)

    def test_one_endpoint_serves_several_event_loops(self) -> None:
        async def scenario(model: Endpoint | None) -> Endpoint:
            async with serving(lambda *_: said("Hi.")) as server:
                model = model or Endpoint("m", server.url, concurrency=1, patience=QUICK)
                model.base_url, model._chat = server.url, server.url + "/chat/completions"
                answers = await asyncio.gather(*(model.ask(HELLO) for _ in range(3)))
                assert [answer.text for answer in answers] == ["Hi."] * 3
                await model.close()
            return model

        asyncio.run(scenario(asyncio.run(scenario(None))))
