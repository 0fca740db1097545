"""Warnings in words while a policy is trained: collapse, gamed rewards, and a second judge that disagrees.

`Alerts` compares the last steps with two baselines, the steps before them and the first ones, so that a sudden fall and
a slow one are both seen. A change counts when it is large *and* more than chance: four standard errors, because every
step is another chance to be wrong. After an alert its baseline starts again, so the same alert is repeated only when it
gets worse.

- Collapse: distinct 2-grams, the strategies in use or the entropy fall, or replies become more similar to each other.
- Gaming: one part of the reward rises while another falls; or replies grow far longer.
- Silence: the judge has not judged any output, for some steps in a row.

    alerts = Alerts()
    for line in metrics: words = alerts.see(line["step"], line)

`HeldOut` is for a second judge, on which the policy is not trained, so that over-optimisation shows. Every so many
steps the policy answers a set of held-out prompts, always the same ones with the same random numbers, and both judges
score the answers. While the policy really improves, both curves rise. When only the training judge's rises, the policy
has learnt what that judge likes. Scores are sums of the judged parts of the reward before equation 5, with the run's
weights. A prompt that either judge did not answer is counted and left out of both means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from statistics import fmean, stdev, variance
from typing import Any

import msgspec

from compeer.policy.composite import CompositeReward, Judging, RewardSettings, read_record, text_of
from compeer.reward.judge import PARTS
from compeer.typed import from_json

CERTAIN = 4.0  # standard errors
PART_BY = 0.25  # of a range from -1 to 1
SILENT = 3  # steps


class WatchedNumber(msgspec.Struct, frozen=True):
    """A metric that must not move far in one direction. `by`: share of the baseline, or if `absolute` a distance."""

    name: str
    shown: str
    rises: bool
    by: float
    advice: str
    absolute: bool = False


SIGNS = from_json(Path(__file__).with_name("alerts.json").read_bytes(), tuple[WatchedNumber, ...])


class Change(msgspec.Struct, frozen=True):
    """The change of a metric from a baseline to now, with the steps of both."""

    before: float
    now: float
    error: float
    steps: tuple[int, int]  # of the baseline
    recent: tuple[int, int]

    @property
    def by(self) -> float:
        return self.now - self.before

    @property
    def certain(self) -> bool:
        return abs(self.by) > CERTAIN * self.error

    def __str__(self) -> str:
        return f"from {self.before:.3g} (steps {_range(self.steps)}) to {self.now:.3g} (steps {_range(self.recent)})"


class Alerts:
    """Reads metrics step by step. `window` steps are compared with the `baseline` before them and the first ones."""

    def __init__(self, window: int = 10, baseline: int = 50) -> None:
        self.window, self.baseline = window, baseline
        self._values: dict[str, list[tuple[int, float]]] = {}
        self._silent = 0  # steps in a row without a judgement
        self._since: dict[str, int] = {}  # places in the list before which an alert has been given

    def see(self, step: int, numbers: Mapping[str, Any]) -> list[str]:
        """The alerts of this step."""
        for name, value in numbers.items():
            watched = name.startswith("part/") or any(name == sign.name for sign in SIGNS)
            if watched and isinstance(value, int | float) and math.isfinite(value):
                self._values.setdefault(name, []).append((step, float(value)))
        return [*self._collapse(), *self._hacking(), *self._silence(numbers.get("judge/unanswered"))]

    def changes(self, name: str) -> list[Change]:
        """The change of a metric to the last steps, from each baseline that is long enough."""
        values = self._values.get(name, [])[self._since.get(name, 0) :]
        recent, before = values[-self.window :], values[: -self.window]
        if len(recent) < self.window or len(before) < self.window:
            return []
        return [_change(base, recent) for base in (before[-self.baseline :], before[: self.window * 2])]

    def _collapse(self) -> list[str]:
        found = []
        for sign in SIGNS:
            towards = 1 if sign.rises else -1
            for change in self.changes(sign.name):
                limit = sign.by if sign.absolute else sign.by * abs(change.before)
                if change.certain and change.by * towards > limit:
                    self._restart(sign.name)
                    verb = "has risen" if sign.rises else "has fallen"
                    found.append(f"{sign.shown} {verb} {change}. {sign.advice}")
                    break
        return found

    def _hacking(self) -> list[str]:
        """Parts that drift apart: the largest rise with the largest fall."""
        drifts: dict[str, Change] = {}
        for name in self._values:
            if name.startswith("part/"):
                moved = [one for one in self.changes(name) if one.certain and abs(one.by) > PART_BY]
                if moved:
                    drifts[name] = max(moved, key=lambda one: abs(one.by))
        pairs = [(up, down) for up, down in permutations(drifts, 2) if drifts[up].by > 0 > drifts[down].by]
        if not pairs:
            return []
        up, down = max(pairs, key=lambda pair: drifts[pair[0]].by - drifts[pair[1]].by)
        for name in (up, down):
            self._restart(name)
        names = (up.removeprefix("part/"), down.removeprefix("part/"))
        return [
            f"Parts of the reward drift apart: {names[0]} has risen {drifts[up]}, {names[1]} has fallen "
            f"{drifts[down]}. The policy may be gaming {names[0]}: read samples.jsonl of these steps."
        ]

    def _silence(self, unanswered: float | None) -> list[str]:
        if unanswered is not None:
            self._silent = self._silent + 1 if unanswered >= 1 else 0
        if unanswered is None or self._silent != SILENT:
            return []
        return [
            f"The judge has not judged any output for {SILENT} steps in a row, and such steps have no gradient. The "
            "reason is in samples.jsonl under failure. The run continues and uses the judge as soon as it answers."
        ]

    def _restart(self, name: str) -> None:
        self._since[name] = len(self._values[name]) - self.window


def _change(before: Sequence[tuple[int, float]], now: Sequence[tuple[int, float]]) -> Change:
    first, second = [value for _, value in before], [value for _, value in now]
    squares = sum(variance(values) * (len(values) - 1) for values in (first, second))
    pooled = squares / (len(first) + len(second) - 2)  # a window alone is too short to tell its own spread
    error = math.sqrt(pooled * (1 / len(first) + 1 / len(second)))
    return Change(fmean(first), fmean(second), error, (before[0][0], before[-1][0]), (now[0][0], now[-1][0]))


def _range(steps: tuple[int, int]) -> str:
    return f"{steps[0]} to {steps[1]}"


GAP = 0.5  # of a scale from -5 to 5
CERTAIN_GAP = 2.0  # standard errors


class Answered(msgspec.Struct):
    """A held-out prompt, what the policy wrote, and what the two judges gave it."""

    id: str
    output: str
    training: float | None
    second: float | None


class HeldOut:
    """Collects the answers of one evaluation and compares the judges on them."""

    def __init__(self, training: Judging | None, second: Judging, settings: RewardSettings = RewardSettings()) -> None:
        weights = {name: value for name, value in settings.weights.items() if name in PARTS}
        judged = msgspec.structs.replace(settings, reweight=False, weights=weights)
        self._rewards = [CompositeReward(judge, settings=judged) for judge in (training, second)]
        self.answers: list[Answered] = []
        self._first: Mapping[str, float] | None = None

    def begin(self) -> None:
        self.answers = []

    def score(self, prompt_record: Sequence[str], completions: Sequence[Any]) -> list[float]:
        """Both judges on a batch; returns the training judge's scores."""
        records = list(map(read_record, prompt_record))
        groups = [(record, [text_of(one)]) for record, one in zip(records, completions, strict=True)]
        training, second = (reward.score(groups) for reward in self._rewards)
        for record, *rows in zip(records, training, second, strict=True):
            totals = [row.total if row.failure is None else None for row in rows]
            self.answers.append(Answered(record.id, rows[0].output, *totals))
        return [row.total for row in training]

    def compare(self, gather: Callable[[list[Answered]], list[Answered]] = lambda rows: rows) -> dict[str, float]:
        """Both means over all processes, the gap between them and its standard error."""
        rows = {row.id: row for row in gather(self.answers)}  # a prompt may fill up a batch twice
        pairs = [(row.training, row.second) for row in rows.values()]
        both = [(one, two) for one, two in pairs if one is not None and two is not None]
        found = {"judge/unanswered": 1 - len(both) / len(pairs) if pairs else 0.0}
        if not both:
            return found
        gaps = [one - two for one, two in both]
        return found | {
            "judge/training": fmean(one for one, _ in both),
            "judge/second": fmean(two for _, two in both),
            "judge/gap": fmean(gaps),
            "judge/gap_error": stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0,
        }

    def see(self, step: int, found: Mapping[str, float]) -> list[str]:
        """An alert when the two judges have moved apart since the first evaluation."""
        if "judge/gap" not in found:
            return []
        if self._first is None:
            self._first = {"step": step, **found}
            return []
        first = self._first
        by = found["judge/gap"] - first["judge/gap"]
        error = math.hypot(found["judge/gap_error"], first["judge/gap_error"])
        rose = found["judge/training"] > first["judge/training"]
        if not rose or by < GAP or by < CERTAIN_GAP * error:
            return []
        self._first = {"step": step, **found}  # again only when it gets worse
        return [
            f"The two judges disagree. Since step {first['step']:g} the training judge's mean on held-out prompts went "
            f"from {first['judge/training']:.2f} to {found['judge/training']:.2f}, the second judge's from "
            f"{first['judge/second']:.2f} to {found['judge/second']:.2f}: the policy learns what its judge likes, "
            "not what is good. Stop here, or use an earlier checkpoint."
        ]

    def recall(self, metrics: Sequence[Mapping[str, Any]]) -> None:
        """Read the earlier evaluations of a resumed run."""
        for line in metrics:
            found = {
                name.removeprefix("eval_"): value for name, value in line.items() if name.startswith("eval_judge/")
            }
            self.see(int(line.get("step", 0)), found)
