"""Levels and the risk that is kept: up at once, down only after being asked, saying no, and calm."""

from __future__ import annotations

from compeer.safety import Finding, Risk
from compeer.safety.levels import CALM as CALM_BY_LEVEL
from compeer.safety.levels import HINTS_ARE_HIGH


def after(risk: Risk, *findings: Finding) -> Risk:
    for finding in findings:
        risk = risk.after(finding)
    return risk


HIGH = Finding("high", ("wish",))
CALM_MESSAGE = Finding()
CALM = CALM_BY_LEVEL["high"]


def test_it_goes_up_at_once_and_never_down_by_a_lower_finding() -> None:
    assert after(Risk(), HIGH).level == "high"
    assert after(Risk(), HIGH, Finding("emergency", ("means",)), Finding("watch", ("hint",))).level == "emergency"


def test_silence_about_it_never_lowers_it() -> None:
    assert after(Risk(), HIGH, *[CALM_MESSAGE] * 50).level == "high"


def test_asked_and_calm_it_comes_down_one_level_at_a_time() -> None:
    risk = after(Risk(), Finding("emergency", ("means",))).after(CALM_MESSAGE, said_no=True)
    assert after(risk, *[CALM_MESSAGE] * (CALM - 1)).level == "emergency"
    assert after(risk, *[CALM_MESSAGE] * CALM).level == "high"
    assert after(risk, *[CALM_MESSAGE] * CALM * 2).level == "watch"
    assert after(risk, *[CALM_MESSAGE] * (CALM * 2 + CALM_BY_LEVEL["watch"] - 1)).level == "watch"
    assert after(risk, *[CALM_MESSAGE] * (CALM * 2 + CALM_BY_LEVEL["watch"])) == Risk()


def test_a_joke_is_no_calm_message_and_a_new_disclosure_begins_again() -> None:
    asked = after(Risk(), HIGH).after(CALM_MESSAGE, said_no=True)
    joking = after(asked, *[Finding(denied=True)] * CALM * 3)
    assert (joking.level, joking.calm) == ("high", 0)
    again = after(asked, CALM_MESSAGE, HIGH)
    assert not again.asked and after(again, *[CALM_MESSAGE] * CALM).level == "high"


def test_hints_add_up_and_weak_ones_count_half() -> None:
    strong, weak = Finding("watch", ("hint",), hint=1.0), Finding(hint=0.5)
    assert after(Risk(), weak).level == "none" and after(Risk(), weak, weak).level == "watch"
    assert after(Risk(), strong, strong).level == "watch" and after(Risk(), strong, strong, strong).level == "high"
    assert after(Risk(), *[weak] * int(HINTS_ARE_HIGH * 2)).level == "high"


def test_a_danger_of_its_own_kind_stays_in_mind() -> None:
    risk = after(Risk(), Finding("high", ("child_abuse",)))
    assert risk.danger == "child_abuse" and after(risk, Finding("watch", ("hint",))).danger == "child_abuse"
    assert after(risk, HIGH).dangers == ("suicide", "child_abuse")


def test_someone_elses_danger_is_not_the_persons_own() -> None:
    other = Finding("high", ("third",), other=True)
    assert after(Risk(), other).about_other and not after(Risk(), other, HIGH).about_other
    assert not after(Risk(), HIGH, other).about_other
