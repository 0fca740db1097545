"""The reward of whole conversations: the judge on every turn, the seeker's mood at the end, or both.

A weighted sum of two parts, each from -1 to 1:

- the judge: every turn of the supporter is judged as it was said, with the history up to there, and the mean over the
  turns is taken. The first turn is what single-turn training judges, with the corpus's reply to compare with and
  equation 5 over the group. Later turns answer words that only this conversation holds: they are judged without a
  comparison, and in equation 5 only their likeness to the history counts. Each turn is divided by what it could have
  earned, so that a long conversation earns neither more nor less for being long;
- the emotion: where the seeker's mood ended between lost and content (`emotion.relief`).

A turn that is no complete output counts as a lost seeker: breaking the format must not be a way out of a conversation
that goes badly. Where a seeker never reacted the row earns the mean of its group, as with a silent judge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.policy.composite import Asked, CompositeReward
from compeer.policy.talk.conversation import Talk, summary
from compeer.policy.talk.emotion import SAGE, Rules
from compeer.reward.judge import PARTS
from compeer.typed import from_json


class Weights(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the two parts count for. A judge of weight 0 is not asked; the format is still looked at, for the log."""

    judge: float = 1.0
    emotion: float = 1.0

    def __post_init__(self) -> None:
        if self.judge == 0 and self.emotion == 0:
            raise UserError("The reward of a conversation has two parts, judge and emotion; both weights are 0.")


class TalkReward:
    """In TRL's signature; the column `talk` is what the rollout adds to each row."""

    __name__ = "reward"

    def __init__(self, composite: CompositeReward, weights: Weights = Weights(), rules: Rules = SAGE) -> None:
        self.composite, self.weights, self.rules = composite, weights, rules
        if not weights.judge and composite.settings.source != "rules":
            rules_only = msgspec.structs.replace(composite.settings, source="rules")
            self.composite = CompositeReward(None, composite.embedder, rules_only, group=composite.group)
            self.composite.on_scored = lambda scored: composite.on_scored(scored) if composite.on_scored else None
        alone = msgspec.structs.replace(
            self.composite.settings, weights=composite.settings.weights | {"preference": 0.0}
        )
        self._later = CompositeReward(self.composite.judge, composite.embedder, alone)

    def __call__(
        self,
        prompts: Any = None,
        completions: Sequence[Any] = (),
        asked: Sequence[str] = (),
        talk: Sequence[str] = (),
        *,
        log_metric: Callable[[str, float], None] | None = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        **columns: Any,
    ) -> list[float]:
        talks = [from_json(one, Talk) for one in talk]
        if not len(talks) == len(asked) == len(completions):
            raise UserError(
                f"{len(completions)} outputs came with {len(talks)} conversations and {len(asked)} rows of `asked`."
            )
        parts = {
            "judge": self._judged(talks, asked, log_metric=log_metric, log_extra=log_extra),
            "emotion": _filled([one.relief(self.rules) for one in talks], asked),
        }
        for name, values in parts.items():
            if log_metric:
                log_metric(f"talk/{name}", sum(values) / max(1, len(values)))
        if log_metric:
            for name, value in summary(talks).items():
                log_metric(name, value)
        pairs = zip(parts["judge"], parts["emotion"], strict=True)
        return [self.weights.judge * judge + self.weights.emotion * emotion for judge, emotion in pairs]

    def _judged(self, talks: list[Talk], asked: Sequence[str], **logging: Any) -> list[float]:
        """The mean over each conversation's turns, as shares of what a turn can earn."""
        first = self.composite(None, [one.exchanges[0].output for one in talks], asked, **logging)
        earned = [[reward / _most(self.composite)] for reward in first]
        later = [(row, turn) for row, one in enumerate(talks) for turn in range(1, len(one.exchanges))]
        groups = [(_moment(talks[row], turn, asked[row]), [talks[row].exchanges[turn].output]) for row, turn in later]
        for (row, _), scored in zip(later, self._later.score(groups) if groups else [], strict=True):
            if scored.failure is None:
                earned[row].append(scored.reward / _most(self._later))
        return [sum(shares) / len(shares) for shares in earned]


def _moment(talk: Talk, turn: int, asked: str) -> Asked:
    """What a later turn answered."""
    name = from_json(asked, Asked).id
    return Asked(f"{name}/turn-{turn + 1}", talk.language, tuple(talk.said(turn)), "")


def _most(composite: CompositeReward) -> float:
    """What a turn can earn: the sum of the weights."""
    names = dict.fromkeys([*PARTS, *composite.settings.weights])
    return sum(abs(composite.settings.weight(name)) for name in names) or 1.0


def _filled(values: Sequence[float | None], asked: Sequence[str]) -> list[float]:
    """The group's mean where there is no value; 0 where the whole group has none."""
    filled: list[float] = []
    for _, rows in groupby(zip(asked, values, strict=True), lambda row: row[0]):
        group = [value for _, value in rows]
        known = [value for value in group if value is not None]
        mean = sum(known) / len(known) if known else 0.0
        filled += [mean if value is None else value for value in group]
    return filled
