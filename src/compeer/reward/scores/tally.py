"""What many judgements come to: means of the reward's parts, what was not judged and why, and the sway of places.

A judge that reads the replies prefers the same one in whichever order they are shown. Where both orders were asked,
`Places` says how often the verdict hung on the order, and how often the first place won among the showings in which
one place won: without a bias that is one half, since every reply stood in both places. Intervals are Wilson's, 95 %.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from compeer.reward.judge import PARTS, Judgement
from compeer.reward.service.wire import Scored, failure_kind
from compeer.reward.verdict import choice_of


class Share(msgspec.Struct, frozen=True):
    """So many of so many, and the interval in which the true share lies."""

    count: int
    of: int
    share: float
    low: float
    high: float


class Places(msgspec.Struct, frozen=True):
    """How far the place of a reply sways the judge; only from pairs that were judged in both orders."""

    swayed: Share  # of pairs
    first_won: Share  # of showings in which one place won


class Summary(msgspec.Struct, kw_only=True):
    """What a scoring came to. Means are over what was judged."""

    out: str = ""
    judge: str = ""
    identity: dict[str, Any] = {}
    orders: str = "one"
    items: int = 0
    judged: int = 0
    unjudged: dict[str, int] = {}
    examples: dict[str, str] = {}  # of what was not judged, one for each kind
    rejected: dict[str, int] = {}
    means: dict[str, float] = {}
    totals: dict[int, int] = {}
    tokens: int = 0
    places: Places | None = None


class Tally:
    """Takes rows one at a time, and holds no more than their sums."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys((*PARTS, "total"), 0.0)
        self._totals = dict.fromkeys(range(-5, 6), 0)
        self._unjudged: dict[str, int] = {}
        self._examples: dict[str, str] = {}
        self._judged = self._tokens = 0
        self._pairs = self._swayed = self._won = self._first = 0

    def take(self, row: Scored) -> None:
        judgement = row.judgement
        self._tokens += judgement.tokens
        if judgement.failure is not None or row.parts is None or row.total is None:
            kind = failure_kind(judgement.failure or "judge: no parts")
            self._unjudged[kind] = self._unjudged.get(kind, 0) + 1
            self._examples.setdefault(kind, judgement.failure or "")
            return
        self._judged += 1
        self._totals[row.total] += 1
        for part, value in [*row.parts.items(), ("total", float(row.total))]:
            self._sums[part] += value
        self._take_places(judgement)

    def _take_places(self, judgement: Judgement) -> None:
        if judgement.swayed is None:
            return
        self._pairs += 1
        self._swayed += judgement.swayed
        for pair in judgement.pairs:
            if pair.preference in ("candidate", "reference"):
                self._won += 1
                self._first += choice_of(pair.preference, pair.candidate_first) == "first"

    def summary(self, **known: Any) -> Summary:
        """The figures so far, with what the caller knows besides."""
        places = Places(share(self._swayed, self._pairs), share(self._first, self._won)) if self._pairs else None
        means = {part: round(value / self._judged, 6) for part, value in self._sums.items()} if self._judged else {}
        return Summary(
            judged=self._judged,
            unjudged=dict(self._unjudged),
            examples=dict(self._examples),
            means=means,
            totals={total: count for total, count in self._totals.items() if count},
            tokens=self._tokens,
            places=places,
            **known,
        )


def share(count: int, of: int) -> Share:
    """The share with Wilson's interval; of nothing, anything is possible.

    >>> share(5, 10).low < 0.5 < share(5, 10).high, share(0, 0).high
    (True, 1.0)
    """
    if of == 0:
        return Share(0, 0, 0.0, 0.0, 1.0)
    z = 1.959964
    rate = count / of
    middle = rate + z * z / (2 * of)
    half = z * math.sqrt(rate * (1 - rate) / of + z * z / (4 * of * of))
    whole = 1 + z * z / of
    low, high = max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)
    return Share(count, of, round(rate, 6), round(low, 6), round(high, 6))


def lines(summary: Summary) -> list[str]:
    """The summary for people."""
    told = [f"{summary.judged:,} of {summary.items:,} items judged by {summary.judge}, written to {summary.out}"]
    told += [
        f"  not judged {count:,}: {kind} ({summary.examples[kind][:160]})" for kind, count in summary.unjudged.items()
    ]
    told += [f"  rejected {count:,}: {reason}" for reason, count in summary.rejected.items() if reason != "no-answer"]
    if summary.means:
        told.append("  mean " + ", ".join(f"{part} {value:+.3f}" for part, value in summary.means.items()))
    if summary.places is not None:
        swayed, first = summary.places.swayed, summary.places.first_won
        told.append(f"  the order swayed {_percent(swayed)} of {swayed.of:,} pairs; without a sway it is 0")
        told.append(f"  the first place won {_percent(first)} of {first.of:,} showings; without a bias it is 50 %")
    return told


def _percent(share: Share) -> str:
    return f"{share.share:.1%} (95 % interval {share.low:.1%} to {share.high:.1%})"
