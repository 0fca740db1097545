"""Statistics against SciPy, scikit-learn, published worked examples, and by hand."""

from __future__ import annotations

import math
import random

import msgspec
import numpy as np
import pytest

from compeer.statistics import Figure, Resamples, difference_figure, estimate, mean_figure, share_figure, wilson
from compeer.statistics.agreement import ac1, alpha, kappa, percent_agreement
from compeer.statistics.classification import mcnemar
from compeer.statistics.ranking import bradley_terry, chess_points, rank_range


class TestFigure:
    def test_a_value_that_does_not_exist_survives_json(self) -> None:
        for figure in (Figure("x"), Figure("x", 0.5, 0.4, 0.6, 9), mean_figure("x", [])):
            assert msgspec.json.decode(msgspec.json.encode(figure), type=Figure) == figure

    def test_scaled_keeps_low_below_high(self) -> None:
        turned = Figure("x", 2.0, 1.0, 4.0).scaled(-10, 5, "y")
        assert turned == Figure("y", -15.0, -35.0, -5.0)
        assert Figure("x").scaled(3) == Figure("x")

    def test_only_an_interval_tells_a_difference(self) -> None:
        assert Figure("x", 0.2, 0.1, 0.3).differs_from(0)
        assert not Figure("x", 0.2, -0.1, 0.3).differs_from(0)
        assert not Figure("x", 0.2).differs_from(0)


