"""Verdicts in words: read leniently, written canonically, translated between place and origin."""

from __future__ import annotations

import itertools

import pytest

from compeer.reasoning.ontology import Language
from compeer.reward.verdict import (
    CHOICES,
    PAIR_WORDS,
    PREFERENCES,
    STEP_WORDS,
    choice_of,
    preference_of,
    read_pair,
    read_step,
)

LANGUAGES: tuple[Language, ...] = ("en", "zh")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("True.", True),
        ("False.", False),
        ("true", True),
        ("**False**, because", False),
        ("Verdict: True. She says so.", True),
        ('"False."', False),
        ("<think>It is false, or is it?</think>\nTrue.", True),
        ("Not true.", False),
        ("Incorrect.", False),
        ("Yes.", True),
        ("No, the stage is wrong.", False),
        ("正确。", True),
        ("错误。理由是……", False),
        ("不正确。", False),
        ("结论：正确", True),
        ("对。", True),
        ("对话还在探索阶段。", None),
        ("错过了重点。", None),
        ("It is true that", None),
        ("Truly sad.", None),
        ("Nothing fits.", None),
        ("", None),
        ("???", None),
    ],
)
def test_the_verdict_on_a_step_is_what_an_answer_begins_with(text: str, expected: bool | None) -> None:
    assert read_step(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The first sentence is better.", "first"),
        ("The second sentence is better. It asks.", "second"),
        ("The two sentences are almost good.", "both"),
        ("Neither sentence is acceptable.", "neither"),
        ("second", "second"),
        ("- First sentence", "first"),
        ("Both are good.", "both"),
        ("Answer: neither", "neither"),
        ("第一句更好。", "first"),
        ("第二句更好。", "second"),
        ("两句差不多好。", "both"),
        ("都不可取。", "neither"),
        ("两句都不可取。", "neither"),
        ("两句中，后一句更好。", None),
        ("First of all, both have merit.", None),
        ("I cannot say.", None),
        ("", None),
    ],
)
def test_the_verdict_on_a_pair(text: str, expected: str | None) -> None:
    assert read_pair(text) == expected


@pytest.mark.parametrize("language", LANGUAGES)
def test_canonical_words_are_read_as_what_they_say(language: Language) -> None:
    for value, words in STEP_WORDS[language].items():
        assert read_step(words) is value
        assert read_step(words + " Because of her words.") is value
    for choice, words in PAIR_WORDS[language].items():
        assert read_pair(words) == choice
        assert read_pair("“" + words + "”") == choice
    assert tuple(PAIR_WORDS[language]) == CHOICES


@pytest.mark.parametrize(
    ("choice", "candidate_first", "preference"),
    [
        ("first", True, "candidate"),
        ("first", False, "reference"),
        ("second", True, "reference"),
        ("second", False, "candidate"),
        ("both", True, "both"),
        ("both", False, "both"),
        ("neither", True, "neither"),
        ("neither", False, "neither"),
    ],
)
def test_places_and_origins_in_both_orders(choice: str, candidate_first: bool, preference: str) -> None:
    assert preference_of(choice, candidate_first) == preference  # type: ignore[arg-type]
    assert choice_of(preference, candidate_first) == choice  # type: ignore[arg-type]


def test_every_place_has_an_origin_and_back() -> None:
    for first, choice in itertools.product((True, False), CHOICES):
        assert choice_of(preference_of(choice, first), first) == choice
    for first in (True, False):
        assert {preference_of(choice, first) for choice in CHOICES} == set(PREFERENCES)
