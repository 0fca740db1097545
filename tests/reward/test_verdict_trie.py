"""Answers as paths of tokens: where they part, and how a model's logits become their probabilities."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compeer.reward.local_scoring import common_length
from compeer.reward.verdict import TokenPath, VerdictTrie, likeliest

# every path ends in a token that stands nowhere else, so none begins another
PATHS = st.sets(st.lists(st.integers(0, 2), max_size=4).map(lambda tokens: (*tokens, 9)), min_size=1, max_size=7)


def logit(point: TokenPath, token: int) -> float:
    return random.Random(repr((point, token))).uniform(-8, 8)


@given(PATHS)
@settings(max_examples=200, deadline=None)
def test_probabilities_are_those_of_a_walk_that_keeps_to_the_answers(paths: set[TokenPath]) -> None:
    trie = VerdictTrie({path: path for path in paths})
    found = trie.probabilities(lambda point: [logit(point, token) for token in trie.branches[point]])
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-9)
    for path in paths:
        chance = 1.0
        for at, token in enumerate(path):
            going_on = {other[at] for other in paths if other[:at] == path[:at]}
            chance *= math.exp(logit(path[:at], token)) / sum(math.exp(logit(path[:at], other)) for other in going_on)
        assert found[path] == pytest.approx(chance, abs=1e-9)


@given(PATHS)
@settings(max_examples=200, deadline=None)
def test_the_ways_pass_every_branching_point_and_no_way_another(paths: set[TokenPath]) -> None:
    trie = VerdictTrie({path: path for path in paths})
    for point in trie.branches:
        assert any(way[: len(point)] == point for way in trie.ways)
    for one, other in itertools.permutations(trie.ways, 2):
        assert other[: len(one)] != one


def test_one_answer_needs_no_model() -> None:
    assert VerdictTrie({"only": (1, 2)}).probabilities(lambda point: []) == {"only": 1.0}


@pytest.mark.parametrize("paths", [{"a": (1, 2), "b": (1, 2, 3)}, {"a": (1,), "b": (1,)}, {"a": (), "b": (1,)}])
def test_answers_that_cannot_be_told_apart_are_refused(paths: dict[str, TokenPath]) -> None:
    with pytest.raises(ValueError, match="cannot be told"):
        VerdictTrie(paths)


def test_extreme_logits_do_not_overflow() -> None:
    trie = VerdictTrie({"yes": (1,), "no": (2,)})
    assert trie.probabilities(lambda point: [5000.0, -5000.0]) == {"yes": 1.0, "no": 0.0}


def test_a_tie_goes_to_the_first() -> None:
    assert likeliest({"a": 0.5, "b": 0.5}) == "a"
    assert likeliest({"b": 0.5, "a": 0.5}) == "b"


@given(st.lists(st.integers(0, 1), max_size=6), st.lists(st.integers(0, 1), max_size=6))
def test_what_is_shared(one: list[int], other: list[int]) -> None:
    count = common_length(one, other)
    assert one[:count] == other[:count]
    assert one[count : count + 1] != other[count : count + 1] or not one[count:] or not other[count:]
