"""Equations 5, 6 and 7 against plain double-precision arithmetic written out from the paper."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from compeer.errors import UserError
from compeer.policy.redundancy import reweight, similarities, tau


def table_of(seed: int, size: int = 7) -> dict[str, list[float]]:
    rng = random.Random(seed)
    return {f"text {number}": [rng.gauss(0, 1) for _ in range(size)] for number in range(12)}


def cosine(one: list[float], other: list[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(sum(a * a for a in one)) / math.sqrt(sum(b * b for b in other))


@pytest.mark.parametrize("seed", range(20))
def test_similarities_and_rewards_equal_the_formulas(seed: int) -> None:
    table, rng = table_of(seed), random.Random(seed)
    names = list(table)
    replies, history = rng.sample(names, 4), rng.sample(names, rng.randint(1, 6))
    s_in, s_hi = similarities(replies, history, lambda texts: np.array([table[text] for text in texts]))
    for number, reply in enumerate(replies):
        others = [cosine(table[reply], table[other]) for place, other in enumerate(replies) if place != number]
        past = [cosine(table[reply], table[said]) for said in history]
        assert s_in[number] == pytest.approx(sum(others) / 3, abs=1e-6)
        assert s_hi[number] == pytest.approx(sum(past) / len(past), abs=1e-6)
        length, reward = rng.uniform(0, 30), rng.choice([-5, -3, -1, 1, 3, 5])
        weight = 1 / (1 + math.exp(-0.5 * (length - 5)))
        assert tau(length) == pytest.approx(weight, abs=1e-12)
        expected = reward / ((1 + weight * s_in[number]) * (1 + weight * s_hi[number]))
        assert reweight(reward, s_in[number], s_hi[number], tau(length)) == pytest.approx(expected, abs=1e-6)


def test_tau_far_below_at_and_far_above_its_threshold() -> None:
    assert tau(-1e6) == 0.0
    assert tau(5.0) == 0.5
    assert tau(1e6) == 1.0
    assert tau(3, alpha=2.0, beta=3) == 0.5


def constant(texts: list[str]) -> list[list[float]]:
    return [[3.0, 4.0]] * len(texts)


def test_edges() -> None:
    assert similarities([], ["x"], constant) == ([], [])
    assert similarities(["alone"], [], constant) == ([0.0], [0.0])
    assert similarities(["", " "], [""], constant) == ([0.0, 0.0], [0.0, 0.0])
    s_in, s_hi = similarities(["same"] * 4, ["same"], constant)
    assert s_in == pytest.approx([1.0] * 4)
    assert s_hi == pytest.approx([1.0] * 4)
    s_in, s_hi = similarities(["a", "", "b"], ["said", ""], constant)
    assert s_in == pytest.approx([0.5, 0.0, 0.5])
    assert s_hi == pytest.approx([0.5, 0.0, 0.5])


def test_a_vector_of_zeros_resembles_nothing() -> None:
    assert similarities(["a", "b"], ["c"], lambda texts: np.zeros((len(texts), 3))) == ([0.0, 0.0], [0.0, 0.0])


def test_a_negative_reward_is_raised_as_printed_and_lowered_when_the_sign_counts() -> None:
    assert reweight(-3, 0.8, 0.4, 1.0) > -3
    assert reweight(-3, 0.8, 0.4, 1.0, "sign_aware") < -3
    for variant in ("paper", "sign_aware"):
        assert 0 < reweight(3, 0.8, 0.4, 1.0, variant) < 3  # type: ignore[arg-type]
        assert reweight(0, 0.8, 0.4, 1.0, variant) == 0  # type: ignore[arg-type]


def test_opposite_texts_do_not_divide_by_zero() -> None:
    assert math.isfinite(reweight(5, -1.0, -1.0, 1.0))


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(UserError, match="sign_aware"):
        reweight(1, 0, 0, 1, "other")  # type: ignore[arg-type]
