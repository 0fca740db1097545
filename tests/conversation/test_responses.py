"""`/v1/responses`, asked by the openai package: items, events in their order, conversations that are continued."""

from __future__ import annotations

import re
from typing import Any

import openai
import pytest
from tests.conversation.serving import Server
from tests.conversation.supporter import Supporter
from tests.conversation.test_requests import PICTURE
from tests.conversation.test_server_protocol import MODEL

from compeer.conversation.requests import ApiError, ChatMessage
from compeer.conversation.responses import KeptConversations


def ask(server: Server, said: Any = "I lost my job.", **more: Any) -> Any:
    return server.client().responses.create(**({"model": MODEL, "input": said} | more))


def read(supporter: Supporter) -> list[tuple[str, str]]:
    """What the model was given last, after the instructions."""
    return [(one["role"], one["content"]) for one in supporter.bodies[-1]["messages"][1:]]


def test_a_whole_answer_has_a_reasoning_item_and_a_message(server: Server) -> None:
    found = ask(server, instructions="Be brief.", metadata={"a": "b"})
    assert (found.object, found.status, found.model, found.error) == ("response", "completed", MODEL, None)
    assert [item.type for item in found.output] == ["reasoning", "message"]
    assert "What they feel\nThey are ashamed, and afraid of being seen." in found.output[0].content[0].text
    assert found.output_text.startswith("That sounds heavy to carry alone")
    assert found.compeer["complete"] and found.compeer["steps"]["emotion"]["emotion"] == "shame"
    assert "ignored" not in found.compeer and found.instructions == "Be brief."


def test_the_events_come_in_order_and_add_up(server: Server) -> None:
    events = list(ask(server, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert [kind for kind, before in zip(kinds, ["", *kinds], strict=False) if kind != before] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    whole = events[-1].response
    for kind, number in (("reasoning_text", 0), ("output_text", 1)):
        deltas = [event for event in events if event.type == f"response.{kind}.delta"]
        item = whole.output[number]
        assert {(event.item_id, event.output_index, event.content_index) for event in deltas} == {(item.id, number, 0)}
        assert "".join(event.delta for event in deltas) == item.content[0].text
    assert kinds.count("response.reasoning_text.delta") > 10
    assert whole.compeer["complete"] and whole.id == events[0].response.id


def test_the_packages_own_stream_reads_it(server: Server) -> None:
    with server.client().responses.stream(model=MODEL, input="I lost my job.") as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()
    assert "response.completed" in kinds and final.output_text.startswith("That sounds heavy")


def test_a_conversation_is_continued_by_the_id_of_its_last_answer(server: Server, supporter: Supporter) -> None:
    first = ask(server, instructions="Call them Kim.")
    second = ask(server, "I told nobody.", previous_response_id=first.id)
    assert read(supporter) == [("user", "I lost my job."), ("assistant", first.output_text), ("user", "I told nobody.")]
    assert "Kim" not in str(supporter.bodies[-1]), "instructions are not carried over"
    assert "Kim" in str(supporter.bodies[-2]) and second.previous_response_id == first.id
    ask(server, "Not even my wife.", previous_response_id=second.id, stream=False)
    assert len(read(supporter)) == 5
    other = ask(server, "Or was it?", previous_response_id=first.id)  # a second branch from the first answer
    assert read(supporter)[-1] == ("user", "Or was it?") and len(read(supporter)) == 3 and other.id != second.id


def test_what_is_not_stored_or_is_forgotten_or_is_anothers_cannot_be_continued(server: Server) -> None:
    unstored, kept = ask(server, store=False), ask(server)
    assert (unstored.store, kept.store) == (False, True)

    def refused(name: str, key: str = "none") -> None:
        with pytest.raises(openai.BadRequestError) as caught:
            server.client(key).responses.create(model=MODEL, input="And?", previous_response_id=name)
        assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")

    refused(unstored.id)
    refused(kept.id, key="somebody else")
    server.client().responses.delete(kept.id)
    refused(kept.id)
    with pytest.raises(openai.NotFoundError):
        server.client().responses.delete(kept.id)


def test_a_list_of_messages_is_read_and_earlier_reasoning_is_not(server: Server, supporter: Supporter) -> None:
    first = ask(server)
    said = [
        {"role": "developer", "content": "They are called Kim."},
        {"role": "user", "content": [{"type": "input_text", "text": "I lost my job."}]},
        *[item.model_dump() for item in first.output],
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "Look."},
            {"type": "input_image", "detail": "auto", "image_url": PICTURE["image_url"]["url"]},  # type: ignore[index]
        ]},
    ]  # fmt: skip
    ask(server, said)
    system, one, two, three = supporter.bodies[-1]["messages"]
    assert "They are called Kim." in system["content"] and "ashamed" not in str((one, two, three))
    assert (one["content"], two["content"]) == ("I lost my job.", first.output_text)
    assert three["content"][0] == PICTURE


