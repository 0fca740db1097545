"""Equations 2 and 3 against sums written out by hand."""

from __future__ import annotations

import math
import random

import pytest

from compeer.errors import UserError
from compeer.policy.advantage import advantages, objective, zero_variance


@pytest.mark.parametrize("seed", range(10))
def test_the_advantage_is_the_distance_from_the_mean_in_deviations(seed: int) -> None:
    rng = random.Random(seed)
    group = rng.choice([2, 4, 8])
    rewards = [rng.uniform(-5, 5) for _ in range(group * 3)]
    found = advantages(rewards, group)
    for start in range(0, len(rewards), group):
        own = rewards[start : start + group]
        mean = sum(own) / group
        deviation = math.sqrt(sum((reward - mean) ** 2 for reward in own) / (group - 1))
        for reward, advantage in zip(own, found[start : start + group], strict=True):
            assert advantage == pytest.approx((reward - mean) / (deviation + 1e-4), abs=1e-6)


def test_equal_rewards_teach_nothing_and_neither_does_a_group_of_one() -> None:
    assert advantages([3.0] * 4, 4) == [0.0] * 4
    assert advantages([3.0, -1.0], 1) == [0.0, 0.0]
    assert zero_variance([1, 1, 2, 3], 2) == 0.5


def test_rewards_that_are_no_whole_groups_are_refused() -> None:
    with pytest.raises(UserError, match="6 rewards do not make groups of 4"):
        advantages([0.0] * 6, 4)


def test_the_objective_clips_each_ratio_from_the_side_that_would_gain() -> None:
    old = [[math.log(0.5), math.log(0.5)], [math.log(0.5)]]
    new = [[math.log(0.8), math.log(0.5)], [math.log(0.1)]]
    # ratios 1.6 and 1 with a gain: the first is clipped to 1.2; ratio 0.2 with a loss: clipped to 0.8, the lower value
    by_hand = ((1.2 * 2 + 1.0 * 2) / 2 + min(0.2 * -1, 0.8 * -1)) / 2
    assert objective(new, old, [2.0, -1.0]) == pytest.approx(by_hand, abs=1e-12)
    normalised = math.exp(math.log(1.6) / 2)  # one ratio per output
    assert objective(new[:1], old[:1], [2.0], level="normalised") == pytest.approx(2 * min(normalised, 1.2), abs=1e-12)
    assert objective(new[:1], old[:1], [-2.0], level="output") == pytest.approx(-2 * 1.6, abs=1e-12)
