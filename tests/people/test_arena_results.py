"""Shares and intervals against a bootstrap written another way; the ranking by hand and against scikit-learn."""

from __future__ import annotations

import math
import random
from collections import defaultdict

import numpy as np
import pytest
from tests.people.arena_material import GOOD, MODELS, drawn_ballots

from compeer.people.arena_results import OUTCOMES, ArenaVote, count_votes, outcomes, ranking, results, wins
from compeer.statistics import Resamples, wilson
from compeer.statistics.ranking import POINTS, RIDGE, bradley_terry


def draws_of(draws: Resamples) -> list[list[int]]:
    """The numbers of the cases that each round takes."""
    return [
        [n for n, place in enumerate(draws.places) for _ in range(int(weights[place]))] for weights in draws.weights
    ]


def percentile(values: list[float], share: float) -> float:
    """Between the two nearest, in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def independent(
    votes: list[ArenaVote], one: str, two: str, taken: list[list[int]]
) -> dict[str, tuple[float, float, float]]:
    """Share, low and high of each outcome for one pair, by walking through the votes of each case drawn."""
    names = list(dict.fromkeys(vote.case for vote in votes))
    by_case: dict[str, list[str]] = defaultdict(list)
    for vote in votes:
        if {vote.left, vote.right} == {one, two}:
            won = {"first": vote.left, "second": vote.right}.get(vote.choice, vote.choice)
            by_case[vote.case].append({one: "one", two: "two"}.get(won, won))
    everything = [won for name in names for won in by_case[name]]
    drawn: dict[str, list[float]] = {kind: [] for kind in (*OUTCOMES, "net")}
    for numbers in taken:
        told: list[str] = []
        for number in numbers:
            told.extend(by_case[names[number]])
        if told:
            for kind in OUTCOMES:
                drawn[kind].append(told.count(kind) / len(told))
            drawn["net"].append((told.count("one") - told.count("two")) / len(told))
    value = {kind: everything.count(kind) / len(everything) for kind in OUTCOMES}
    value["net"] = value["one"] - value["two"]
    bounds = {kind: (percentile(found, 0.025), percentile(found, 0.975)) for kind, found in drawn.items()}
    cases = sum(bool(by_case[name]) for name in names)
    for kind in OUTCOMES:
        if len(set(drawn[kind])) == 1:  # a bootstrap of a constant says nothing
            bounds[kind] = wilson(value[kind], cases)
    return {kind: (value[kind], *bounds[kind]) for kind in drawn}


@pytest.mark.parametrize("votes", [1, 3])
def test_intervals_match_a_bootstrap_written_with_loops_on_the_same_resamples(votes: int) -> None:
    given = drawn_ballots(30, random.Random(1), votes=votes)
    given = [vote for n, vote in enumerate(given) if n % 11]  # gaps: not every case has every pair
    counted = count_votes(given, MODELS)
    draws = Resamples(counted.cases, 400, seed=7)
    found = outcomes(counted, counted.resampled(draws))
    assert len(found) == 6
    for pair in found:
        expected = independent(given, pair.one, pair.two, draws_of(draws))
        for kind, figure in {**pair.shares, "net": pair.net}.items():
            assert (figure.value, figure.low, figure.high) == pytest.approx(expected[kind], abs=1e-12), (pair.one, kind)


def test_intervals_match_a_bootstrap_with_other_random_numbers() -> None:
    given = drawn_ballots(50, random.Random(2))
    found = results("x", MODELS, given, draws=4000, seed=0)
    rng = random.Random(99)
    taken = [[rng.randrange(50) for _ in range(50)] for _ in range(4000)]
    for pair in found.pairs:
        expected = independent(given, pair.one, pair.two, taken)
        for kind, figure in {**pair.shares, "net": pair.net}.items():
            # shares move in steps of 1/50, so percentiles may differ by a step
            assert (figure.value, figure.low, figure.high) == pytest.approx(expected[kind], abs=0.041), (pair.one, kind)


def test_shares_by_hand() -> None:
    votes = [ArenaVote("c1", "a", "b", "first"), ArenaVote("c2", "b", "a", "first"), ArenaVote("c3", "b", "a", "second"),
             ArenaVote("c4", "a", "b", "both"), ArenaVote("c4", "a", "b", "neither")]  # fmt: skip
    counted = count_votes(votes, ["a", "b"])
    (pair,) = outcomes(counted, counted.resampled(Resamples(counted.cases, 200)))
    assert pair.counts == {"one": 2, "both": 1, "neither": 1, "two": 1}
    assert (pair.votes, pair.cases) == (5, 4)
    assert [pair.shares[kind].value for kind in OUTCOMES] == [0.4, 0.2, 0.2, 0.2]
    assert pair.net.value == pytest.approx(0.2)
    counted = count_votes(votes, ["b", "a"])
    (turned,) = outcomes(counted, counted.resampled(Resamples(counted.cases, 200)))
    assert (turned.one, turned.counts["one"], turned.net.value) == ("b", 1, pytest.approx(-0.2))
    assert (turned.net.low, turned.net.high) == pytest.approx((-(pair.net.high or 0), -(pair.net.low or 0)))


def test_cases_are_resampled_not_votes() -> None:
    """Ten equal votes on each case say no more than one: the interval must not shrink."""
    once = [ArenaVote(f"c{n}", "a", "b", "first" if n % 2 else "second") for n in range(20)]
    few, many = (results("x", "ab", votes).pairs[0].net for votes in (once, once * 10))
    assert (few.low, few.high) == (many.low, many.high)
    assert few.high is not None and few.high > 0.3


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Votes of known chances, many arenas: 95 % intervals hold the true share in 90 to 99 % of them."""
    rng, truth, held = np.random.default_rng(3), 0.45, 0
    for trial in range(200):
        kinds = rng.choice(["first", "both", "neither", "second"], size=60, p=[truth, 0.2, 0.1, 0.25])
        counted = count_votes((ArenaVote(f"c{n}", "a", "b", kind) for n, kind in enumerate(kinds)), "ab")
        share = outcomes(counted, counted.resampled(Resamples(counted.cases, 400, seed=trial)))[0].shares["one"]
        assert share.low is not None and share.high is not None
        held += share.low <= truth <= share.high
    assert 180 <= held <= 198


