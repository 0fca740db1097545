"""Tags and labelled lines: what counts as one, and what may still become one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compeer.reasoning import LABELS, STEPS, Reasoning
from compeer.reasoning.ontology import LANGUAGES, VOCABULARIES
from compeer.reasoning.schema import (
    GAP,
    KEYS,
    LONGEST_TAG,
    TAG,
    TAG_SEQUENCE,
    could_become_label_line,
    has_words,
    match_label_line,
    read_value,
    write_value,
)

REASONING = Reasoning.of(
    {"history": "a", "emotion": "b", "strategy": "c"},
    {"stage": "action", "sentiment": "negative", "emotion": "fear", "intensity": 2, "strategy": "others"},
)


@pytest.mark.parametrize(
    ("why", "line", "found"),
    [
        ("plain", "Stage: action", ("stage", "en", "action")),
        ("Chinese", "阶段：行动", ("stage", "zh", "行动")),
        ("either colon", "阶段: 行动", ("stage", "zh", "行动")),
        ("case and space", "\t STAGE : Action ", ("stage", "en", "Action")),
        ("no value yet", "Stage:", ("stage", "en", "")),
        ("ideographic space", "　阶段　：　行动", ("stage", "zh", "行动")),
        ("a carriage return", "Stage: action\r", ("stage", "en", "action")),
        ("as much space as allowed", "Stage" + GAP * " " + ": action", ("stage", "en", "action")),
        ("more", "Stage" + (GAP + 1) * " " + ": action", None),
        ("not at the beginning", "My stage: action", None),
        ("a longer word", "Stages: action", None),
        ("no colon", "Stage action", None),
        ("the key of another step", "Emotion: fear", None),
        ("a letter that only folds to an s", "\u017ftage: action", None),
        ("nothing", "", None),
    ],
)
def test_label_line(why: str, line: str, found: tuple[str, str, str] | None) -> None:
    assert match_label_line("history", line) == found


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(STEPS),
    st.text(" \t　\r", max_size=3),
    st.sampled_from([key for keys in KEYS.values() for key in keys.values()]),
    st.text(" \t　", max_size=GAP + 1),
    st.sampled_from([":", "：", "", "x"]),
    st.text(max_size=5),
)
def test_every_beginning_of_a_label_line_could_become_one(
    step: str, indent: str, key: str, gap: str, colon: str, value: str
) -> None:
    line = indent + key.swapcase() + gap + colon + value
    if match_label_line(step, line):
        assert all(could_become_label_line(step, line[:end]) for end in range(len(line)))


@pytest.mark.parametrize("beginning", ["x", "Stages", "Stage" + (GAP + 1) * " ", "stage x", "情绪", "s:"])
def test_a_beginning_that_can_no_longer_become_one(beginning: str) -> None:
    assert not could_become_label_line("history", beginning)


@pytest.mark.parametrize("tag", ["<think>", "</think>", "< / THINK >", "<\thistory\t>", "<    /    strategy    >"])
def test_tags(tag: str) -> None:
    assert TAG.fullmatch(tag)
    assert len(tag) <= LONGEST_TAG


@pytest.mark.parametrize(
    "text",
    [
        "<thinking>",
        "<think/>",
        "<think",
        "<think a='b'>",
        "<\nthink>",
        "<th ink>",
        "<th\u0131nk>",
        "<thin\u212a>",
        "＜think＞",
    ],
)
def test_no_tags(text: str) -> None:
    assert not TAG.search(text)


def test_the_longest_tag_is_as_long_as_said() -> None:
    assert TAG.fullmatch("<" + GAP * " " + "/" + GAP * " " + "strategy" + GAP * " " + ">")
    assert 3 * GAP + len("</strategy>") == LONGEST_TAG


def test_the_sequence_opens_and_closes_each_step_once() -> None:
    assert TAG_SEQUENCE[0] == "think"
    assert TAG_SEQUENCE[-1] == "/think"
    assert TAG_SEQUENCE[1:-1] == tuple(tag for step in STEPS for tag in (step, "/" + step))


def test_every_value_reads_back() -> None:
    for label, vocabulary in VOCABULARIES.items():
        for value in vocabulary.ids:
            for language in LANGUAGES:
                assert read_value(label, write_value(label, value, language), language) == value
    assert [read_value("intensity", write_value("intensity", i, "zh"), "zh") for i in (1, 5)] == [1, 5]


def test_reasoning_by_label_and_step() -> None:
    assert {label: REASONING.label(label) for labels in LABELS.values() for label in labels} == {
        "stage": "action",
        "sentiment": "negative",
        "emotion": "fear",
        "intensity": 2,
        "strategy": "others",
    }
    assert [REASONING.text(step) for step in STEPS] == ["a", "b", "c"]
    with pytest.raises(KeyError):
        REASONING.label("mood")


@pytest.mark.parametrize(
    ("text", "words"), [("a", True), ("好", True), ("7", True), ("…", False), (" \n", False), ("", False)]
)
def test_has_words(text: str, words: bool) -> None:
    assert has_words(text) is words
