"""Measuring judges: Table 1 with intervals, and what is behind its figures.

folder      what was asked is kept; asking judges into a folder
measure     one judge on one set: figures with intervals, position of the reply
baselines   always True, majority, and a linear probe over sentence embeddings
signatures  failure signatures in words
report      sections, differences, judges against sets; Markdown, JSON
plot        figures
"""

from compeer.reward.evaluation.baselines import add_probe
from compeer.reward.evaluation.folder import EvaluationFolder, JudgeEntry, ask_judge
from compeer.reward.evaluation.measure import MeasuredJudge, difference, measure
from compeer.reward.evaluation.report import EvaluationReport, markdown, measure_folder, write_report

__all__ = [
    "EvaluationFolder",
    "EvaluationReport",
    "JudgeEntry",
    "MeasuredJudge",
    "add_probe",
    "ask_judge",
    "difference",
    "markdown",
    "measure",
    "measure_folder",
    "write_report",
]