class TestBootstrap:
    def test_the_interval_covers_the_mean_as_often_as_it_says(self) -> None:
        rng = np.random.default_rng(3)
        figures = [mean_figure("x", list(rng.normal(0.0, 1.0, 60)), seed=number) for number in range(200)]
        covered = sum((figure.low or 0) <= 0.0 <= (figure.high or 0) for figure in figures)
        assert 180 <= covered <= 198

    def test_like_items_of_one_group_do_not_narrow_the_interval(self) -> None:
        values = np.random.default_rng(1).normal(size=12)
        once = mean_figure("x", list(values), [str(n) for n in range(12)])
        often = mean_figure("x", list(np.repeat(values, 10)), [str(n // 10) for n in range(120)])
        assert (once.low, once.high) == pytest.approx((often.low, often.high))

    def test_memory_stays_bounded_and_the_rounds_are_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        values = [0.0, 1.0, 5.0, 7.0]
        whole = mean_figure("x", values)
        monkeypatch.setattr("compeer.statistics._PAIRS_AT_ONCE", 8)
        parted = mean_figure("x", values)
        assert parted.low == pytest.approx(whole.low, abs=0.8) and parted.value == whole.value

    @pytest.mark.parametrize("value", [0.1, 1.0, 3.7])
    def test_a_constant_is_not_certainty(self, value: float) -> None:
        assert mean_figure("x", [value] * 7).low is None
        groups = list("aabbccd")
        assert mean_figure("x", [value] * 7, groups).high is None
        draws = Resamples(groups).mean(np.full(7, value))
        assert estimate("x", value, draws, 7) == Figure("x", value, n=7)

    def test_a_constant_share_takes_wilsons_interval(self) -> None:
        assert estimate("x", 1.0, np.ones(100), 6, share_of=6).low == pytest.approx(wilson(1.0, 6)[0])

    def test_one_group_has_no_interval(self) -> None:
        assert mean_figure("x", [1.0, 2.0], ["a", "a"]) == Figure("x", 1.5, n=2)
        assert share_figure("x", [True, False], ["a", "a"]) == Figure("x", 0.5, n=2)

    def test_paired_differences_are_narrower_than_unpaired_ones(self) -> None:
        rng = np.random.default_rng(2)
        person = rng.normal(0, 5, 50)
        first, second = person + rng.normal(1, 0.5, 50), person + rng.normal(0, 0.5, 50)
        gap = difference_figure("gain", list(first), list(second))
        assert gap.differs_from(0) and gap.value == pytest.approx(float((first - second).mean()))
        own = mean_figure("x", list(first))
        assert (gap.high or 0) - (gap.low or 0) < 0.3 * ((own.high or 0) - (own.low or 0))
        with pytest.raises(ValueError, match="shorter"):
            difference_figure("x", [1, 2], [1])


class TestShares:
    @pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 9), (6, 6), (1, 2), (37, 50), (999, 1000)])
    def test_wilson_is_scipys(self, hits: int, n: int) -> None:
        from scipy.stats import binomtest

        theirs = binomtest(hits, n).proportion_ci(method="wilson")
        figure = share_figure("x", [True] * hits + [False] * (n - hits))
        assert (figure.low, figure.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
        assert figure.n == n

    def test_missing_values_are_left_out(self) -> None:
        assert share_figure("x", [True, None, False], ["a", "b", "c"]) == share_figure("x", [True, False])
        assert share_figure("x", [None]) == Figure("x")

    def test_equal_items_of_a_group_count_once(self) -> None:
        flags = [True, True, True, False, True, False, True, True]
        once = share_figure("x", flags)
        often = share_figure("x", np.repeat(flags, 10).tolist(), [str(n // 10) for n in range(80)])
        assert often.value == once.value
        # the groups' variance is estimated with 8 - 1 degrees of freedom, hence a little wider
        assert (often.low or 0) == pytest.approx(once.low, abs=0.03) and (often.low or 0) <= (once.low or 0)

    @pytest.mark.parametrize("alike", [0.0, 0.5])
    def test_the_interval_of_grouped_shares_covers_the_truth(self, alike: float) -> None:
        rng, covered = np.random.default_rng(8), 0
        for _ in range(300):
            own = rng.random(30) < 0.8
            flags = np.where(rng.random((30, 6)) < alike, own[:, None], rng.random((30, 6)) < 0.8)
            figure = share_figure("x", flags.ravel().tolist(), [str(n // 6) for n in range(180)])
            covered += (figure.low or 0) <= 0.8 <= (figure.high or 0)
        assert covered >= 0.91 * 300

    def test_all_of_few_groups_is_less_certain_than_all_of_many_items(self) -> None:
        assert share_figure("x", [True] * 60, [str(n // 10) for n in range(60)]).low == pytest.approx(wilson(1, 6)[0])


@pytest.mark.parametrize(("first", "second"), [(0, 0), (5, 0), (3, 3), (12, 25), (400, 330)])
def test_mcnemar_is_the_exact_binomial_test(first: int, second: int) -> None:
    from scipy.stats import binomtest

    theirs = binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar(first, second) == pytest.approx(theirs, abs=1e-9)


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


class TestAgreement:
    def test_alpha_of_published_examples(self) -> None:
        assert alpha(MEG_AND_OWEN) == pytest.approx(0.095, abs=5e-4)  # section A
        assert alpha(BEN_AND_GERRY) == pytest.approx(0.692, abs=5e-4)  # section B
        assert alpha(UNITS) == pytest.approx(0.743, abs=5e-4)  # section C, nominal

    def test_ac1_of_a_lopsided_table(self) -> None:
        """Gwet (2002). Kappa statistic is not satisfactory …, series 1: 118 both yes, 5 and 2 split, none both no."""
        pairs = [("+", "+")] * 118 + [("+", "-")] * 5 + [("-", "+")] * 2
        assert percent_agreement(pairs) == pytest.approx(0.944)
        assert kappa(pairs) == pytest.approx(-0.0234, abs=5e-5)  # people agree, and kappa says they do not
        assert ac1(pairs) == pytest.approx(0.9408, abs=5e-5)

    def test_ac1_of_three_values(self) -> None:
        """The abstractors' table in Gwet's irrCAC (dataset cont3x3abstractors): kappa 0.7964094, AC1 0.8493305."""
        table = {("e", "e"): 13, ("a", "a"): 20, ("a", "n"): 7, ("n", "a"): 4, ("n", "n"): 56}
        assert kappa(table) == pytest.approx(0.7964094, abs=1e-7)
        assert ac1(table) == pytest.approx(0.8493305, abs=1e-7)

    def test_ac1_of_four_raters_with_votes_missing(self) -> None:
        """Gwet (2014), Handbook of Inter-Rater Reliability, on Krippendorff's data (irrCAC's cac.raw4raters)."""
        assert ac1(UNITS) == pytest.approx(0.77544, abs=5e-6)
        assert percent_agreement(UNITS) == pytest.approx(0.8181818, abs=1e-6)

    @pytest.mark.parametrize("seed", range(20))
    def test_kappa_is_scikit_learns(self, seed: int) -> None:
        from sklearn.metrics import cohen_kappa_score

        rng = random.Random(seed)
        values = ["candidate", "reference", "both", "neither"][: rng.randint(2, 4)]
        left = rng.choices(values, k=60)
        right = [value if rng.random() < 0.7 else rng.choice(values) for value in left]
        assert kappa(zip(left, right, strict=True)) == pytest.approx(cohen_kappa_score(left, right), abs=1e-12)

    def test_what_cannot_be_measured_is_nan_and_not_perfect(self) -> None:
        assert all(math.isnan(one([])) for one in (percent_agreement, kappa, alpha, ac1))
        always = [(True, True)] * 9
        assert percent_agreement(always) == 1.0 and math.isnan(kappa(always)) and math.isnan(alpha(always))
        assert ac1(always, categories=2) == 1.0


class TestRanking:
    def test_strengths_by_hand(self) -> None:
        """Odds 2: log 2 apart. A cycle of equal wins is level. The strengths of a consistent ladder add up."""
        assert bradley_terry(np.array([[0, 8.0], [4, 0]]), ridge=1e-12).tolist() == pytest.approx(
            [math.log(2) / 2, -math.log(2) / 2]
        )
        assert np.abs(bradley_terry(np.array([[0, 5, 2.0], [2, 0, 5], [5, 2, 0]]))).max() < 1e-9
        ladder = np.array([[0, 2.0, 4], [1, 0, 2], [1, 1, 0]])
        assert np.diff(bradley_terry(ladder, ridge=1e-12)).tolist() == pytest.approx([-math.log(2)] * 2)

    def test_a_stack_is_fitted_like_its_matrices(self) -> None:
        stack = np.random.default_rng(0).integers(0, 9, (5, 4, 4)).astype(float)
        stack[:, range(4), range(4)] = 0
        stack[0, 1:, 0] = 0  # one that never loses
        fitted = bradley_terry(stack)
        assert np.isfinite(fitted).all()
        for one, strengths in zip(stack, fitted, strict=True):
            assert bradley_terry(one).tolist() == pytest.approx(strengths.tolist(), abs=1e-8)

    def test_points_and_ranks(self) -> None:
        points = chess_points(Figure("strength", math.log(10), 0.0, None))
        assert points.value == pytest.approx(1400) and points.low == 1000
        draws = np.array([[3.0, 2.0, 1.0]] * 97 + [[1.0, 2.0, 3.0]] * 3)
        assert rank_range(draws).tolist() == [[1, 3], [2, 2], [1, 3]]
