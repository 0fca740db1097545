"""Reading while it is written gives what parse gives at the end, however the text is cut, and shows no tag."""

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compeer.reasoning import STEPS, Event, Reasoning, StreamParser, parse, render
from compeer.reasoning.schema import TAG

RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def stream(chunks: Iterable[str]) -> list[Event]:
    parser = StreamParser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.finish()


def texts(events: list[Event]) -> dict[str, str]:
    """The deltas of each step, joined."""
    return {step: "".join(e.text for e in events if e.kind == "text" and e.step == step) for step in STEPS}


def reply(events: list[Event]) -> str:
    return "".join(e.text for e in events if e.kind == "reply")


def labels(events: list[Event]) -> dict[str, str | int]:
    return {e.label: e.value for e in events if e.kind == "label" and e.label and e.value is not None}


def merged(events: list[Event]) -> list[Event]:
    """Neighbouring deltas as one: what must not depend on the chunks."""
    joined: list[Event] = []
    for event in events:
        if (
            joined
            and event.kind in ("text", "reply")
            and (joined[-1].kind, joined[-1].step) == (event.kind, event.step)
        ):
            joined[-1] = Event(event.kind, event.step, joined[-1].text + event.text)
        else:
            joined.append(event)
    return joined


def shown(events: list[Event]) -> list[str]:
    """What a person sees: each step from its opening to its end, and the reply."""
    seen = [""]
    for event in events:
        if event.kind == "step":
            seen.append("")
        elif event.kind == "text":
            seen[-1] += event.text
    return [*seen, reply(events)]


def cut(text: str, points: Iterable[int]) -> list[str]:
    edges = [0, *sorted(points), len(text)]
    return [text[start:end] for start, end in itertools.pairwise(edges)]


@RELAXED
@given(data=st.data())
def test_any_chunks_of_a_complete_output_give_what_parse_gives(
    data: st.DataObject, reasonings: st.SearchStrategy[Reasoning], replies: st.SearchStrategy[str]
) -> None:
    text = render(data.draw(reasonings), data.draw(replies))
    points = data.draw(st.lists(st.integers(0, len(text)), max_size=30))
    events = stream(cut(text, points))
    parsed = parse(text)
    assert parsed.complete
    assert texts(events) == parsed.texts
    assert labels(events) == parsed.labels
    assert reply(events) == parsed.response
    assert not any(TAG.search(event.text) for event in events)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 1000])
def test_chunks_of_one_size(output: str, size: int) -> None:
    events = stream(output[start : start + size] for start in range(0, len(output), size))
    parsed = parse(output)
    assert (texts(events), labels(events), reply(events)) == (parsed.texts, parsed.labels, parsed.response)


def test_windows_line_ends_and_odd_tags(english: str) -> None:
    text = english.replace("\n", "\r\n").replace("<think>", "< THINK >").replace("</emotion>", "</ Emotion\t>")
    events, parsed = stream(text), parse(text)
    assert parsed.complete
    assert (texts(events), labels(events), reply(events)) == (parsed.texts, parsed.labels, parsed.response)


def test_events_come_in_order(output: str) -> None:
    kinds = [(e.kind, e.step, e.label) for e in merged(stream(output))]
    assert kinds == [
        ("step", "history", None), ("text", "history", None), ("label", "history", "stage"), ("close", "history", None),
        ("step", "emotion", None), ("text", "emotion", None), ("label", "emotion", "sentiment"),
        ("label", "emotion", "emotion"), ("label", "emotion", "intensity"), ("close", "emotion", None),
        ("step", "strategy", None), ("text", "strategy", None), ("label", "strategy", "strategy"),
        ("close", "strategy", None), ("reply", None, None),
    ]  # fmt: skip


def test_a_step_is_shown_while_it_grows() -> None:
    parser = StreamParser()
    assert parser.feed("<think>\n<history>\n") == [Event("step", "history")]
    assert parser.feed("She lost") == [Event("text", "history", "She lost")]
    assert parser.feed(" her job") == [Event("text", "history", " her job")]
    assert parser.feed(".\n") == [Event("text", "history", ".")]


def test_the_reply_is_shown_while_it_grows(english: str) -> None:
    parser = StreamParser()
    parser.feed(english.partition("</think>")[0] + "</think>\n")
    assert parser.feed("That") == [Event("reply", text="That")]
    assert parser.feed(" sounds ") == [Event("reply", text=" sounds")]
    assert parser.feed("hard.") == [Event("reply", text=" hard.")]


