"""What is in a corpus: counts in one pass, and a figure of them.

Memory does not grow with the corpus: numbers are kept as histograms of bounded size, names (licences, sources,
problems) in tables that stop taking new ones at a limit and count the rest together under "(more)".

Lengths are in words for English and in characters for Chinese (a Latin word inside Chinese text counts as one),
the measure equation 7 uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from compeer.corpora.records import count
from compeer.dialogue import Dialogue, rounds
from compeer.plotting import ACCENT, INK, QUIET, WARM, drawing, frame
from compeer.reasoning.ontology import words

_LIMIT = 200


class Spread(msgspec.Struct):
    """The distribution of a number: count, mean, extremes, and a histogram of at most 200 bins."""

    width: int = 1
    count: int = 0
    total: int = 0
    least: int = 0
    most: int = 0
    bins: dict[int, int] = {}  # lower edge of the bin -> how many; the last bin is open

    def add(self, value: int) -> None:
        self.least = value if self.count == 0 else min(self.least, value)
        self.most = max(self.most, value)
        self.count += 1
        self.total += value
        edge = min(value // self.width, _LIMIT - 1) * self.width
        self.bins[edge] = self.bins.get(edge, 0) + 1

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0


class Statistics(msgspec.Struct):
    dialogues: int = 0
    utterances: int = 0
    rounds: Spread = msgspec.field(default_factory=Spread)
    languages: dict[str, int] = {}
    sources: dict[str, int] = {}
    licences: dict[str, int] = {}
    problems: dict[str, int] = {}
    strategies: dict[str, int] = {}  # by supporter utterance
    unmapped_strategies: dict[str, int] = {}
    emotions: dict[str, int] = {}  # the seeker's, at the start, by dialogue
    utterance_emotions: dict[str, int] = {}  # the seeker's, by seeker utterance
    lengths: dict[str, dict[str, Spread]] = {}  # language -> speaker -> words or characters an utterance
    crises: int = 0
    unhelpful: int = 0
    images: int = 0
    described: int = 0  # utterances with what is seen, in words
    reasoned: int = 0  # utterances with written reasoning

    def add(self, dialogue: Dialogue) -> None:
        self.dialogues += 1
        self.utterances += len(dialogue.utterances)
        self.rounds.add(len(rounds(dialogue)))
        for table, key in (
            (self.languages, dialogue.language),
            (self.sources, dialogue.source),
            (self.licences, dialogue.licence),
            (self.problems, dialogue.problem),
            (self.emotions, dialogue.emotion),
        ):
            if key is not None:
                count(table, key, most=_LIMIT)
        unmapped = dialogue.extra.get("unmapped_strategies")
        for name, times in (unmapped if isinstance(unmapped, dict) else {}).items():
            count(self.unmapped_strategies, name, times if isinstance(times, int) else 1, most=_LIMIT)
        self.crises += dialogue.crisis
        self.unhelpful += dialogue.helpful is False
        by_speaker = self.lengths.setdefault(dialogue.language, {})
        for one in dialogue.utterances:
            by_speaker.setdefault(one.speaker, Spread(width=4)).add(len(words(one.text)))
            table = self.strategies if one.speaker == "supporter" else self.utterance_emotions
            if label := one.strategy if one.speaker == "supporter" else one.emotion:
                count(table, label, most=_LIMIT)
            self.images += len(one.images)
            self.described += one.seen is not None
            self.reasoned += one.reasoning is not None

    def to_dict(self) -> dict[str, Any]:
        """Plain data for --json, with the means written out and tables by falling count."""
        plain: dict[str, Any] = msgspec.to_builtins(self, str_keys=True)
        for key, table in plain.items():
            if isinstance(table, dict) and key not in ("rounds", "lengths"):
                plain[key] = dict(sorted(table.items(), key=lambda item: -item[1]))
        plain["rounds"]["mean"] = round(self.rounds.mean, 2)
        for language, speakers in self.lengths.items():
            for speaker, spread in speakers.items():
                plain["lengths"][language][speaker]["mean"] = round(spread.mean, 2)
        return plain


def collect(dialogues: Iterable[Dialogue]) -> Statistics:
    statistics = Statistics()
    for dialogue in dialogues:
        statistics.add(dialogue)
    return statistics


_MOST_BARS = 10


def draw(statistics: Statistics, path: Path) -> None:
    """Write a figure of a corpus to `path`, .png or .svg: rounds, strategies, emotions, lengths."""
    with drawing(path, 11, 7.6) as figure:
        (top_left, top_right), (bottom_left, bottom_right) = figure.subplots(2, 2)
        figure.suptitle(_title(statistics), fontsize=13, color=INK, x=0.02, ha="left")
        _rounds(top_left, statistics.rounds)
        _bars(top_right, statistics.strategies, "Strategies", "supporter utterances", ACCENT)
        if statistics.utterance_emotions:
            _bars(bottom_left, statistics.utterance_emotions, "Emotions", "seeker utterances", WARM)
        else:
            _bars(bottom_left, statistics.emotions, "Emotions", "dialogues", WARM)
        _lengths(bottom_right, statistics)


def _title(statistics: Statistics) -> str:
    sources = ", ".join(sorted(statistics.sources, key=lambda name: -statistics.sources[name])[:4])
    return f"{sources or 'corpus'}: {statistics.dialogues:,} dialogues, {statistics.utterances:,} utterances"


def _rounds(axes: Any, spread: Spread) -> None:
    frame(axes, "Rounds", "rounds a dialogue", "dialogues")
    if not spread.count:
        _nothing(axes)
        return
    axes.bar(list(spread.bins), list(spread.bins.values()), width=0.85 * spread.width, color=ACCENT)
    axes.axvline(spread.mean, color=WARM, linewidth=1.2)
    axes.annotate(
        f"mean {spread.mean:.1f}",
        (spread.mean, 1.0),
        (6, -10),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        color=WARM,
        fontsize=9,
    )
    axes.locator_params(axis="both", integer=True, nbins=8)


def _bars(axes: Any, table: dict[str, int], title: str, unit: str, colour: str) -> None:
    frame(axes, title, unit, "")
    if not table:
        _nothing(axes)
        return
    ranked = sorted(table.items(), key=lambda item: -item[1])
    shown = ranked[:_MOST_BARS]
    if rest := sum(count for _, count in ranked[_MOST_BARS:]):
        shown.append((f"{len(ranked) - _MOST_BARS} more", rest))
    names, counts = [name for name, _ in shown][::-1], [count for _, count in shown][::-1]
    bars = axes.barh(range(len(names)), counts, height=0.7, color=colour)
    axes.set_yticks(range(len(names)), names)
    axes.bar_label(bars, labels=[f"{count:,}" for count in counts], padding=3, fontsize=8, color=QUIET)
    axes.margins(x=0.12)
    axes.locator_params(axis="x", integer=True, nbins=5)


def _lengths(axes: Any, statistics: Statistics) -> None:
    units = [{"en": "words", "zh": "characters"}[language] for language in statistics.lengths]
    frame(axes, "Utterance lengths", " or ".join(units) or "words", "share of utterances")
    if not statistics.lengths:
        _nothing(axes)
        return
    furthest = 0
    for language, speakers in sorted(statistics.lengths.items()):
        for speaker, spread in sorted(speakers.items()):
            edges = range(0, max(spread.bins) + spread.width, spread.width)
            shares = [spread.bins.get(edge, 0) / spread.count for edge in edges]
            name = speaker if len(statistics.lengths) == 1 else f"{speaker}, {language}"
            axes.step(
                [edge + spread.width / 2 for edge in edges],
                shares,
                where="mid",
                linewidth=1.6,
                label=f"{name} (mean {spread.mean:.0f})",
                color=ACCENT if speaker == "supporter" else WARM,
                linestyle="-" if language == "en" else "--",
            )
            furthest = max(furthest, _covering(spread, 0.99))
    axes.set_xlim(0, furthest)  # the longest one in a hundred would press the rest together
    axes.set_ylim(0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(frameon=False, fontsize=9)


def _covering(spread: Spread, share: float) -> int:
    """The upper edge below which this share of the values lies."""
    reached = 0
    for edge in sorted(spread.bins):
        reached += spread.bins[edge]
        if reached >= share * spread.count:
            return edge + spread.width
    return max(spread.bins) + spread.width


def _nothing(axes: Any) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.text(0.5, 0.5, "none in this corpus", ha="center", va="center", color=QUIET, transform=axes.transAxes)
