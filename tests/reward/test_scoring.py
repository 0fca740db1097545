"""The reward's arithmetic, case by case."""

from __future__ import annotations

import itertools

import pytest

from compeer.errors import UserError
from compeer.reward.scoring import total

T, F, N = True, False, None


@pytest.mark.parametrize(
    ("steps", "preference", "complete", "expected", "why"),
    [
        ([T, T, T], "candidate", True, 5, "everything right"),
        ([T, T, T], "both", True, 5, "matching the reference is as good as beating it"),
        ([T, T, T], "reference", True, 3, "the reference is better"),
        ([T, T, T], "neither", True, 3, "neither will do"),
        ([T, T, T], "candidate", False, 3, "the format is broken"),
        ([F, F, F], "reference", False, -5, "everything wrong"),
        ([N, N, N], None, False, -5, "nothing to judge"),
        ([T, N, T], "candidate", False, 1, "a missing step counts as wrong"),
        ([T, F, T], "both", True, 3, "one wrong step"),
        ([T, T, T], None, True, 3, "a judge without an answer earns nothing"),
    ],
)
def test_total(steps: list[bool | None], preference: str | None, complete: bool, expected: int, why: str) -> None:
    assert total(steps, preference, complete) == expected, why


def test_the_sum_lies_between_minus_five_and_five_and_is_odd() -> None:
    for *steps, preference, complete in itertools.product(
        (T, F, N), (T, F, N), (T, F, N), ("candidate", "reference", "both", "neither", None), (True, False)
    ):
        assert total(steps, preference, complete) in {-5, -3, -1, 1, 3, 5}


def test_what_is_no_verdict_is_refused() -> None:
    with pytest.raises(UserError, match="three steps"):
        total([True], "both", True)
    with pytest.raises(UserError, match="no preference"):
        total([True] * 3, "first", True)
