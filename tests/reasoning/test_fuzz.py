"""No text makes the readers raise, and none makes them slow: completeness is a reward, and rewards are attacked."""

import gc
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compeer.reasoning import StreamParser, fields, parse, render
from compeer.reasoning.schema import TAG

RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TOKENS = [
    "<think>", "</think>", "<history>", "</history>", "<emotion>", "</emotion>", "<strategy>", "</strategy>", "<", ">",
    "</", "<b>", "Stage: action\n", "阶段：行动\n", "Intensity:", "\u0131ntensity: 4", "\u0130ntensity: 4",
    "ſtage: action", "<thin\u212a>", "\n", "\r", "\x00", "\u2028", "\ud800", ":", "：", " ", "５",
]  # fmt: skip


def check(text: str) -> None:
    """Everything that holds for every text."""
    parsed = parse(text)
    assert parsed.complete == (not parsed.problems)
    assert not TAG.search(parsed.response)
    assert all(problem.code and problem for problem in parsed.problems)
    assert fields(parsed, text)["complete"] == parsed.complete
    if parsed.complete:
        assert parsed.reasoning is not None
        assert parse(render(parsed.reasoning, parsed.response)) == parsed, "complete means it can be written again"
    parser = StreamParser()
    for start in range(0, len(text), 7):
        parser.feed(text[start : start + 7])
    parser.finish()
    assert parser.raw == text


@RELAXED
@given(st.text())
def test_any_text(text: str) -> None:
    check(text)


@RELAXED
@given(st.lists(st.one_of(st.sampled_from(TOKENS), st.text(max_size=5)), max_size=30).map("".join))
def test_any_pile_of_tokens(text: str) -> None:
    check(text)


@RELAXED
@given(data=st.data())
def test_any_damage_to_a_valid_output(data: st.DataObject, output: str) -> None:
    text = output
    for _ in range(data.draw(st.integers(1, 4))):
        start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        text = data.draw(
            st.sampled_from(
                [
                    text[:start] + text[end:],  # a part is cut out
                    text[:end] + text[start:],  # a part is said twice
                    text[:start] + data.draw(st.sampled_from(TOKENS)) + text[start:],
                    text[end:] + text[:end],  # the beginning goes to the end
                    text[:start] + text[start:end].swapcase() + text[end:],
                ]
            )
        )
    check(text)


@pytest.mark.parametrize("length", range(0, 400, 13))
def test_every_beginning_of_a_valid_output_is_incomplete_or_ends_in_the_reply(english: str, length: int) -> None:
    beginning = english[:length]
    check(beginning)
    assert not parse(beginning).complete, "the reply begins after 400 characters"


# --- time ---

#: what one might repeat, or put before very much white space, to make a reader look at the same text again and again
HOSTILE: dict[str, Callable[[int], str]] = {
    "<think>": lambda n: "<think>" * (n // 7),
    "<": lambda n: "<" * n,
    "< then spaces": lambda n: "<" + " " * n,
    "</ then spaces": lambda n: "</" + " " * n,
    "<think then spaces": lambda n: "<think" + " " * n,
    "< and space": lambda n: "< " * (n // 2),
    "<a": lambda n: "<a" * (n // 2),
    "<a then spaces": lambda n: "<a " + " " * n,
    "<a and space": lambda n: "<a " * (n // 3),
    "</": lambda n: "</" * (n // 2),
    "spaces": lambda n: " " * n,
    "line breaks": lambda n: "\n" * n,
    "short lines": lambda n: "e\n" * (n // 2),
    "Emotion:": lambda n: "Emotion:" * (n // 8),
    "Emotion then spaces": lambda n: "Emotion" + " " * n,
    "Emotion: then spaces": lambda n: "Emotion:" + " " * n,
    "label lines": lambda n: "Emotion: fear\n" * (n // 14),
    "invalid label lines": lambda n: "Emotion:\n" * (n // 9),
    "two kinds of label lines": lambda n: "Sentiment:\n" * (n // 22) + "Emotion:\n" * (n // 18),
    "nested steps": lambda n: "<history><emotion>" * (n // 36) + "</emotion></history>" * (n // 40),
    "steps": lambda n: "<history></history>" * (n // 19),
}

PLACES = {
    "alone": "{}",
    "in a step": "<think><history>a</history><emotion>b\n{}</emotion><strategy>c</strategy></think>d",
    "in reply": "<think><history>a</history><emotion>b</emotion><strategy>c</strategy></think>d {} e",
}


def seconds(read: Callable[[str], object], text: str) -> float:
    """Processor time, so that others on the machine count little; without the collector, which looks at all there is."""
    gc.disable()
    try:
        start = time.process_time()
        read(text)
        return time.process_time() - start
    finally:
        gc.enable()


def streamed(size: int) -> Callable[[str], object]:
    def read(text: str) -> None:
        parser = StreamParser()
        for start in range(0, len(text), size):
            parser.feed(text[start : start + size])
        parser.finish()

    return read


def check_linear(read: Callable[[str], object], make: Callable[[int], str], size: int) -> None:
    """Four times the text takes about four times as long; sixteen times would be quadratic."""
    # a short one first: what is quadratic fails there, before it takes hours
    assert seconds(read, make(size // 100)) < 1.0
    for _ in range(4):  # a busy machine may spoil a measurement, but not all of them
        quarter, whole = seconds(read, make(size // 4)), seconds(read, make(size))
        if whole < 1.0 and (whole < 0.1 or whole / quarter < 12):
            return
    raise AssertionError(f"{size // 4:,} characters took {quarter:.3f} s, {size:,} took {whole:.3f} s")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_megabyte_is_read_in_linear_time(kind: str, place: str) -> None:
    def make(size: int) -> str:
        return PLACES[place].format(HOSTILE[kind](size))

    check_linear(parse, make, 1_000_000)
    check_linear(streamed(65_536), make, 1_000_000)


ONE_BY_ONE = (
    "<",
    "< then spaces",
    "<think then spaces",
    "spaces",
    "line breaks",
    "Emotion then spaces",
    "Emotion: then spaces",
)


@pytest.mark.parametrize("place", ["in a step", "in reply"])
@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_one_character_at_a_time_is_linear_too(kind: str, place: str) -> None:
    check_linear(streamed(1), lambda size: PLACES[place].format(HOSTILE[kind](size)), 80_000)