def test_pins_and_language_are_asked_for_in_the_same_field(server: Server) -> None:
    wishes = {"pin": {"strategy": "self-disclosure"}, "language": "zh"}
    found = ask(server, extra_body={"compeer": wishes})
    assert found.compeer["steps"]["strategy"]["strategy"] == "self-disclosure"
    assert found.output_text.startswith("一个人扛着这些")
    hidden = ask(server, extra_body={"compeer": {"show": False}})
    assert [item.type for item in hidden.output] == ["message"]


@pytest.mark.parametrize("stream", [True, False])
def test_in_danger_the_emergency_number_comes_first_and_no_thinking(
    server: Server, supporter: Supporter, stream: bool
) -> None:
    wishes = {"compeer": {"country": "GB"}}
    answer = ask(server, "I took 30 pills an hour ago.", stream=stream, extra_body=wishes)
    if stream:
        events = list(answer)
        assert events[0].response.compeer["safety"]["emergency"]["link"] == "tel:999", "before anything else"
        assert "999" in next(event for event in events if event.type == "response.output_text.delta").delta
        answer = events[-1].response
    assert [item.type for item in answer.output] == ["message"] and "steps" not in answer.compeer
    text = answer.output[0].content[0].text
    assert text.startswith("☎ ") and "999" in text.split("\n")[0]
    assert answer.compeer["safety"]["level"] == "emergency" and supporter.bodies == []
    again = ask(server, "Forget it, I am fine.", previous_response_id=answer.id, extra_body=wishes)
    assert again.compeer["safety"]["level"] == "emergency", "what was said before still counts"


def test_a_stream_that_breaks_off_ends_in_failed_and_an_early_failure_has_its_status(
    server: Server, supporter: Supporter
) -> None:
    supporter.manner = "cut"
    events = list(ask(server, stream=True))
    assert events[-1].type == "response.failed" and events[-1].response.status == "failed"
    assert "broke off" in events[-1].response.error.message and events[-2].type == "response.output_item.done"
    supporter.manner = "nothing"
    for stream in (True, False):
        with pytest.raises(openai.APIStatusError) as caught:
            list(ask(server, stream=stream))
        assert (caught.value.status_code, caught.value.code) == (502, "empty_reply")


def test_an_answer_that_is_cut_is_incomplete(server: Server, supporter: Supporter) -> None:
    supporter.manner, supporter.text = "endless", "and so on " * 20
    event = list(ask(server, stream=True))[-1]
    assert event.type == "response.incomplete" and event.response.incomplete_details.reason == "max_output_tokens"
    assert event.response.output[-1].status == "incomplete"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"background": True}, "background"),
        ({"text": {"format": {"type": "json_object"}}}, "text"),
        ({"input": []}, "input"),
        ({"input": [{"type": "function_call_output", "call_id": "x", "output": "5"}]}, "input[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]}, "input[0].content[0]"),
        ({"input": [{"role": "assistant", "content": "Hi."}]}, "input"),
        ({"extra_body": {"compeer": {"pin": {"strategy": "hypnosis"}}}}, "compeer"),
        ({"extra_body": {"compeer": {"country": "ZZ"}}}, "compeer.country"),
    ],
)
def test_what_is_refused_is_named(server: Server, change: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(server, **change)
    assert caught.value.param == param and len(caught.value.body["message"]) > 20  # type: ignore[index,call-overload]


def test_the_log_has_a_line_per_request_and_no_words(server: Server) -> None:
    found = ask(server, "Rumpelstiltskin lost his job.")
    server.client().responses.delete(found.id)
    server.client().models.list()
    server.get("/v1/nothing")
    lines = server.log.read_text().splitlines()
    form = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 (POST|DELETE|GET) \S+ (\d{3}|gone) \d+\.\d{3}s (\S+)"
    logged = [line.split(" ", 3)[1:3] for line in lines if re.fullmatch(form, line)]
    for wanted in (["POST", "/v1/responses"], ["DELETE", "/v1/responses"], ["GET", "/v1/models"], ["GET", "other"]):
        assert wanted in logged, lines
    assert found.id in server.log.read_text() and "Rumpelstiltskin" not in server.log.read_text()
    assert not server.on_disk("Rumpelstiltskin")


def test_kept_conversations_are_bounded_in_size_and_time() -> None:
    kept = KeptConversations(most_bytes=2500)
    for number in range(9):
        kept.keep("key", f"resp_{number}", [ChatMessage("user", "x" * 1000)])
    assert [name for name in range(9) if kept.forget("key", f"resp_{name}")] == [7, 8]
    brief = KeptConversations(seconds=-1)
    brief.keep("key", "resp", [ChatMessage("user", "x")])
    with pytest.raises(ApiError, match="not found"):
        brief.find("key", "resp")
