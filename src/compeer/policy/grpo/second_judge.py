"""A second judge, on which the policy is not trained, so that over-optimisation shows.

Every so many steps the policy answers a set of held-out prompts, always the same ones with the same random numbers,
and both judges score the answers. While the policy really gets better, both curves rise. When only the training
judge's rises, the policy has learnt what that judge likes; then there is an alert, in words.

Scores are sums of the reward's parts before equation 5, with the run's weights. A prompt that either judge left open
is counted and left out of both means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from compeer.policy.composite import Asked, Judging, Settings, text_of
from compeer.reasoning import parse
from compeer.reward.case import Case, case_of_parsed
from compeer.reward.judge import Judgement
from compeer.typed import from_json

APART = 0.5  # of a scale from -5 to 5
CERTAIN = 2.0  # standard errors


class Answered(msgspec.Struct):
    """A held-out prompt, what the policy wrote, and what the two judges gave it."""

    id: str
    output: str
    training: float | None
    second: float | None


class HeldOut:
    """Collects the answers of one evaluation and compares the judges on them."""

    def __init__(self, training: Judging | None, second: Judging, settings: Settings = Settings()) -> None:
        self.training, self.second, self.settings = training, second, settings
        self.answers: list[Answered] = []
        self._first: Mapping[str, float] | None = None

    def begin(self) -> None:
        self.answers = []

    def score(self, asked: Sequence[str], completions: Sequence[Any]) -> list[float]:
        """Both judges on a batch; the training judge's scores, which is what a trainer wants to know."""
        cases = []
        for row, completion in zip(asked, completions, strict=True):
            known = from_json(row, Asked)
            parsed = parse(text_of(completion))
            cases.append(case_of_parsed(known.id, known.language, known.history, known.reference, parsed))
        training, second = (self._totals(judge, cases) for judge in (self.training, self.second))
        for case, completion, one, two in zip(cases, completions, training, second, strict=True):
            self.answers.append(Answered(case.id, text_of(completion), one, two))
        return [0.0 if value is None else value for value in training]

    def compare(self, gather: Callable[[list[Answered]], list[Answered]] = lambda rows: rows) -> dict[str, float]:
        """Both means over all processes, the gap between them and its standard error."""
        rows = {row.id: row for row in gather(self.answers)}  # a batch may have been filled up with a prompt twice
        pairs = [(row.training, row.second) for row in rows.values()]
        both = [(one, two) for one, two in pairs if one is not None and two is not None]
        found = {"judge/unanswered": 1 - len(both) / len(pairs) if pairs else 0.0}
        if not both:
            return found
        gaps = [one - two for one, two in both]
        mean = sum(gaps) / len(gaps)
        spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / max(1, len(gaps) - 1))
        return found | {
            "judge/training": sum(one for one, _ in both) / len(both),
            "judge/second": sum(two for _, two in both) / len(both),
            "judge/gap": mean,
            "judge/gap_error": spread / math.sqrt(len(gaps)),
        }

    def see(self, step: int, found: Mapping[str, float]) -> list[str]:
        """An alert when the judges have parted since the first evaluation."""
        if "judge/gap" not in found:
            return []
        if self._first is None:
            self._first = {"step": step, **found}
            return []
        first = self._first
        by = found["judge/gap"] - first["judge/gap"]
        error = math.hypot(found["judge/gap_error"], first["judge/gap_error"])
        rose = found["judge/training"] > first["judge/training"]
        if not rose or by < APART or by < CERTAIN * error:
            return []
        self._first = {"step": step, **found}  # again only when it gets worse still
        return [
            f"The judges part. Since step {first['step']:g} the training judge's mean on held-out prompts went from "
            f"{first['judge/training']:.2f} to {found['judge/training']:.2f}, the second judge's from "
            f"{first['judge/second']:.2f} to {found['judge/second']:.2f}: the policy learns what its judge likes, "
            "not what is good. Stop here, or take an earlier checkpoint."
        ]

    def recall(self, metrics: Sequence[Mapping[str, Any]]) -> None:
        """Begin where a resumed run began: with its first evaluation."""
        for line in metrics:
            found = {
                name.removeprefix("eval_"): value for name, value in line.items() if name.startswith("eval_judge/")
            }
            self.see(int(line.get("step", 0)), found)

    def _totals(self, judge: Judging | None, cases: list[Case]) -> list[float | None]:
        if judge is None:
            judgements = [Judgement(id=case.id, complete=case.complete) for case in cases]
        else:
            judgements = judge.judge_all(cases)
        return [self._total(judgement) for judgement in judgements]

    def _total(self, judgement: Judgement) -> float | None:
        if judgement.failure is not None:
            return None
        parts = judgement.parts(self.settings.soft)
        return sum(self.settings.weight(name) * value for name, value in parts.items())