def test_one_case_has_no_interval() -> None:
    counted = count_votes([ArenaVote("c", "a", "b", "first")], "ab")
    (pair,) = outcomes(counted, counted.resampled(Resamples(counted.cases)))
    assert pair.shares["one"].value == 1.0 and pair.shares["one"].low is None and pair.net.high is None


def test_two_models_by_hand() -> None:
    """Six wins, two losses, four ties: 8 of 12 with ties as halves, so the odds are two to one."""
    votes = [
        ArenaVote(f"{kind}{n}", "a", "b", kind)
        for kind, times in (("first", 6), ("second", 2), ("both", 3), ("neither", 1))
        for n in range(times)
    ]  # type: ignore[arg-type]
    counted = count_votes(votes, "ab")
    won = wins(counted, counted.counts.sum(axis=0))
    assert won.tolist() == [[0, 8], [4, 0]]
    assert bradley_terry(won, ridge=1e-12).tolist() == pytest.approx([math.log(2) / 2, -math.log(2) / 2])


def test_three_models_by_hand() -> None:
    """A cycle of equal wins leaves all level; strengths of a consistent ladder add up."""
    assert np.abs(bradley_terry(np.array([[0, 5, 2.0], [2, 0, 5], [5, 2, 0]]))).max() < 1e-9
    ladder = np.array([[0, 2.0, 4], [1, 0, 2], [1, 1, 0]])  # odds 2, 2 and 4: log 2 apart each
    assert np.diff(bradley_terry(ladder, ridge=1e-12)).tolist() == pytest.approx([-math.log(2)] * 2)


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
    counted = count_votes(given, MODELS)
    ours = bradley_terry(wins(counted, counted.counts.sum(axis=0)))
    assert ours.tolist() == pytest.approx(fitted.coef_[0].tolist(), abs=1e-4)


def test_the_ranking_finds_the_order_and_its_intervals_are_those_of_refitting_each_resample() -> None:
    given = drawn_ballots(50, random.Random(4))
    counted = count_votes(given, MODELS)
    draws = Resamples(counted.cases, 300, seed=5)
    found = ranking(counted, counted.resampled(draws))
    assert [one.model for one in found] == sorted(GOOD, key=lambda name: -GOOD[name])
    refitted = []
    for numbers in draws_of(draws):
        sums = sum(counted.counts[n] for n in numbers)
        refitted.append(bradley_terry(wins(counted, sums)))
    for one in found:
        values = [row[MODELS.index(one.model)] for row in refitted]
        low, high = np.percentile(values, [2.5, 97.5])
        assert (one.strength.low, one.strength.high) == pytest.approx((low, high), abs=1e-8)
        assert one.points.value == pytest.approx(1000 + POINTS * one.strength.value)
        assert one.best <= one.rank <= one.worst


def test_a_model_that_won_everything_has_a_strength() -> None:
    given = [ArenaVote(f"c{n}", "a", "b", "first") for n in range(20)]
    counted = count_votes(given, "ab")
    found = ranking(counted, counted.resampled(Resamples(counted.cases, 100)))
    assert math.isfinite(found[0].strength.value) and found[0].strength.value > 2


def test_nobody_has_voted() -> None:
    empty = results("x", MODELS, [])
    assert (empty.pairs, empty.ranking, empty.votes, empty.left_won.value) == ([], [], 0, 0.5)