@pytest.mark.parametrize(
    ("why", "held", "then", "released"),
    [
        ("the beginning of a key", "Sta", "nding still", "Standing still"),
        ("a key that is only a word", "Stage", " fright", "Stage fright"),
        ("the beginning of a tag", "1 <", "2", "1 <2"),
        ("the beginning of a closing tag", "1 </his", "tory?", "1 </history?"),
    ],
)
def test_text_is_held_only_until_it_is_decided(why: str, held: str, then: str, released: str) -> None:
    parser = StreamParser()
    parser.feed("<think><history>")
    before = "".join(e.text for e in parser.feed(held))
    assert before != held, "held"
    assert before + "".join(e.text for e in parser.feed(then)) == released


def test_a_label_comes_with_the_end_of_its_line() -> None:
    parser = StreamParser()
    parser.feed("<think><history>Lost.\nStage: explo")
    assert parser.feed("ration") == []
    assert parser.feed("\n") == [Event("label", "history", "exploration", label="stage", value="exploration")]


def test_an_invalid_label_is_an_event_without_a_value() -> None:
    (label,) = [e for e in stream(["<think><history>Lost.\nStage: nowhere\n</history>"]) if e.kind == "label"]
    assert (label.label, label.text, label.value) == ("stage", "nowhere", None)


@pytest.mark.parametrize(
    ("why", "text", "answer"),
    [
        ("a plain reply", "Hello. How are you?", "Hello. How are you?"),
        ("with a heart", "I am with you <3", "I am with you <3"),
        ("with an unfinished tag at the end", "a <b", "a <b"),
        ("</think> alone", "</think>Hello.", "Hello."),
        ("prose in <think>", "<think>She is sad.</think>Hello.", "Hello."),
        ("<think> never closed", "<think>She is sad.", ""),
        ("never closed, cut in a step", "<think><history>She is", ""),
        ("never closed after the last step", "<think><strategy>Ask.\nStrategy: question</strategy>\nHello.", "Hello."),
        ("a tag in the reply", "<think></think>Hello.<history>You.", "Hello.\nYou."),
        ("a tag split by a tag", "<think></think>a <th<think>ink> b", "a <th\nink> b"),
        ("text before <think>", "Sure!<think></think>Hello.", "Sure!\nHello."),
        ("text on both sides that would make a tag", "<th<think></think>ink>", "<th\nink>"),
    ],
)
def test_the_reply_of_a_broken_output(why: str, text: str, answer: str) -> None:
    assert reply(stream([text])) == answer
    assert reply(stream(text)) == answer, "one character at a time"


def test_text_after_the_labelled_lines_is_no_free_text() -> None:
    text = "<think><history>Lost.\nStage: action\nAnd more.\n</history></think>Hello."
    assert texts(stream(text))["history"] == parse(text).texts["history"] == "Lost."


def test_a_step_that_is_never_closed_is_closed_in_the_end() -> None:
    events = stream(["<think><history>Lost.\nStage: action"])
    assert [e.kind for e in events] == ["step", "text", "label", "close"]


def test_a_step_that_follows_an_unclosed_one() -> None:
    events = stream(["<think><history>Lost.<emotion>Sad."])
    assert [(e.kind, e.step) for e in events] == [
        ("step", "history"), ("text", "history"), ("close", "history"),
        ("step", "emotion"), ("text", "emotion"), ("close", "emotion"),
    ]  # fmt: skip


PIECES = [
    "<think>", "</think>", "<history>", "</history>", "<emotion>", "</emotion>", "<strategy>", "</strategy>",
    "< think >", "</ HISTORY>", "<th", "ink>", "<", ">", "/", "Stage: action", "Stage", "情绪：焦虑", "Intensity: 4",
    "Strategy:", ":", " ", "\n", "\t", "a", "Words here.", "<b>", "\u3000", "ſ", "İ",
]  # fmt: skip


@RELAXED
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.lists(st.integers(0, 300), max_size=20))
def test_a_broken_output_shows_no_tag_and_does_not_depend_on_the_chunks(text: str, points: list[int]) -> None:
    whole = stream([text])
    assert not any(TAG.search(part) for part in shown(whole))
    assert merged(stream(cut(text, (min(point, len(text)) for point in points)))) == merged(whole)
    assert merged(stream(text)) == merged(whole)


def test_raw_and_parsed_at_any_time(english: str) -> None:
    parser = StreamParser()
    parser.feed(english[:100])
    assert parser.raw == english[:100]
    assert not parser.parsed.complete
    parser.feed(english[100:])
    assert parser.parsed == parse(english)
