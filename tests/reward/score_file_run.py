"""Scoring in a process of its own, with the judge by rule, to be killed."""

from __future__ import annotations

import sys

from tests.reward.rule_judge import RuleJudge

from compeer.pipeline.stage import Progress
from compeer.reward.score_file import score


def main() -> None:
    source, out, delay = sys.argv[1:4]
    score(source, out, RuleJudge(delay=float(delay)), orders="both", window=16, progress=Progress(quiet=True))


if __name__ == "__main__":
    main()
