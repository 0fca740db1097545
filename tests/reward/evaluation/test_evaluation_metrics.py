"""Our figures against scikit-learn's: on forty hand-made items, on random ones, and where classes are missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from sklearn import metrics as sk
from sklearn.calibration import calibration_curve
from tests.reward.evaluation.hand_made import load

from compeer.cer.item import QUESTIONS
from compeer.reasoning import STEPS
from compeer.reward.evaluation.measure import measure
from compeer.reward.verdict import PREFERENCES
from compeer.statistics import Resamples
from compeer.statistics import classification as curves
from compeer.statistics import classification as metrics

NO_ANSWER = "no answer"


def close(ours: float | None, theirs: float) -> bool:
    return math.isnan(theirs) if ours is None or math.isnan(ours) else ours == pytest.approx(theirs, abs=1e-12)


def counted(truth: Sequence[int], told: Sequence[int], classes: int) -> np.ndarray:
    """The count table of what was observed, each item a group of its own."""
    observed = Resamples([str(number) for number in range(len(truth))], rounds=1).with_observed()
    return observed.tables(np.array(truth, dtype=np.int64), np.array(told, dtype=np.int64), classes)[0]


def theirs(truth: list, told: list, of: object = None) -> dict[str, float]:
    """scikit-learn's figures; an answer that did not come is a class of its own."""
    classes = sorted(set(truth) | set(told), key=str)
    truth, told = [str(value) for value in truth], [str(value) for value in told]
    names = [str(name) for name in classes]
    recall = sk.recall_score(truth, told, labels=[str(of)], average=None, zero_division=np.nan)[0]
    with np.errstate(all="ignore"):
        return {
            "weighted_f1": sk.f1_score(truth, told, labels=names, average="weighted", zero_division=0),
            "accuracy": sk.accuracy_score(truth, told),
            "balanced_accuracy": sk.balanced_accuracy_score(truth, told),
            "recall": recall,
        }


def same_curve(ours: list[tuple[float, float]], truth: object, score: object) -> bool:
    """Whether our corners are points of scikit-learn's curve, and all its points lie on the lines between them."""
    across, up, _ = sk.roc_curve(truth, score, drop_intermediate=False)
    points = np.column_stack([across, up])
    corners = all(np.isclose(points, corner).all(axis=1).any() for corner in ours)
    return corners and all(any(_between(point, *ends) for ends in pairwise(ours)) for point in points)


def _between(point: np.ndarray, start: tuple[float, float], end: tuple[float, float]) -> bool:
    whole, part = np.subtract(end, start), point - start
    return bool(
        abs(whole[0] * part[1] - whole[1] * part[0]) < 1e-12 and -1e-12 <= part @ whole <= whole @ whole + 1e-12
    )


def test_forty_hand_made_items_give_the_figures_of_scikit_learn() -> None:
    items, judgements = load()
    assert len(items) == 40
    result = measure(items, judgements).result
    for place, step in enumerate(STEPS):
        known = [item for item in items if getattr(item.labels, step) is not None]
        truth = [getattr(item.labels, step) for item in known]
        said = [judgements[item.id].steps[place] for item in known]
        told = [NO_ANSWER if verdict.value is None else verdict.value for verdict in said]
        expected, asked = theirs(truth, told, of=False), result.questions[step]
        assert close(asked.figures["weighted_f1"].value, expected["weighted_f1"])
        assert close(asked.figures["recall_false"].value, expected["recall"])
        assert close(asked.figures["accuracy"].value, expected["accuracy"])
        assert close(asked.figures["balanced_accuracy"].value, expected["balanced_accuracy"])
        table = sk.confusion_matrix(
            [str(v) for v in truth], [str(v) for v in told], labels=["False", "True", NO_ANSWER]
        )
        assert asked.confusion == table[:2].tolist()
        assert asked.unanswered == told.count(NO_ANSWER)
        scored = [(label, verdict.p) for label, verdict in zip(truth, said, strict=True) if verdict.p is not None]
        labels, p = [label for label, _ in scored], [value for _, value in scored]
        assert asked.scored == len(scored) < len(known)
        assert close(asked.figures["auc"].value, sk.roc_auc_score(labels, p))
        assert close(asked.figures["brier"].value, sk.brier_score_loss(labels, p))
        assert same_curve(asked.roc, [not label for label in labels], [1 - value for value in p])


def test_the_reply_of_the_hand_made_items_gives_the_figures_of_scikit_learn() -> None:
    items, judgements = load()
    asked = measure(items, judgements).result.questions["preference"]
    known = [item for item in items if item.labels.preference is not None]
    truth = [item.labels.preference for item in known]
    told = [judgements[item.id].preference or NO_ANSWER for item in known]
    expected = theirs(truth, told, of="neither")
    assert close(asked.figures["weighted_f1"].value, expected["weighted_f1"])
    assert close(asked.figures["accuracy"].value, expected["accuracy"])
    assert close(asked.figures["recall_neither"].value, expected["recall"])
    table = sk.confusion_matrix(truth, told, labels=[*PREFERENCES, NO_ANSWER])
    assert asked.confusion == table[:4].tolist() and told.count(NO_ANSWER) == asked.unanswered == 1
    rows = [(item.labels.preference, judgements[item.id].preference_p) for item in known]
    rows = [(label, p) for label, p in rows if p]
    table_p = np.array([[p[name] for name in PREFERENCES] for _, p in rows])
    good = [label in ("candidate", "both") for label, _ in rows]
    assert close(asked.figures["auc"].value, sk.roc_auc_score(good, table_p[:, 0] + table_p[:, 2]))
    labels = [label for label, _ in rows]
    order = [PREFERENCES.index(name) for name in sorted(PREFERENCES)]
    whole = sk.brier_score_loss(labels, table_p[:, order], labels=sorted(PREFERENCES), scale_by_half=False)
    assert close(asked.figures["brier"].value, whole)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("seed", range(12))
