"""Answers as paths of tokens: where they part, and how a model's logits become their probabilities."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compeer.reward.local_scoring import common_length
from compeer.reward.verdict import TokenPath, VerdictTrie, likeliest


def parting_on_one_path(way: list[int], leaving: list[tuple[int, list[int]]]) -> set[TokenPath]:
    """Answers that leave a path at some of its places, each by a token of its own; the path ends in an answer."""
    found: set[TokenPath] = {(*way, 9)}
    for number, (at, rest) in enumerate(leaving):
        found.add((*way[:at], 10 + number, *rest, 9))
    return found


PATHS = st.builds(
    parting_on_one_path,
    st.lists(st.integers(0, 2), max_size=4),
    st.lists(st.tuples(st.integers(0, 4), st.lists(st.integers(0, 2), max_size=2)), max_size=6),
)


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
def test_the_way_passes_every_branching_point(paths: set[TokenPath]) -> None:
    trie = VerdictTrie({path: path for path in paths})
    assert all(trie.way[: len(point)] == point for point in trie.branches)


def test_answers_that_part_on_several_paths_are_refused() -> None:
    with pytest.raises(ValueError, match="part on several paths"):
        VerdictTrie({"a": (1, 2), "b": (1, 3), "c": (4, 2), "d": (4, 3)})


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
