"""Bradley-Terry: by hand, against scikit-learn, ties, and models that never lose."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from tests.arena.material import GOOD, MODELS, drawn_ballots

from compeer.people.arena_results import (
    POINTS,
    RIDGE,
    Judged,
    judged,
    ranking,
    resampled,
    resamples,
    results,
    strengths,
    tally,
    wins,
)


def test_two_models_by_hand() -> None:
    """Six wins, two losses, four ties: 8 of 12 with ties as halves, so the odds are two to one."""
    votes = [
        Judged(f"{kind}{n}", "a", "b", kind)
        for kind, times in (("one", 6), ("two", 2), ("both", 3), ("neither", 1))
        for n in range(times)
    ]  # type: ignore[arg-type]
    counted = tally(votes, "ab")
    won = wins(counted, counted.array().sum(axis=0))
    assert won.tolist() == [[0, 8], [4, 0]]
    assert strengths(won, ridge=1e-12).tolist() == pytest.approx([math.log(2) / 2, -math.log(2) / 2])


def test_three_models_by_hand() -> None:
    """A cycle of equal wins leaves all level; strengths of a consistent ladder add up."""
    assert np.abs(strengths(np.array([[0, 5, 2.0], [2, 0, 5], [5, 2, 0]]))).max() < 1e-9
    ladder = np.array([[0, 2.0, 4], [1, 0, 2], [1, 1, 0]])  # odds 2, 2 and 4: log 2 apart each
    assert np.diff(strengths(ladder, ridge=1e-12)).tolist() == pytest.approx([-math.log(2)] * 2)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_strengths_are_those_of_scikit_learn(seed: int) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    given = drawn_ballots(40, random.Random(seed))
    rows, answers, weights = [], [], []
    for ballot in given:
        row = [0.0] * len(MODELS)
        row[MODELS.index(ballot.left)], row[MODELS.index(ballot.right)] = 1.0, -1.0
        sides = {"first": [(1, 1.0)], "second": [(0, 1.0)]}.get(ballot.choice, [(1, 0.5), (0, 0.5)])
        for answer, weight in sides:
            rows.append(row)
            answers.append(answer)
            weights.append(weight)
    fitted = linear.LogisticRegression(C=1 / RIDGE, fit_intercept=False, tol=1e-10, max_iter=1000)
    fitted.fit(rows, answers, sample_weight=weights)
    counted = tally(map(judged, given), MODELS)
    ours = strengths(wins(counted, counted.array().sum(axis=0)))
    assert ours.tolist() == pytest.approx(fitted.coef_[0].tolist(), abs=1e-4)


def test_the_ranking_finds_the_order_and_its_intervals_are_those_of_refitting_each_resample() -> None:
    given = drawn_ballots(50, random.Random(4))
    counted = tally(map(judged, given), MODELS)
    taken = resamples(50, draws=300, seed=5)
    found = ranking(counted, resampled(counted, taken))
    assert [one.model for one in found] == sorted(GOOD, key=lambda name: -GOOD[name])
    refitted = []
    for numbers in taken:
        sums = sum(counted.array()[n] for n in numbers)
        refitted.append(strengths(wins(counted, sums)))
    for one in found:
        values = [row[MODELS.index(one.model)] for row in refitted]
        low, high = np.percentile(values, [2.5, 97.5])
        assert (one.strength.low, one.strength.high) == pytest.approx((low, high), abs=1e-8)
        assert one.points.value == pytest.approx(1000 + POINTS * one.strength.value)
        assert one.best <= one.rank <= one.worst


def test_a_model_that_won_everything_has_a_strength() -> None:
    given = [Judged(f"c{n}", "a", "b", "one") for n in range(20)]
    counted = tally(given, "ab")
    found = ranking(counted, resampled(counted, resamples(20, draws=100)))
    assert math.isfinite(found[0].strength.value) and found[0].strength.value > 2


def test_nobody_has_voted() -> None:
    empty = results("x", MODELS, [])
    assert (empty.pairs, empty.ranking, empty.votes, empty.left_won.value) == ([], [], 0, 0.5)
