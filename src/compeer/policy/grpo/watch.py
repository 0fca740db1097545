"""Watching a policy learn: every step in numbers and in samples.

`WatchedReward` wraps the reward. After each call it brings the rows of all processes together, saves some of them with
every part of their reward to samples.jsonl, and logs what a mean reward does not show: how different the replies are,
how long, why outputs are incomplete, what became of the judge. Numbers over all outputs of a step are taken over all
processes, so that two processes report what one would.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from compeer.policy.advantage import zero_variance
from compeer.policy.composite import CompositeReward, Scored, read_record
from compeer.policy.diversity import Likeness, distinct, in_use, likeness, mean_likeness
from compeer.policy.grpo.alerts import HeldOut
from compeer.reasoning.ontology import Language, words
from compeer.training.run import Run

Gather = Callable[[list[Any]], list[Any]]
#: of everything that is logged, what a person looks at first: in the figure
FIGURE = ("reward", "eval_judge/training", "eval_judge/second", "part/history", "part/emotion", "part/strategy",
          "part/preference", "part/format", "diversity/distinct_2", "diversity/self_similarity", "diversity/strategies",
          "entropy", "length/reply_words")  # fmt: skip


class Share(msgspec.Struct):
    """The rows and counts of one process in a step."""

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
        """Within this block, outputs are answers to held-out prompts, and two judges score them."""
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
            scores = self._held.score(prompt_record, [_first(talk) for talk in talks] if talks else completions)
            self._save_held(trainer_state.global_step, prompt_record)
            return scores
        self._rows.clear()
        rewards = self.reward(
            completions=completions,
            prompt_record=prompt_record,
            trainer_state=trainer_state,
            log_metric=log_metric,
            **columns,
        )
        began, embedding = time.perf_counter(), self.composite.embedder.seconds
        spoken = [read_record(row).language for row in prompt_record]
        shares: list[Share] = self.gather([self._share(spoken)])
        if self.run is None or self.run.main:
            for name, value in numbers(shares, self.composite.group or 1).items():
                log_metric(name, value)
            if self.run is not None:
                step = trainer_state.global_step + 1
                prompts = _prompts(prompt_record)
                for row in chosen([row for share in shares for row in share.rows], self.samples):
                    asked = row.id.rpartition("/")[0]  # an output's id is its prompt's and its place in the group
                    about = {"prompt_id": asked, "prompt": prompts.get(asked, [])}
                    self.run.sample({"step": step, **msgspec.to_builtins(row), **about})
        self.seconds += time.perf_counter() - began - (self.composite.embedder.seconds - embedding)
        return rewards

    def _save_held(self, step: int, prompt_record: Sequence[str]) -> None:
        """Answers to the first held-out prompts as samples: the same prompts each time show how the policy changes."""
        if self.run is None or not self.run.main or self._held is None:
            return
        prompts = _prompts(prompt_record)
        for row in self._held.answers[: self.samples]:
            if row.id in prompts:  # of this batch
                said = {"output": row.output, "reward": row.training, "prompt": prompts[row.id]}
                self.run.sample({"step": step, "id": row.id, "prompt_id": row.id, "held_out": True, **said})

    def _share(self, spoken: Sequence[Language]) -> Share:
        rows = list(self._rows)
        texts: dict[Language, list[str]] = {}
        for row, language in zip(rows, spoken, strict=False):
            texts.setdefault(language, []).append(row.reply)
        likenesses: dict[str, Likeness] = {
            language: likeness(replies, self.composite.embedder(language)) for language, replies in texts.items()
        }
        known = self._known()
        new = {name: value - self._before.get(name, 0.0) for name, value in known.items()}
        self._before = known
        judge = {name: value for name, value in new.items() if name.startswith("judge/")}
        return Share(rows, likenesses, judge, {name: value for name, value in new.items() if name not in judge})

    def _known(self) -> dict[str, float]:
        """Totals since the start: the judge's counts, and seconds by purpose."""
        spent = self.composite.seconds | {"embedder": self.composite.embedder.seconds, "watching": self.seconds}
        known = {f"seconds/{name}": value for name, value in spent.items()}
        counts = getattr(self.composite.judge, "counts", None)
        if counts is None:
            return known
        for name in ("cases", "retried", "recovered", "outages"):
            known[f"judge/{name}"] = float(getattr(counts, name))
        return known | {f"judge/failed/{kind}": float(count) for kind, count in counts.failed.items()}


def _prompts(records: Sequence[str]) -> dict[str, list[dict[str, str]]]:
    """The histories of these prompts by id, as plain values."""
    rows = [read_record(row) for row in records]
    return {row.id: [{"speaker": turn.speaker, "text": turn.text} for turn in row.history] for row in rows}


def _first(talk: str) -> str:
    said: str = msgspec.json.decode(talk)["exchanges"][0]["output"]
    return said


def numbers(shares: Sequence[Share], group: int) -> dict[str, float]:
    """The metrics of a step, besides the means that the reward logs itself."""
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


def chosen(rows: Sequence[Scored], most: int) -> list[Scored]:
    """The first `most` rows. The last is replaced by a row that the judge did not answer, so that an outage shows."""
    kept = list(rows[:most])
    failed = next((row for row in rows[most:] if row.failure is not None), None)
    if kept and failed is not None and all(row.failure is None for row in kept):
        kept[-1] = failed
    return kept
