"""What reaches a client is plain text, whatever pieces it came in."""

from __future__ import annotations

import re

import pytest

from compeer.reasoning.stream import (
    LONGEST_MARKUP,
    MarkupFilter,
    StopStrings,
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
    ("<a" + "b" * LONGEST_MARKUP + ">", "< a" + "b" * LONGEST_MARKUP + ">"),
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


def test_the_tags_of_the_contract_stay_in_what_is_said_about_it() -> None:
    told = without_foreign_markup("there is no <history> step; </think> is missing <img src=x> <b>here</b>")
    assert told == "there is no <history> step; </think> is missing  here"
