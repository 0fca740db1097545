"""Watching a policy learn: what each step's outputs were like, in numbers, in samples and in a line of curves.

`WatchedReward` stands around the reward. After each call it brings the rows of all processes together, writes some of
them with every part of their reward to samples.jsonl, and logs what a mean reward does not show: how different the
replies are, how long, why outputs are incomplete, what became of the judge. Numbers over all outputs of a step are
taken over all processes, so that two processes report what one would.

Alerts, in words, from the numbers of a run: collapse, and rewards that are being gamed.

The last steps are held against two baselines, the steps before them and the first ones, so that a sudden fall and a
slow one are both seen. A change counts when it is large *and* more than chance: four standard errors, because every
step is another chance to be wrong. After an alert its baseline begins anew, so the same words come again only when it
gets worse still.

- Collapse: distinct 2-grams, the strategies in use or the entropy fall, or replies become more like each other.
- Hacking: one part of the reward rises while another falls; or replies grow far longer.
- Silence: the judge has left every output open, for some steps in a row.

    alerts = Alerts()
    for line in metrics: words = alerts.see(line["step"], line)

A second judge, on which the policy is not trained, so that over-optimisation shows.

Every so many steps the policy answers a set of held-out prompts, always the same ones with the same random numbers,
and both judges score the answers. While the policy really gets better, both curves rise. When only the training
judge's rises, the policy has learnt what that judge likes; then there is an alert, in words.

Scores are sums of the reward's parts before equation 5, with the run's weights. A prompt that either judge left open
is counted and left out of both means.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from typing import Any

import msgspec
import numpy as np

from compeer.models.embedding import Embedder
from compeer.policy.advantage import zero_variance
from compeer.policy.composite import CompositeReward, Judging, PromptRecord, RewardSettings, Scored, text_of
from compeer.policy.diversity import distinct, in_use
from compeer.reasoning import parse
from compeer.reasoning.ontology import Language, words
from compeer.reward.case import Case, case_of_parsed
from compeer.reward.judge import Judgement
from compeer.training.run import Run
from compeer.typed import from_json

CERTAIN = 4.0  # standard errors
PART_BY = 0.25  # of a range from -1 to 1
SILENT = 3  # steps


class Sign(msgspec.Struct, frozen=True):
    """A number that must not move far one way. `by` is a share of the baseline, or a distance where `absolute`."""

    name: str
    shown: str
    rises: bool
    by: float
    advice: str
    absolute: bool = False


_ALIKE = "Replies are becoming alike: raise reward.tau_scale, lower the learning rate, or stop and take a checkpoint."
SIGNS = (
    Sign("diversity/distinct_2", "The share of different word pairs in the replies", False, 0.25, _ALIKE),
    Sign("diversity/self_similarity", "The likeness of the replies to each other", True, 0.15, _ALIKE, absolute=True),
    Sign(
        "diversity/strategies",
        "The number of strategies in use",
        False,
        0.4,
        "It settles on few of them, whatever the person says: raise kl, or take the mean of several seeds.",
    ),
    Sign("entropy", "The entropy of the policy", False, 0.5, "It is losing the variety that it learns from."),
    Sign(
        "length/reply_words",
        "The length of the replies in words",
        True,
        1.0,
        "Does the reward pay for length? Read samples.jsonl.",
    ),
)


class Change(msgspec.Struct, frozen=True):
    """From a baseline to now, with the steps of each."""

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
    """Sees the numbers step by step. `window` steps are compared with the `baseline` before them and the first."""

    def __init__(self, window: int = 10, baseline: int = 50) -> None:
        self.window, self.baseline = window, baseline
        self._values: dict[str, list[tuple[int, float]]] = {}
        self._silent = 0  # steps in a row without a judgement
        self._since: dict[str, int] = {}  # places in the list before which an alert has been given

    def see(self, step: int, numbers: Mapping[str, Any]) -> list[str]:
        """The alerts that this step gives cause for."""
        for name, value in numbers.items():
            watched = name.startswith("part/") or any(name == sign.name for sign in SIGNS)
            if watched and isinstance(value, int | float) and math.isfinite(value):
                self._values.setdefault(name, []).append((step, float(value)))
        return [*self._collapse(), *self._hacking(), *self._silence(numbers.get("judge/unanswered"))]

    def changes(self, name: str) -> list[Change]:
        """The last steps against each baseline that is long enough."""
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
            f"The judge has left every output open for {SILENT} steps in a row, and such steps have no gradient. Why "
            "stands in samples.jsonl under failure; the run goes on and uses it again as soon as it answers."
        ]

    def _restart(self, name: str) -> None:
        self._since[name] = len(self._values[name]) - self.window


def _change(before: Sequence[tuple[int, float]], now: Sequence[tuple[int, float]]) -> Change:
    first, second = [value for _, value in before], [value for _, value in now]
    freedom = len(first) + len(second) - 2
    pooled = (_squares(first) + _squares(second)) / freedom  # a window alone is too short to tell its own spread
    error = math.sqrt(pooled * (1 / len(first) + 1 / len(second)))
    return Change(_mean(first), _mean(second), error, (before[0][0], before[-1][0]), (now[0][0], now[-1][0]))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _squares(values: Sequence[float]) -> float:
    middle = _mean(values)
    return sum((value - middle) ** 2 for value in values)


def _range(steps: tuple[int, int]) -> str:
    return f"{steps[0]} to {steps[1]}"


APART = 0.5  # of a scale from -5 to 5
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
        self.training, self.second, self.settings = training, second, settings
        self.answers: list[Answered] = []
        self._first: Mapping[str, float] | None = None

    def begin(self) -> None:
        self.answers = []

    def score(self, prompt_record: Sequence[str], completions: Sequence[Any]) -> list[float]:
        """Both judges on a batch; the training judge's scores, which is what a trainer wants to know."""
        cases = []
        for row, completion in zip(prompt_record, completions, strict=True):
            known = from_json(row, PromptRecord)
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
        if not rose or by < APART or by < CERTAIN_GAP * error:
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


