"""Patience: backoff, jitter, Retry-After, and the two ways of giving up."""

from __future__ import annotations

import time

import pytest

from compeer.models.request import RETRIED_STATUS, Patience, Tries, retry_after


@pytest.mark.parametrize(("attempt", "most"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (7, 30.0), (500, 30.0)])
def test_waits_double_up_to_a_limit_with_jitter(attempt: int, most: float) -> None:
    waits = [Patience().wait(attempt) for _ in range(200)]
    assert most / 2 <= min(waits) < max(waits) <= most
    assert len(set(waits)) > 100, "many clients must not come back in step"


@pytest.mark.parametrize(
    ("asked", "least", "most"), [(5.0, 5.0, 5.0), (900.0, 30.0, 30.0), (0.0, 0.25, 0.5), (-3, 0.25, 0.5)]
)
def test_a_server_may_ask_for_a_longer_wait_within_reason(asked: float, least: float, most: float) -> None:
    assert least <= Patience().wait(1, asked) <= most


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("2", 2.0), ("0.5", 0.5), (None, None), ("", None), ("soon", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after(header) == seconds


@pytest.mark.parametrize("header", ["nan", "inf", "-inf", "1e999"])
def test_a_senseless_retry_after_still_waits_a_sensible_time(header: str) -> None:
    assert 0.25 <= Patience().wait(1, retry_after(header)) <= 30


def test_tries_end_with_their_number() -> None:
    tries = Tries(Patience(attempts=3, first=0.001))
    pauses = []
    for _ in range(3):
        tries.begin()
        pauses.append(tries.pause())
    assert [pause is None for pause in pauses] == [False, False, True]
    assert tries.made == 3


def test_tries_end_with_the_patience() -> None:
    tries = Tries(Patience(attempts=100, first=0.3, longest=0.3, patience=0.2))
    tries.begin()
    time.sleep(0.1)
    assert tries.pause() is None, "the next attempt would begin after the patience has run out"


def test_an_attempt_gets_no_more_time_than_patience_is_left() -> None:
    tries = Tries(Patience(patience=0.5, timeout=0.4))
    assert tries.begin() == pytest.approx(0.4)
    time.sleep(0.3)
    assert tries.begin() <= 0.2


def test_time_before_the_first_attempt_is_free() -> None:
    tries = Tries(Patience(patience=0.2, timeout=10.0))
    time.sleep(0.15)
    assert tries.begin() == pytest.approx(0.2, abs=0.02)


def test_what_a_second_try_cannot_change_is_not_tried_again() -> None:
    assert {400, 401, 403, 404, 422}.isdisjoint(RETRIED_STATUS)
    assert {429, 500, 502, 503, 504} <= RETRIED_STATUS
