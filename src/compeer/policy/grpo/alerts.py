"""Alerts, in words, from the numbers of a run: collapse, and rewards that are being gamed.

The last steps are held against two baselines, the steps before them and the first ones, so that a sudden fall and a
slow one are both seen. A change counts when it is large *and* more than chance: four standard errors, because every
step is another chance to be wrong. After an alert its baseline begins anew, so the same words come again only when it
gets worse still.

- Collapse: distinct 2-grams, the strategies in use or the entropy fall, or replies become more like each other.
- Hacking: one part of the reward rises while another falls; or replies grow far longer.
- Silence: the judge has left every output open, for some steps in a row.

    alerts = Alerts()
    for line in metrics: words = alerts.see(line["step"], line)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import msgspec

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
