"""Risk stays: up at once, down only after a long calm, and never by a denial."""

from __future__ import annotations

import pytest

from compeer.safety import Risk, screen
from compeer.safety.risk import CALM


def after(*messages: str) -> Risk:
    risk = Risk()
    for message in messages:
        risk = risk.after(screen(message))
    return risk


@pytest.mark.parametrize(
    "denial",
    [
        "lol jk",
        "I'm fine.",
        "Forget it, I was being dramatic.",
        "I'm not suicidal, okay?",
        "当我没说",
        "骗你的啦，没事的。",
    ],
)
def test_one_denial_does_not_clear_it(denial: str) -> None:
    assert after("I've been thinking about ending my life.", denial).level == "high"
    assert after("我想死", denial, "今晚吃什么好呢").level == "high"


def test_denials_do_not_count_towards_calm() -> None:
    risk = after("I want to die", *["I was just joking"] * (3 * CALM))
    assert risk.level == "high" and risk.calm == 0


def test_it_comes_down_one_level_at_a_time_after_a_long_calm() -> None:
    calm = ["What goes well with rice?"] * CALM
    assert after("I want to die", *calm[:-1]).level == "high"
    assert after("I want to die", *calm).level == "watch"
    assert after("I want to die", *calm, *calm).level == "none"
    assert after("I want to die", *calm[:-1], "I want to die", *calm[:-1]).level == "high"


def test_a_lesser_finding_does_not_lower_it() -> None:
    risk = after("I want to kill myself", "When I was nineteen I tried to end my life.")
    assert risk.level == "high" and {"plan", "wish"} & set(risk.kinds)