Gather = Callable[[list[Any]], list[Any]]
#: of everything that is logged, what a person looks at first: in the terminal's curves and in the figure
SHOWN = {
    "reward": "reward",
    "diversity/distinct_2": "distinct-2",
    "diversity/self_similarity": "self-similarity",
    "diversity/strategies": "strategies",
    "entropy": "entropy",
    "length/reply_words": "words",
    "format/incomplete": "incomplete",
}
FIGURE = ("reward", "eval_judge/training", "eval_judge/second", "part/history", "part/emotion", "part/strategy",
          "part/preference", "part/format", "diversity/distinct_2", "diversity/self_similarity", "diversity/strategies",
          "entropy", "length/reply_words")  # fmt: skip
_BARS = "▁▂▃▄▅▆▇█"


class Likeness(msgspec.Struct):
    """A sum of unit vectors: enough for the mean cosine of all pairs, and it adds up over processes."""

    count: int
    sum: list[float]


class Share(msgspec.Struct):
    """What one process knows of a step."""

    rows: list[Scored]
    likeness: dict[str, Likeness]  # by language: vectors of two embedders do not add up
    judge: dict[str, float]
    seconds: dict[str, float]


class WatchedReward:
    """A reward function in TRL's signature, with everything that is watched. `reward` may be more than `composite`."""

    __name__ = "reward"

    def __init__(
        self,
        composite: CompositeReward,
        run: Run | None = None,
        *,
        reward: Callable[..., list[float]] | None = None,
        samples: int = 8,
        gather: Gather = lambda rows: rows,
    ) -> None:
        self.composite, self.run, self.samples, self.gather = composite, run, samples, gather
        self.reward = reward or composite
        self.seconds = 0.0  # of the watching itself
        self._rows: list[Scored] = []
        self._before: dict[str, float] = {}
        self._held: HeldOut | None = None
        composite.on_scored = self._rows.extend

    @contextlib.contextmanager
    def held(self, out: HeldOut) -> Iterator[None]:
        """While this lasts, outputs are answers to held-out prompts, and two judges score them."""
        self._held = out
        try:
            yield
        finally:
            self._held = None

    def __call__(
        self,
        *,
        completions: Sequence[Any],
        prompt_record: Sequence[str],
        trainer_state: Any,
        log_metric: Callable[[str, float], None],
        **columns: Any,
    ) -> list[float]:
        if self._held is not None:
            talks = columns.get("talk")  # of conversations the first answer is what a single output is
            return self._held.score(prompt_record, [_first(talk) for talk in talks] if talks else completions)
        self._rows.clear()
        rewards = self.reward(
            completions=completions,
            prompt_record=prompt_record,
            trainer_state=trainer_state,
            log_metric=log_metric,
            **columns,
        )
        began, embedding = time.perf_counter(), self.composite.embedder.seconds
        spoken = [from_json(row, _Spoken).language for row in prompt_record]
        shares: list[Share] = self.gather([self._share(spoken)])
        if self.run is None or self.run.main:
            for name, value in numbers(shares, self.composite.group or 1).items():
                log_metric(name, value)
            if self.run is not None:
                step = trainer_state.global_step + 1
                for row in chosen([row for share in shares for row in share.rows], self.samples):
                    self.run.sample({"step": step, **msgspec.to_builtins(row)})
        self.seconds += time.perf_counter() - began - (self.composite.embedder.seconds - embedding)
        return rewards

    def _share(self, spoken: Sequence[Language]) -> Share:
        rows = list(self._rows)
        texts: dict[Language, list[str]] = {}
        for row, language in zip(rows, spoken, strict=False):
            texts.setdefault(language, []).append(row.reply)
        likenesses: dict[str, Likeness] = {
            language: likeness(replies, self.composite.embedder, language) for language, replies in texts.items()
        }
        known = self._known()
        new = {name: value - self._before.get(name, 0.0) for name, value in known.items()}
        self._before = known
        judge = {name: value for name, value in new.items() if name.startswith("judge/")}
        return Share(rows, likenesses, judge, {name: value for name, value in new.items() if name not in judge})

    def _known(self) -> dict[str, float]:
        """Everything that only grows: the judge's counts, and where the time went."""
        spent = self.composite.seconds | {"embedder": self.composite.embedder.seconds, "watching": self.seconds}
        known = {f"seconds/{name}": value for name, value in spent.items()}
        counts = getattr(self.composite.judge, "counts", None)
        if counts is None:
            return known
        for name in ("cases", "retried", "recovered", "outages"):
            known[f"judge/{name}"] = float(getattr(counts, name))
        return known | {f"judge/failed/{kind}": float(count) for kind, count in counts.failed.items()}


