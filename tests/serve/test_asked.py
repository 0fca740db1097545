"""From a client's messages to the turn they ask for."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from compeer.conversation.messages import Album, Asked, asked
from compeer.conversation.wire import Refused, Settings, read_request

HELLO = [{"role": "user", "content": "I cannot sleep."}]
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(DOT).decode()}}


def read(sees: bool = True, settings: Settings = Settings(), **fields: Any) -> Asked:
    album = Album()
    try:
        return asked(read_request(json.dumps({"messages": HELLO} | fields).encode()), settings, album, sees)
    finally:
        album.close()


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
    with pytest.raises(Refused) as caught:
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
    request = question.request
    assert (request.temperature, request.top_p, request.max_tokens) == (0.0, 0.5, 7)
    assert request.seed == 2**31 - 1
    assert (request.stop, question.stops) == ((), ("END",)), "a stop string is for the reply, not for the thinking"
    assert read(max_tokens=10**9).request.max_tokens == Settings().most_tokens


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
    request = read(messages=messages).request
    assert request.messages[0]["role"] == "system"
    assert str(request.messages[0]["content"]).endswith("\n\nBe brief.")
    assert list(request.messages[1:]) == [
        {"role": "user", "content": "Hi.\nI am tired."},
        {"role": "assistant", "content": "Since when?"},
        {"role": "user", "content": "Since May."},
    ]


def test_the_oldest_turns_are_left_out_and_still_screened() -> None:
    turns = [{"role": role, "content": f"{role} " * 9} for _ in range(10) for role in ("user", "assistant")]
    question = read(messages=[*turns, *HELLO], settings=Settings(history=60))
    assert [message["role"] for message in question.request.messages] == ["system", *["user", "assistant"] * 3, "user"]
    assert question.dropped == 7
    assert len(question.said) == 11


def test_the_language_is_the_persons_unless_chosen() -> None:
    assert read(messages=[{"role": "user", "content": "我睡不着"}]).language == "zh"
    assert read(messages=[{"role": "user", "content": "我睡不着"}], compeer={"language": "en"}).language == "en"
    before = [{"role": "user", "content": "我睡不着"}, {"role": "assistant", "content": "嗯。"}]
    assert read(messages=[*before, {"role": "user", "content": "…"}]).language == "zh"


def test_steps_of_an_earlier_answer_can_be_sent_back() -> None:
    steps = {
        "history": {"text": "They lost their job.", "stage": "exploration"},
        "emotion": {"text": "Not shame: relief.", "sentiment": None, "emotion": None, "intensity": None},
    }
    control = read(compeer={"steps": steps, "pin": {"strategy": "Question"}}).control
    assert dict(control.given) == {"history": "They lost their job.", "emotion": "Not shame: relief."}
    assert dict(control.pins.items()) == {"stage": "exploration", "strategy": "question"}


def test_pictures_are_files_only_while_they_are_needed() -> None:
    album = Album()
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Look."}, PICTURE]}]}
    question = asked(read_request(json.dumps(body).encode()), Settings(), album, sees=True)
    path = Path(question.request.messages[1]["content"][1]["path"])
    assert path.read_bytes() == DOT
    assert (question.said, path.suffix) == (("Look.",), ".png")
    album.close()
    assert not path.parent.exists()
    with pytest.raises(Refused, match="cannot see pictures"):
        read(sees=False, **body)