def test_random_answers_give_the_figures_of_scikit_learn(classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 200))
    # uneven shares, so that classes are often missing from the truth, from the answers, or from both
    truth = rng.choice(classes, size, p=rng.dirichlet(np.full(classes, 0.5)))
    told = rng.choice(np.arange(-1, classes), size, p=rng.dirichlet(np.full(classes + 1, 0.5)))
    counts = counted(truth, told, classes)
    for number in range(classes):
        expected = theirs(truth.tolist(), told.tolist(), of=number)
        assert close(float(metrics.recalls(counts)[number]), expected["recall"])
    assert close(float(metrics.weighted_f1(counts)), expected["weighted_f1"])
    assert close(float(metrics.accuracy(counts)), expected["accuracy"])
    assert close(float(metrics.balanced_accuracy(counts)), expected["balanced_accuracy"])


@pytest.mark.parametrize(
    ("truth", "told"),
    [
        ([1, 1, 1], [1, 1, 1]),  # no False at all
        ([0, 0], [1, 1]),  # False never recognised
        ([0, 1], [-1, -1]),  # no answer to anything
        ([1], [0]),
    ],
)
def test_missing_classes_give_what_scikit_learn_gives(truth: list[int], told: list[int]) -> None:
    counts = counted(truth, told, 2)
    expected = theirs(truth, told, of=0)
    assert close(float(metrics.weighted_f1(counts)), expected["weighted_f1"])
    assert close(float(metrics.recalls(counts)[0]), expected["recall"])


def test_figures_of_nothing_are_not_zero() -> None:
    counts = counted([], [], 2)
    assert math.isnan(metrics.weighted_f1(counts)) and math.isnan(metrics.accuracy(counts))
    assert math.isnan(curves.auc(np.zeros(0, dtype=bool), np.zeros(0)))


@pytest.mark.parametrize("seed", range(10))
def test_random_probabilities_give_the_curves_of_scikit_learn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = rng.random(80) < 0.3
    # few distinct values, some of them on the edges of bins: ties are what differs between implementations
    p = rng.choice(np.linspace(0, 1, 11), 80) if seed % 2 else np.round(rng.random(80), 2)
    assert close(curves.auc(truth, p), sk.roc_auc_score(truth, p))
    assert same_curve(curves.roc(truth, p), truth, p)
    shares, means = calibration_curve(truth, p, n_bins=10, strategy="uniform")
    bins = [entry for entry in curves.reliability(p, truth) if entry.count]
    assert np.allclose([entry.came_true for entry in bins], shares)
    assert np.allclose([entry.promised for entry in bins], means)
    error = sum(entry.count * abs(entry.promised - entry.came_true) for entry in bins) / 80
    assert close(float(curves.ece(curves.binned(p, truth).sum(axis=0))), error)
    assert close(float(curves.squared(p, truth.astype(float)).mean()), sk.brier_score_loss(truth, p))
    resamples = Resamples([str(n // 4) for n in range(80)], rounds=6, seed=seed)
    weights = resamples.weights[:, resamples.places]
    expected = [sk.roc_auc_score(truth, p, sample_weight=row) for row in weights]
    assert np.allclose(resamples.auc(truth, p, np.ones(80, dtype=bool)), expected)


def test_a_resampled_figure_is_the_figure_of_the_repeated_items() -> None:
    items, judgements = load()
    resamples = Resamples([item.dialogue for item in items], rounds=5, seed=3)
    measured = measure(items, judgements, resamples)
    names = sorted({item.dialogue for item in items})
    for draw in range(5):
        times = dict(zip(names, resamples.weights[draw].astype(int), strict=True))
        repeated = [item for item in items for _ in range(times[item.dialogue])]
        assert sum(times.values()) == len(names)
        again = measure(repeated, judgements, Resamples([item.dialogue for item in repeated], rounds=1)).result
        for question in QUESTIONS:
            for name, figure in again.questions[question].figures.items():
                assert close(figure.value, float(measured.draws[question, name][draw])), (question, name)


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    items, judgements = load()
    dialogues = [item.dialogue for item in items]

    def bounds(seed: int) -> tuple[float | None, float | None]:
        figure = (
            measure(items, judgements, Resamples(dialogues, 200, seed)).result.questions["history"].figures["accuracy"]
        )
        assert figure.low is not None and figure.value is not None and figure.high is not None
        assert figure.low < figure.value < figure.high
        return figure.low, figure.high

    assert bounds(1) == bounds(1) != bounds(2)


def test_items_of_one_dialogue_widen_the_interval() -> None:
    """Ten dialogues of twenty like items hold no more than ten independent facts."""
    rng = np.random.default_rng(0)
    right = np.repeat(rng.random(10) < 0.6, 20).astype(np.int64)
    truth = np.ones(200, dtype=np.int64)

    def width(dialogues: list[str]) -> float:
        draws = metrics.accuracy(Resamples(dialogues, 500).tables(truth, right, 2))
        return float(np.quantile(draws, 0.975) - np.quantile(draws, 0.025))

    together, apart = width([str(n // 20) for n in range(200)]), width([str(n) for n in range(200)])
    assert together > 3 * apart


def test_the_interval_of_a_mean_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for trial in range(200):
        dialogues = np.repeat(np.arange(40), 5)
        values = rng.normal(size=40)[dialogues] + rng.normal(size=200)
        draws = Resamples([str(n) for n in dialogues], 300, seed=trial).mean(values)
        low, high = np.quantile(draws, [0.025, 0.975])
        covered += low <= 0 <= high
    assert 0.88 <= covered / 200 <= 0.99
