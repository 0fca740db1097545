"""Shares and intervals, against counting by hand and against a bootstrap that was written another way."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest
from tests.arena.material import MODELS, drawn_ballots

from compeer.people.arena_results import (
    OUTCOMES,
    Ballot,
    Judged,
    judged,
    outcomes,
    resampled,
    resamples,
    results,
    seen_from,
    tally,
)


def percentile(values: list[float], share: float) -> float:
    """Between the two nearest, in proportion."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def independent(
    votes: list[Ballot], one: str, two: str, taken: list[list[int]]
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
    return {kind: (value[kind], percentile(found, 0.025), percentile(found, 0.975)) for kind, found in drawn.items()}


@pytest.mark.parametrize("votes", [1, 3])
def test_intervals_match_a_bootstrap_written_with_loops_on_the_same_resamples(votes: int) -> None:
    given = drawn_ballots(30, random.Random(1), votes=votes)
    given = [vote for n, vote in enumerate(given) if n % 11]  # gaps: not every case has every pair
    counted = tally(map(judged, given), MODELS)
    taken = resamples(len(counted.cases), draws=400, seed=7)
    found = outcomes(counted, resampled(counted, taken))
    assert len(found) == 6
    for pair in found:
        expected = independent(given, pair.one, pair.two, taken.tolist())
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
    votes = [Judged("c1", "a", "b", "one"), Judged("c2", "b", "a", "one"), Judged("c3", "b", "a", "two"),
             Judged("c4", "a", "b", "both"), Judged("c4", "a", "b", "neither")]  # fmt: skip
    counted = tally(votes, ["a", "b"])
    (pair,) = outcomes(counted, resampled(counted, resamples(4, draws=200)))
    assert pair.counts == {"one": 2, "both": 1, "neither": 1, "two": 1}
    assert (pair.votes, pair.cases) == (5, 4)
    assert [pair.shares[kind].value for kind in OUTCOMES] == [0.4, 0.2, 0.2, 0.2]
    assert pair.net.value == pytest.approx(0.2)
    turned = seen_from(pair, "b")
    assert (turned.one, turned.counts["one"], turned.net.value) == ("b", 1, pytest.approx(-0.2))
    assert (turned.net.low, turned.net.high) == (-(pair.net.high or 0), -(pair.net.low or 0))


def test_cases_are_resampled_not_votes() -> None:
    """Ten equal votes on each case say no more than one: the interval must not shrink."""
    once = [Judged(f"c{n}", "a", "b", "one" if n % 2 else "two") for n in range(20)]
    few = outcomes(tally(once, "ab"), resampled(tally(once, "ab"), resamples(20)))[0].net
    many = outcomes(tally(once * 10, "ab"), resampled(tally(once * 10, "ab"), resamples(20)))[0].net
    assert (few.low, few.high) == (many.low, many.high)
    assert few.high is not None and few.high > 0.3


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Votes of known chances, many arenas: 95 % intervals hold the true share in 90 to 99 % of them."""
    rng, truth, held = np.random.default_rng(3), 0.45, 0
    for trial in range(200):
        kinds = rng.choice(["one", "both", "neither", "two"], size=60, p=[truth, 0.2, 0.1, 0.25])
        counted = tally((Judged(f"c{n}", "a", "b", kind) for n, kind in enumerate(kinds)), "ab")
        share = outcomes(counted, resampled(counted, resamples(60, draws=400, seed=trial)))[0].shares["one"]
        assert share.low is not None and share.high is not None
        held += share.low <= truth <= share.high
    assert 180 <= held <= 198


def test_one_case_has_no_interval() -> None:
    counted = tally([Judged("c", "a", "b", "one")], "ab")
    (pair,) = outcomes(counted, resampled(counted, resamples(1)))
    assert pair.shares["one"].value == 1.0 and pair.shares["one"].low is None and pair.net.high is None
