"""Statistics: one figure type, one bootstrap, and every measure that more than one part of COMPEER reports.

    intervals       a number with its 95 % interval: bootstrap over dialogues, Wilson's interval, paired differences
    classification  count tables, F1, recall, ROC and its area, calibration, McNemar's test
    agreement       percent agreement, Cohen's kappa, Krippendorff's alpha, Gwet's AC1
    ranking         Bradley-Terry strengths

NumPy only, so that it can be used without the optional dependencies. Tests compare every measure with scikit-learn,
SciPy or a published worked example.
"""

from __future__ import annotations

from compeer.statistics.agreement import ac1, alpha, kappa, percent_agreement
from compeer.statistics.classification import (
    Bin,
    accuracy,
    auc,
    balanced_accuracy,
    binned,
    confusion,
    ece,
    mcnemar,
    recalls,
    reliability,
    roc,
    squared,
    weighted_f1,
)
from compeer.statistics.intervals import (
    LEVEL,
    ROUNDS,
    Codes,
    Figure,
    Flags,
    Floats,
    Resamples,
    difference_figure,
    estimate,
    interval,
    mean_figure,
    quotient,
    share_figure,
    wilson,
)
from compeer.statistics.ranking import bradley_terry, chess_points, rank_range

__all__ = [
    "LEVEL",
    "ROUNDS",
    "Bin",
    "Codes",
    "Figure",
    "Flags",
    "Floats",
    "Resamples",
    "ac1",
    "accuracy",
    "alpha",
    "auc",
    "balanced_accuracy",
    "binned",
    "bradley_terry",
    "chess_points",
    "confusion",
    "difference_figure",
    "ece",
    "estimate",
    "interval",
    "kappa",
    "mcnemar",
    "mean_figure",
    "percent_agreement",
    "quotient",
    "rank_range",
    "recalls",
    "reliability",
    "roc",
    "share_figure",
    "squared",
    "weighted_f1",
    "wilson",
]
