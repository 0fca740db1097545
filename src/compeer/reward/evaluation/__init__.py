"""Measuring judges: Table 1 with intervals, and what lies behind its figures.

metrics     weighted F1, recalls, accuracy from tables of counts
curves      ROC, calibration
bootstrap   intervals by resampling dialogues; paired, two judges on the same samples
answers     labels beside verdicts; labels of different origin never meet
measure     one judge on one set; position, whether the place of a reply sways it
baselines   always True, majority; probe, a linear probe over sentence embeddings
signatures  failure signatures in words
folder      what was asked is kept; asking, judges into a folder
report      sections, differences; matrix, judges against sets
table       Markdown; grid, its tables; plot and bars, its figures; paper, the paper's own rows
evaluate    from judges and items to the written report
"""

from compeer.reward.evaluation.evaluate import add_probe, ask_judge, keep_sets, write
from compeer.reward.evaluation.folder import Entry, Folder
from compeer.reward.evaluation.measure import Figure, Measured, Result, difference, measure
from compeer.reward.evaluation.report import Report, report
from compeer.reward.evaluation.table import markdown

__all__ = [
    "Entry",
    "Figure",
    "Folder",
    "Measured",
    "Report",
    "Result",
    "add_probe",
    "ask_judge",
    "difference",
    "keep_sets",
    "markdown",
    "measure",
    "report",
    "write",
]
