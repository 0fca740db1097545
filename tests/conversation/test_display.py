"""How a turn looks, at several widths and in both languages, and that a terminal obeys none of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, RenderableType

from compeer.conversation.display import Wrapped, chips, plain, reasoning_panel, steps_view
from compeer.reasoning import Control, Pins, Reasoning, parse, render, violations

OUTPUT = render(
    Reasoning.of(
        {"history": "They lost their job.", "emotion": "Ashamed, and afraid.", "strategy": "Ask first."},
        {"stage": "exploration", "sentiment": "negative", "emotion": "shame", "intensity": 4, "strategy": "question"},
    ),
    "What happened?",
)
CHINESE = render(
    Reasoning.of(
        {"history": "对方丢了工作。", "emotion": "觉得羞愧。", "strategy": "先问一问。"},
        {"stage": "exploration", "sentiment": "negative", "emotion": "shame", "intensity": 4, "strategy": "question"},
        "zh",
    ),
    "发生了什么？",
)


def shown(what: RenderableType, width: int = 80) -> str:
    console = Console(width=width, color_system=None, force_terminal=True)
    with console.capture() as capture:
        console.print(what)
    return capture.get()


def wrapped(text: str, width: int, indent: int = 0, piece: int = 1000) -> str:
    written: list[str] = []
    wrapper = Wrapped(written.append, width, indent)
    for start in range(0, len(text), piece):
        wrapper.feed(text[start : start + piece])
    wrapper.finish()
    return "".join(written)


def test_chips_are_one_quiet_line_in_the_language_of_the_thinking() -> None:
    assert chips(parse(OUTPUT)) == "exploration · shame 4/5 · question"
    assert chips(parse(CHINESE)) == "探索 · 羞耻 4/5 · 提问"


def test_chips_show_what_there_is() -> None:
    half = OUTPUT[: OUTPUT.index("Sentiment")] + "</emotion></think> Hm."
    assert chips(parse(half)) == "exploration"
    assert chips(parse("Just a reply.")) == "no reasoning"


def test_steps_are_named_and_hold_text_and_conclusions() -> None:
    assert shown(steps_view(parse(OUTPUT))).splitlines() == [
        "1 What they face   exploration",
        "  They lost their job.".ljust(80),
        "",
        "2 What they feel   negative · shame · 4",
        "  Ashamed, and afraid.".ljust(80),
        "",
        "3 What would help   question",
        "  Ask first.".ljust(80),
    ]
    assert "面对什么   探索" in shown(steps_view(parse(CHINESE)))


def test_a_panel_says_complete_or_what_is_missing() -> None:
    end = "What happened?".ljust(78) + "\n\nComplete: the three steps, all labels and a reply are there."
    assert shown(reasoning_panel(parse(OUTPUT))).rstrip().endswith(end)
    chinese = shown(reasoning_panel(parse(CHINESE)))
    assert "\n回复" in chinese and chinese.rstrip().endswith("完整：三个步骤、全部标签和回复都有。")
    assert not re.search("[A-Za-z]", chinese), "a Chinese answer has Chinese words around it"
    without = shown(reasoning_panel(parse("I am here."), []))
    assert "omplete" not in without, "a reply that was asked for without thinking"
    broken = shown(reasoning_panel(parse(OUTPUT.replace("Intensity: 4\n", ""))))
    assert "Not complete:" in broken and "Intensity" in broken
    parsed = parse(OUTPUT)
    unkept = shown(reasoning_panel(parsed, violations(parsed, Control(Pins(strategy="others")))))
    assert "strategy was pinned to 'others'" in unkept


def test_no_tags_and_no_markup_are_interpreted_or_shown() -> None:
    view = shown(reasoning_panel(parse(OUTPUT.replace("They lost", "[red]They[/red] lost"))))
    assert "[red]They[/red] lost" in view
    assert not any(tag in view for tag in ("<think>", "<history>", "</emotion>"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07ok", "ok"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq payload\x1b\\ok", "ok"),
        ("a\x1b[2J\x1b[Hb", "ab"),
        ("\x9b31mx", "31mx"),
        ("over\rwritten\x08\x7f\x07", "overwritten"),
        ("\u202eolleh\u202c \u2066x\u2069", "olleh x"),
        ("half \ud83d character", "half \ufffd character"),
        ("line\nand\ttab", "line\nand\ttab"),
        ("👩‍👩‍👧 é 羞愧 ❤️", "👩‍👩‍👧 é 羞愧 ❤️"),
        ("\x1b", ""),
        ("\x1b[", ""),
    ],
)
def test_what_a_terminal_would_obey_is_removed(text: str, left: str) -> None:
    assert plain(text) == left


def test_the_reasoning_on_the_screen_is_harmless_too() -> None:
    view = shown(reasoning_panel(parse(OUTPUT.replace("Ashamed", "\x1b[2J\x1b]0;x\x07Ashamed"))))
    assert "\x1b" not in view and "\x07" not in view and "Ashamed" in view


def test_lines_break_between_words() -> None:
    text = "It sounds like you have been carrying this alone for a long time, and nobody saw."
    assert wrapped(text, 30, indent=4, piece=3).split("\n") == [
        "It sounds like you have",
        "    been carrying this alone",
        "    for a long time, and",
        "    nobody saw.",
    ]


def test_chinese_breaks_between_characters_but_not_before_a_closing_mark() -> None:
    lines = wrapped("一个人扛着这些，一定很累。他说：“慢慢来。”", 18, piece=1).split("\n")
    assert len(lines) > 2
    assert all(cell_len(line) <= 18 for line in lines)
    assert not any(line[0] in "，。：”" for line in lines)
    assert not any(line[-1] == "“" for line in lines)
    assert "".join(lines) == "一个人扛着这些，一定很累。他说：“慢慢来。”"


def test_paragraphs_stay_and_empty_lines_do_not_pile_up() -> None:
    assert wrapped("\n\nOne.\r\n\n\n\n\nTwo.\nThree.", 40, indent=2) == "One.\n\n  Two.\n  Three."


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_a_word_longer_than_a_line_is_broken_and_shown_at_once(piece: int) -> None:
    written: list[str] = []
    wrapper = Wrapped(written.append, 20)
    for _ in range(100 // piece):
        wrapper.feed("a" * piece)
    shown = "".join(written)
    assert len(shown) > 80  # not held back until a space comes
    wrapper.finish()
    assert "".join(written).split("\n")[:4] == ["a" * 20] * 4


_word = st.text(st.sampled_from("abcdé羞，。“”‘’\u00a0-'3"), min_size=1, max_size=10)


@settings(max_examples=200, deadline=None)
@given(st.lists(_word), st.sampled_from([" ", "\n", "  ", "\t"]), st.integers(1, 9), st.integers(24, 50))
def test_wrapping_loses_nothing_and_does_not_depend_on_the_pieces(
    some: list[str], between: str, piece: int, width: int
) -> None:
    text = between.join(some)
    whole = wrapped(text, width, 2)
    assert "".join(whole.split()) == "".join(text.split())
    assert all(cell_len(line) <= width for line in whole.split("\n"))
    assert wrapped(text, width, 2, piece) == whole
