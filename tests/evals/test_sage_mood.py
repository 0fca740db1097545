"""SAGE's arithmetic, as tables: what a change does, what ends a dialogue, what a plan says."""

from __future__ import annotations

import pytest

from compeer.evals.sage import MoodCourse, band, goodbye, read_change


def played(turns: list[tuple[int | None, str]]) -> MoodCourse:
    """A dialogue in which the seeker does this, turn for turn, and the supporter always answers."""
    course = MoodCourse()
    assert course.answered() is None
    for change, words in turns:
        course.feel(change)
        if course.speak(words) or course.answered():
            break
    return course


#: changes, then the curve and the end that SAGE's rules give
SAGE_TABLE = {
    "clipped above": ([25], [40, 50], None),
    "clipped below": ([-25], [40, 30], None),
    "not clipped at the edge": ([10, -10], [40, 50, 40], None),
    "capped at 100": ([10] * 5 + [8, 7], [40, 50, 60, 70, 80, 90, 98, 100], "content"),
    "content at exactly 100": ([10] * 6, [40, 50, 60, 70, 80, 90, 100], "content"),
    "99 goes on": ([10] * 5 + [9], [40, 50, 60, 70, 80, 90, 99], None),
    "10 goes on": ([-10] * 3, [40, 30, 20, 10], None),
    "9 is lost": ([-10] * 3 + [-1], [40, 30, 20, 10, 9], "lost"),
    "lost far below": ([-10] * 3 + [-10], [40, 30, 20, 10, 0], "lost"),
    "unparsable stays": ([5, None, 5], [40, 45, 45, 50], None),
    "ten turns": ([1] * 9, [40, *range(41, 50)], "turns"),
    "nine turns go on": ([1] * 8, [40, *range(41, 49)], None),
}


@pytest.mark.parametrize("name", SAGE_TABLE)
def test_sage_mood(name: str) -> None:
    changes, curve, end = SAGE_TABLE[name]
    course = played([(change, "嗯") for change in changes])
    assert (course.curve, course.end, course.unread) == (curve, end, changes.count(None))


def test_sage_has_no_floor() -> None:
    course = MoodCourse()
    assert [course.feel(-10) for _ in range(6)] == [30, 20, 10, 0, -10, -20]


def test_after_ten_turns_nine_changes_were_made_and_the_last_reply_is_not_judged() -> None:
    course = played([(1, "嗯")] * 20)
    assert (course.turns, len(course.curve) - 1, course.end) == (10, 9, "turns")


@pytest.mark.parametrize(
    ("words", "end"), [("好的，再见", "goodbye"), ("拜拜啦", "goodbye"), ("还没想好", None), ("她说 bye", None)]
)
def test_sage_goodbye(words: str, end: str | None) -> None:
    assert played([(3, words)]).end == end


def test_the_mood_names_the_end_even_with_a_goodbye() -> None:
    assert played([(-10, "嗯")] * 3 + [(-5, "再见")]).end == "lost"


@pytest.mark.parametrize(
    ("plan", "change"),
    [
        ("Felt: fine.\nChange: -5", -5),
        ("change:+7", 7),
        ("Change: 3", 3),  # a sign is asked for and not always given
        ("变化：-10", -10),
        ("变化：＋４", 4),  # full-width
        ("变化：− 6", -6),  # a minus sign of its own, and a space
        ("Change: [+2]", 2),
        ("Change: between -3 and +3, so -3", -3),  # the first
        ("Change: -25", -25),  # clipping is the machine's
        ("1. He asks.\n2. Good.\nChange: 0", 0),
        ("The last Change: +1\nChange: -2", -2),  # the last label
        ("I feel it moves by -4.", -4),  # no label, but a sign
        ("1. He asks.\n2. Good.", None),  # numbered sentences are no change
        ("变化：说不上来", None),
        ("", None),
    ],
)
def test_reading_a_change(plan: str, change: int | None) -> None:
    assert read_change(plan) == change


def test_bands_begin_at_their_values() -> None:
    assert "".join(band(value) for value in (100, 99, 70, 69, 40, 39, 10, 9, -3)) == "SAABBCCFF"


def test_an_english_goodbye_is_one_at_either_end() -> None:
    assert goodbye("Thanks. Goodbye!", "en") and not goodbye("I never said goodbye to him.", "en")
