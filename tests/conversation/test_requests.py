"""From a client's messages to the turn they ask for."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from compeer.conversation.engine import Sampling, TurnWriter
from compeer.conversation.requests import (
    ApiError,
    AskedTurn,
    ServerSettings,
    asked_turn,
    read_request,
    without_additions,
)
from compeer.models import Model, Request, open_model
from compeer.safety import ConversationGuard

HELLO = [{"role": "user", "content": "I cannot sleep."}]
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(DOT).decode()}}


def read(
    sees: bool = True,
    settings: ServerSettings = ServerSettings(),
    headers: dict[str, str] | None = None,
    **fields: Any,
) -> AskedTurn:
    return asked_turn(read_request(json.dumps({"messages": HELLO} | fields).encode()), settings, sees, headers)


def writer(question: AskedTurn) -> TurnWriter:
    model: Model = open_model("openai:kind-7b", base_url="http://127.0.0.1:9/v1")
    return TurnWriter(model, question.turn, ConversationGuard())


def request_of(question: AskedTurn) -> Request:
    return writer(question).model_request()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("tools", [{"type": "function"}]),
        ("response_format", {"type": "json_object"}),
        ("logprobs", True),
        ("presence_penalty", 0.5),
        ("logit_bias", {"5": 1}),
        ("messages", []),
        ("messages", [{"role": "assistant", "content": "Hi."}]),
        ("messages", [{"role": "tool", "content": "5"}]),
        ("messages", [*HELLO, {"role": "assistant", "content": "Hi."}]),
        ("messages", [{"role": "user", "content": "  "}]),
        ("messages", [{"role": "user", "content": [{"type": "input_audio"}]}]),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://10.0.0.1/x"}}]}]),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "/etc/passwd"}}]}]),
        ("messages", "Hi."),
        ("max_tokens", 0),
        ("temperature", 3),
        ("temperature", "warm"),
        ("stop", [str(number) for number in range(17)]),
        ("compeer", {"pins": {}}),
        ("compeer", {"pin": {"strategy": "hypnosis"}}),
        ("compeer", {"pin": {"emotion": "joy", "sentiment": "negative"}}),
        ("compeer", {"steps": {"emotion": "</think>"}}),
        ("compeer", {"steps": {"mood": "low"}}),
        ("compeer", {"steps": {"emotion": {"stage": "action"}}}),
        ("compeer", {"language": "fr"}),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_place(field: str, value: Any) -> None:
    with pytest.raises(ApiError) as caught:
        read(**{field: value})
    assert caught.value.status == 400
    assert field in (caught.value.param or "") or field in str(caught.value)


def test_what_means_nothing_special_is_taken() -> None:
    question = read(
        n=1, tools=[], response_format={"type": "text"}, presence_penalty=0, user="me", stream=None, top_k=5
    )
    assert question.ignored == ("top_k",), "only what another server would have heeded is named"


def test_sampling_reaches_the_model_and_stops_do_not() -> None:
    question = read(temperature=0, top_p=0.5, seed=-1, max_tokens=9, max_completion_tokens=7, stop="END")
    request = request_of(question)
    assert (request.temperature, request.top_p, request.max_tokens) == (0.0, 0.5, 7)
    assert request.seed == 2**31 - 1
    assert (request.stop, question.turn.stops) == ((), ("END",)), "a stop string is for the reply, not for the thinking"
    assert read(max_tokens=10**9).turn.sampling.max_tokens == ServerSettings().sampling.max_tokens


def test_past_thinking_is_left_out_and_turns_alternate() -> None:
    messages = [
        {"role": "assistant", "content": "Welcome!"},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi."},
        {"role": "user", "content": [{"type": "text", "text": "I am tired."}]},
        {"role": "assistant", "content": "<think>\nThey seem low.\n</think>\nSince when?"},
        {"role": "assistant", "content": "<think>only thought</think>"},
        {"role": "user", "content": "Since May."},
    ]
    request = request_of(read(messages=messages))
    assert request.messages[0]["role"] == "system"
    assert str(request.messages[0]["content"]).endswith("\n\nBe brief.")
    assert list(request.messages[1:]) == [
        {"role": "user", "content": "Hi.\nI am tired."},
        {"role": "assistant", "content": "Since when?"},
        {"role": "user", "content": "Since May."},
    ]


def test_the_oldest_turns_are_left_out_and_still_screened() -> None:
    turns = [{"role": role, "content": f"{role} " * 9} for _ in range(10) for role in ("user", "assistant")]
    question = read(messages=[*turns, *HELLO], settings=ServerSettings(sampling=Sampling(history_words=60)))
    assert [message["role"] for message in request_of(question).messages] == [
        "system",
        *["user", "assistant"] * 3,
        "user",
    ]
    assert writer(question).dropped() == 7
    assert sum(turn.speaker == "seeker" for turn in question.turn.history) == 11


def test_the_language_is_the_persons_unless_chosen() -> None:
    assert read(messages=[{"role": "user", "content": "我睡不着"}]).turn.language == "zh"
    assert read(messages=[{"role": "user", "content": "我睡不着"}], compeer={"language": "en"}).turn.language == "en"
    before = [{"role": "user", "content": "我睡不着"}, {"role": "assistant", "content": "嗯。"}]
    assert read(messages=[*before, {"role": "user", "content": "…"}]).turn.language == "zh"


def test_steps_of_an_earlier_answer_can_be_sent_back() -> None:
    steps = {
        "history": {"text": "They lost their job.", "stage": "exploration"},
        "emotion": {"text": "Not shame: relief.", "sentiment": None, "emotion": None, "intensity": None},
    }
    control = read(compeer={"steps": steps, "pin": {"strategy": "Question"}}).turn.control
    assert dict(control.given) == {"history": "They lost their job.", "emotion": "Not shame: relief."}
    assert dict(control.pins.items()) == {"stage": "exploration", "strategy": "question"}


def test_pictures_are_checked_and_stay_in_memory() -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look."}, PICTURE]}]}
    (turn,) = read(**body).turn.history
    assert (turn.text, turn.images) == ("Look.", (PICTURE["image_url"]["url"],))
    with pytest.raises(ApiError, match="cannot see pictures"):
        read(sees=False, **body)
    for data, problem in ((b"<svg onload=alert(1)>", "is not a PNG"), (None, "is not base64")):
        url = "data:image/png;base64," + ("%" if data is None else base64.b64encode(data).decode())
        content = [{"type": "image_url", "image_url": {"url": url}}]
        with pytest.raises(ApiError, match=problem):
            read(messages=[{"role": "user", "content": content}])


def test_country_and_language_come_from_the_field_the_header_or_the_server() -> None:
    headers = {"X-Compeer-Country": "NZ", "X-Compeer-Language": "zh"}
    assert read(headers=headers).country == "NZ" and read(headers=headers).turn.language == "zh"
    fields = read(headers=headers, compeer={"country": "GB", "language": "en"})
    assert fields.country == "GB" and fields.turn.language == "en"
    assert read(settings=ServerSettings(country="IE")).country == "IE"
    with pytest.raises(ApiError, match="X-Compeer-Language"):
        read(headers={"X-Compeer-Language": "fr"})


def test_what_the_server_added_is_taken_off_an_old_reply() -> None:
    old = "☎ Call 999 now.\n☎ Samaritans: call 116 123\n\nI am with you.\nTell me more.\n\nⓘ This is a program."
    assert without_additions(old) == "I am with you.\nTell me more."
    question = read(messages=[*HELLO, {"role": "assistant", "content": old}, {"role": "user", "content": "Yes."}])
    assert [turn.text for turn in question.turn.history][1] == "I am with you.\nTell me more." and not question.opening
