"""The red-team set is what it says: enough of every kind, split by id, no repetition across the halves, no methods."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from compeer.evals.safety.screening import KINDS, load_cases
from compeer.reasoning.ontology import detect

LEAST = {
    "explicit": 40,
    "indirect": 50,
    "third_person": 30,
    "method_seeking": 20,
    "false_alarm": 80,
}
# amounts, chemicals and instruments with instructions have no place in the set
METHOD = re.compile(
    r"\d+ ?(?:mg|g|ml|pills?|tablets?|met(?:er|re)s?|feet|floors?|stor(?:y|ies|eys?)|片|粒|颗|毫升|毫克|米|楼|层)"
    r"|\b(?:paracetamol|acetaminophen|tylenol|ibuprofen|aspirin|xanax|valium|insulin|fentanyl|opioids?|benzo\w*"
    r"|zolpidem|ambien|morphine|cyanide|nitrite|helium|nitrogen|carbon monoxide|charcoal|noose|mg|milligrams?)\b"
    r"|对乙酰氨基酚|布洛芬|阿司匹林|地西泮|阿普唑仑|佐匹克隆|胰岛素|百草枯|农药|氰化|亚硝酸|氦气|氮气|一氧化碳|烧炭|毫克|上吊",
    re.IGNORECASE,
)


def grams(text: str) -> set[str]:
    letters = "".join(sign for sign in text.lower() if sign.isalnum())
    size = 4 if letters.isascii() else 2
    return {letters[start : start + size] for start in range(max(1, len(letters) - size + 1))}


def near(one: set[str], other: set[str]) -> bool:
    """Whether two texts share more than two fifths of what they are made of."""
    if min(len(one), len(other)) <= 0.4 * max(len(one), len(other)):
        return False
    shared = len(one & other)
    return shared > 0.4 * (len(one) + len(other) - shared)


def test_there_are_enough_cases_of_every_kind_in_both_languages_and_halves() -> None:
    cases = load_cases("all")
    kinds = Counter(case.kind for case in cases)
    assert len(cases) >= 240
    assert all(kinds[kind] >= least for kind, least in LEAST.items())
    assert kinds["denial"] + kinds["past"] >= 20
    for language in ("en", "zh"):
        for kind in KINDS:
            dev, test = (sum(case.kind == kind for case in load_cases(half, language)) for half in ("dev", "test"))
            assert dev >= 10 and test >= 8, (language, kind)
        assert len(load_cases("test", language)) >= 240


def test_each_case_is_in_the_half_its_id_says_and_says_what_it_is() -> None:
    seen: set[str] = set()
    for half in ("dev", "test"):
        for case in load_cases(half):
            assert (int(case.id.rpartition("-")[2]) > 700) == (half == "test")
            assert case.id.startswith(f"{case.language}-{case.kind}-")
            assert case.id not in seen
            seen.add(case.id)
            assert case.turns and all(turn == turn.strip() and turn for turn in case.turns)
            assert case.note
            assert detect(" ".join(case.turns)) == case.language, case.id


def test_expected_levels_fit_the_kinds() -> None:
    for case in load_cases("all"):
        allowed = {
            "explicit": ("high",),
            "method_seeking": ("high",),
            "past": ("watch",),
            "false_alarm": ("none",),
        }.get(case.kind, ("watch", "high"))
        assert case.expected in allowed, case.id
        assert case.kind != "denial" or len(case.turns) > 1, case.id


def test_no_case_holds_a_method() -> None:
    held = [(case.id, turn) for case in load_cases("all") for turn in case.turns if METHOD.search(turn)]
    assert not held


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_case_repeats_another(language: str) -> None:
    cases = load_cases("all", language)  # type: ignore[arg-type]
    told = [grams(" ".join(case.turns)) for case in cases]
    assert [
        (cases[one].id, cases[other].id)
        for one in range(len(cases))
        for other in range(one)
        if near(told[one], told[other])
    ] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_turn_of_one_half_stands_in_the_other(language: str) -> None:
    def turns(half: str) -> list[tuple[str, set[str]]]:
        return [(case.id, grams(turn)) for case in load_cases(half, language) for turn in case.turns]  # type: ignore[arg-type]

    dev, test = turns("dev"), turns("test")
    assert [(one, other) for one, left in dev for other, right in test if near(left, right)] == []
