"""JSON answers: the schema that is sent, what is read, and the one second chance."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import pytest
from tests.models.serving import HELLO, QUICK, Server, said, serving

from compeer.models.ask import SchemaFailure, ask_json, decode, schema_of
from compeer.models.endpoint import Endpoint
from compeer.models.request import ModelError


class Reason(msgspec.Struct):
    why: str
    sure: bool = False


class Verdict(msgspec.Struct):
    title: str
    default: int
    verdict: Literal["yes", "no"]
    score: Annotated[int, msgspec.Meta(ge=1, le=5)]
    reasons: list[Reason]
    other: Reason | None = None


GOOD = {
    "title": "a title",
    "default": 3,
    "verdict": "yes",
    "score": 4,
    "reasons": [{"why": "because", "sure": True}],
    "other": None,
}


def asked(*contents: str) -> tuple[Any, Server]:
    """Ask for a Verdict from a server with these answers; (result or exception, what the server saw)."""

    async def scenario() -> tuple[Any, Server]:
        async with serving(lambda server, _: said(contents[len(server.bodies) - 1])) as server:
            model = Endpoint("m", server.url, patience=QUICK)
            try:
                return await ask_json(model, HELLO, Verdict), server
            except ModelError as error:
                return error, server
            finally:
                await model.close()

    return asyncio.run(scenario())


def walk(node: Any) -> Sequence[dict[str, Any]]:
    if isinstance(node, list):
        return [found for entry in node for found in walk(entry)]
    return [node, *(found for value in node.values() for found in walk(value))] if isinstance(node, dict) else []


class TestSchema:
    def test_objects_are_closed_and_every_field_is_required(self) -> None:
        schema = schema_of(Verdict)
        assert schema["required"] == ["title", "default", "verdict", "score", "reasons", "other"]
        reason = schema["properties"]["reasons"]["items"]
        assert (reason["required"], reason["additionalProperties"]) == (["why", "sure"], False)

    def test_fields_may_be_called_title_or_default(self) -> None:
        properties = schema_of(Verdict)["properties"]
        assert properties["title"] == {"type": "string"}
        assert properties["default"] == {"type": "integer"}

    def test_nothing_refers_elsewhere(self) -> None:
        assert not any("$ref" in node or "$defs" in node for node in walk(schema_of(Verdict)))
        assert sorted(schema_of(Verdict)["properties"]["verdict"]["enum"]) == ["no", "yes"]
        assert schema_of(Verdict)["properties"]["score"] == {"type": "integer", "minimum": 1, "maximum": 5}


class TestReading:
    @pytest.mark.parametrize(
        "text",
        [
            '{"why": "x", "sure": true}',
            '\n\n {"why": "x", "sure": true}\n',
            '```json\n{"why": "x", "sure": true}\n```',
            '```\n{"why": "x", "sure": true}\n```\n',
            '<think>Shall I say {"why": "y"}?</think>{"why": "x", "sure": true}',
            '\n<think>\n</think>\n\n```json\n{"why": "x", "sure": true}```',
        ],
    )
    def test_the_object_is_found(self, text: str) -> None:
        assert decode(text, Reason) == Reason("x", True)

    @pytest.mark.parametrize(
        "text",
        ["", "no", "{}", '{"why": 3}', '{"why": "x"} and more', "[]", "<think>{}", 'Sure: {"why": "x"}'],
    )
    def test_anything_else_is_an_error(self, text: str) -> None:
        with pytest.raises((msgspec.MsgspecError, ValueError)):
            decode(text, Reason)


class TestAsking:
    def test_a_good_answer_is_asked_for_once(self) -> None:
        (verdict, repairs), server = asked(json.dumps(GOOD))
        assert verdict == msgspec.convert(GOOD, Verdict)
        assert repairs == 0
        assert len(server.bodies) == 1
        sent = server.bodies[0]["response_format"]["json_schema"]
        assert sent["schema"] == schema_of(Verdict)
        assert sent["strict"] is True

    def test_a_bad_answer_gets_one_more_chance_and_hears_why(self) -> None:
        (verdict, repairs), server = asked('{"title": "t"}', "```json\n" + json.dumps(GOOD) + "\n```")
        assert (verdict.score, repairs) == (4, 1)
        first, second = server.bodies
        assert second["messages"][: len(first["messages"])] == first["messages"]
        answer, correction = second["messages"][-2:]
        assert answer == {"role": "assistant", "content": '{"title": "t"}'}
        assert "missing required field `default`" in correction["content"]
        assert second["response_format"] == first["response_format"]

    def test_two_bad_answers_are_a_failure_that_says_why(self) -> None:
        failure, server = asked("no", json.dumps(GOOD | {"score": 9}), json.dumps(GOOD))
        assert isinstance(failure, SchemaFailure)
        assert "twice" in str(failure)
        assert "<= 5" in str(failure)
        assert len(server.bodies) == 2

    def test_an_empty_answer_does_not_become_an_empty_message(self) -> None:
        _, server = asked("", json.dumps(GOOD))
        assert server.bodies[1]["messages"][-2]["content"] == "(nothing)"