class _Spoken(msgspec.Struct):
    """The one field of `PromptRecord` that is needed here."""

    language: Language


def _first(talk: str) -> str:
    said: str = msgspec.json.decode(talk)["exchanges"][0]["output"]
    return said


def numbers(shares: Sequence[Share], group: int) -> dict[str, float]:
    """What is logged of a step, beyond the means that the reward logs itself."""
    rows = [row for share in shares for row in share.rows]
    if not rows:
        return {}
    replies = [row.reply for row in rows]
    problems = Counter(code for row in rows for code in set(row.problems))
    found = {
        **{f"diversity/distinct_{n}": distinct(replies, n) for n in (1, 2, 3)},
        "diversity/self_similarity": mean_likeness([one for share in shares for one in share.likeness.items()]),
        "diversity/strategies": in_use(row.strategy for row in rows if row.strategy),
        "length/reply_words": sum(len(words(reply)) for reply in replies) / len(replies),
        "length/output_words": sum(len(words(row.output)) for row in rows) / len(rows),
        "groups/zero_variance": zero_variance([row.reward for row in rows], group if len(rows) % group == 0 else 1),
        **{f"problem/{code}": count / len(rows) for code, count in sorted(problems.items())},
    }
    for name in sorted({name for share in shares for name in share.judge}):
        found[name] = sum(share.judge.get(name, 0.0) for share in shares)
    for name in sorted({name for share in shares for name in share.seconds}):
        found[name] = sum(share.seconds.get(name, 0.0) for share in shares) / len(shares)
    return found


def likeness(replies: Sequence[str], embedder: Embedder, language: Language) -> Likeness:
    """The sum of the replies' unit vectors; empty ones are like nothing."""
    present = [reply for reply in replies if reply.strip()]
    if not present:
        return Likeness(0, [])
    vectors = np.asarray(embedder(language)(present), dtype=np.float64)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return Likeness(len(present), vectors.sum(axis=0).tolist())


def mean_likeness(parts: Sequence[tuple[str, Likeness]]) -> float:
    """The mean cosine of all pairs of one language, over the languages by their number of pairs."""
    sums: dict[str, tuple[int, Any]] = {}
    for language, part in parts:
        if part.count:
            count, vector = sums.get(language, (0, 0.0))
            sums[language] = (count + part.count, vector + np.asarray(part.sum))
    pairs = sum(count * (count - 1) for count, _ in sums.values())
    whole = sum(float(np.square(vector).sum()) - count for count, vector in sums.values())
    return whole / pairs if pairs else 0.0


def chosen(rows: Sequence[Scored], most: int) -> list[Scored]:
    """Rows to keep: the first ones, and one that the judge left open, so that an outage shows."""
    kept = list(rows[:most])
    failed = next((row for row in rows[most:] if row.failure is not None), None)
    if kept and failed is not None and all(row.failure is None for row in kept):
        kept[-1] = failed
    return kept


def curves(metrics: Sequence[Mapping[str, Any]], width: int = 12) -> str:
    """The run so far in one line.

    >>> curves([{"reward": value} for value in (0.0, 1.0, 4.0)])
    'reward ▁▂█ 4'
    """
    told = []
    for name, shown in SHOWN.items():
        values = [float(line[name]) for line in metrics if isinstance(line.get(name), int | float)]
        if values:
            told.append(f"{shown} {spark(values, width)} {values[-1]:.3g}")
    return "  ".join(told)


def spark(values: Sequence[float], width: int) -> str:
    """Values as bars, averaged down to the width."""
    if len(values) > width:
        edges = [round(place * len(values) / width) for place in range(width + 1)]
        values = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(values), max(values)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[int((value - low) * scale)] for value in values)
