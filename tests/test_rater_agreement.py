"""The agreement figures against scikit-learn and against worked examples that were published with their results."""

from __future__ import annotations

import math
import random

import pytest

from compeer.statistics import ac1, alpha, kappa, percent_agreement

# Krippendorff, K. (2011). Computing Krippendorff's Alpha-Reliability, sections A, B and C (University of Pennsylvania).
MEG_AND_OWEN = list(zip("0100000010", "1110010000", strict=True))
BEN_AND_GERRY = list(zip("aabbdcccedda", "babbbccceddd", strict=True))
OBSERVERS = [  # four observers, twelve units, "." where somebody did not look
    "123321412...",
    "1233224125.3",
    ".3332342251.",
    "12332441251.",
]
UNITS = [[value for value in unit if value != "."] for unit in zip(*OBSERVERS, strict=True)]


def test_alpha_of_two_observers_and_two_values() -> None:
    assert alpha(MEG_AND_OWEN) == pytest.approx(0.095, abs=5e-4)  # section A


def test_alpha_of_two_observers_and_five_values() -> None:
    assert alpha(BEN_AND_GERRY) == pytest.approx(0.692, abs=5e-4)  # section B


def test_alpha_of_four_observers_with_votes_missing() -> None:
    assert alpha(UNITS) == pytest.approx(0.743, abs=5e-4)  # section C, nominal


def test_ac1_of_a_lopsided_table() -> None:
    """Gwet, K. L. (2002). Kappa statistic is not satisfactory …, series 1: 118 both yes, 5 and 2 split, none both no."""
    pairs = [("+", "+")] * 118 + [("+", "-")] * 5 + [("-", "+")] * 2
    assert percent_agreement(pairs) == pytest.approx(0.944)
    assert kappa(pairs) == pytest.approx(-0.0234, abs=5e-5)  # people agree, and kappa says they do not
    assert ac1(pairs) == pytest.approx(0.9408, abs=5e-5)


def test_ac1_of_three_values() -> None:
    """The abstractors' table in Gwet's irrCAC (dataset cont3x3abstractors): kappa 0.7964094, AC1 0.8493305."""
    table = {("e", "e"): 13, ("a", "a"): 20, ("a", "n"): 7, ("n", "a"): 4, ("n", "n"): 56}
    pairs = [pair for pair, count in table.items() for _ in range(count)]
    assert kappa(pairs) == pytest.approx(0.7964094, abs=1e-7)
    assert ac1(pairs) == pytest.approx(0.8493305, abs=1e-7)


def test_ac1_of_four_raters_with_votes_missing() -> None:
    """Gwet (2014), Handbook of Inter-Rater Reliability, on Krippendorff's data (irrCAC's cac.raw4raters): 0.77544."""
    assert ac1(UNITS) == pytest.approx(0.77544, abs=5e-6)
    assert percent_agreement(UNITS) == pytest.approx(0.8181818, abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_kappa_is_scikit_learns(seed: int) -> None:
    from sklearn.metrics import cohen_kappa_score

    rng = random.Random(seed)
    values = ["candidate", "reference", "both", "neither"][: rng.randint(2, 4)]
    left = rng.choices(values, k=60)
    right = [value if rng.random() < 0.7 else rng.choice(values) for value in left]
    assert kappa(zip(left, right, strict=True)) == pytest.approx(cohen_kappa_score(left, right), abs=1e-12)


def test_what_cannot_be_measured_is_nan_and_not_perfect() -> None:
    assert math.isnan(percent_agreement([])) and math.isnan(kappa([])) and math.isnan(alpha([])) and math.isnan(ac1([]))
    always = [(True, True)] * 9
    assert percent_agreement(always) == 1.0 and math.isnan(kappa(always)) and math.isnan(alpha(always))
    assert ac1(always, categories=2) == 1.0
