"""What reaches a client is plain text, whatever pieces it came in."""

from __future__ import annotations

import re

import pytest

from compeer.conversation.text_filters import (
    LONGEST_TAG,
    MarkupFilter,
    StopStrings,
    ThinkingFilter,
    without_foreign_markup,
)

#: what a model wrote, what a client may see
TEXTS = [
    ("I hear you.", "I hear you."),
    ("I <3 you, 2 < 3, a<=b, <你好>", "I <3 you, 2 < 3, a<=b, <你好>"),
    ("a<script>alert(1)</script>b", "aalert(1)b"),
    ('x <img src="a" onerror="run()"> y', "x  y"),
    ("x <!-- hidden --> y <?php z ?> w", "x  y  w"),
    ("cut <img src=x onerror=run()", "cut < img src=x onerror=run()"),
    ("<scr<b>ipt>run()</scr</b>ipt>", "< script>run()< /script>"),
    ("<<b>script>run()", "< script>run()"),
    ("<<<b>script>", "< < script>"),
    ("two < three and <", "two < three and <"),
    ("<a" + "b" * LONGEST_TAG + ">", "< a" + "b" * LONGEST_TAG + ">"),
]


def fed(text: str, size: int) -> str:
    plain = MarkupFilter()
    pieces = [plain.feed(text[start : start + size]) for start in range(0, len(text), size)]
    return "".join(pieces) + plain.feed("", final=True)


@pytest.mark.parametrize(("text", "seen"), TEXTS)
def test_markup_is_taken_out_in_any_pieces(text: str, seen: str) -> None:
    for size in (1, 2, 3, 7, 1000):
        assert fed(text, size) == seen
        assert not re.search(r"<[A-Za-z/!?]", fed(text, size))


def test_ordinary_text_is_passed_on_at_once() -> None:
    plain = MarkupFilter()
    assert plain.feed("I hear") == "I hear"
    assert plain.feed(" you <") == " you "
    assert plain.feed("3") == "<3"


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_a_stop_string_ends_the_text_before_it(size: int) -> None:
    until = StopStrings(["\nUser:", "END"])
    text = "so it is\nUs too\nUser: more END"
    seen = "".join(until.feed(text[start : start + size]) for start in range(0, len(text), size))
    assert (seen + until.feed("", final=True), until.reached) == ("so it is\nUs too", True)


def test_what_might_have_become_a_stop_string_is_told_in_the_end() -> None:
    until = StopStrings(["END"])
    assert until.feed("the EN") == "the "
    assert until.feed("", final=True) == "EN"


def shown_of(text: str, size: int) -> tuple[str, bool]:
    thinking = ThinkingFilter()
    pieces = [thinking.feed(text[start : start + size]) for start in range(0, len(text), size)]
    return "".join(pieces) + thinking.finish(), thinking.hidden


@pytest.mark.parametrize("size", [1, 3, 8, 500])
@pytest.mark.parametrize(
    "text",
    [
        "They lost their job. They feel worthless, and they cut themselves off from friends",
        "对方丢了工作，觉得累。想先听对方说。",
        "They told nobody about the pills they found; who could be with them?",
    ],
)
def test_harmless_thinking_is_told_whole(text: str, size: int) -> None:
    assert shown_of(text, size) == (text, False)


@pytest.mark.parametrize("size", [1, 3, 8, 500])
def test_harmful_thinking_ends_before_the_harm(size: int) -> None:
    text = "They are in pain. You should take all your sleeping pills tonight. Then it is over."
    shown, hidden = shown_of(text, size)
    assert hidden and text.startswith(shown)
    assert "pills" not in shown and "sleeping" not in shown


def test_words_are_told_as_they_come() -> None:
    thinking = ThinkingFilter()
    assert [thinking.feed(piece) for piece in ("They", " are", " kil", "t", " to", " kill", " time", ".", " We")] == [
        *("They", " are", " ", "kilt", " to", " ", "", ""),
        "kill time. We",
    ]


def test_the_tags_of_the_contract_stay_in_what_is_said_about_it() -> None:
    told = without_foreign_markup("there is no <history> step; </think> is missing <img src=x> <b>here</b>")
    assert told == "there is no <history> step; </think> is missing  here"
