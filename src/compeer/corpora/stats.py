"""What is in a corpus, counted in one pass.

Memory does not grow with the corpus: numbers are kept as histograms of bounded size, names (licences, sources,
problems) in tables that stop taking new ones at a limit and count the rest together under "(more)".

Lengths are in words for English and in characters for Chinese (a Latin word inside Chinese text counts as one),
the measure equation 7 uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from compeer.dialogue import Dialogue, rounds
from compeer.reasoning.ontology import Language

MORE = "(more)"
_LIMIT = 200
_CHINESE_UNIT = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]|[A-Za-z0-9]+")


class Spread(msgspec.Struct):
    """How a number is spread: count, mean, extremes, and a histogram of at most 200 bins."""

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
    """The counts of a corpus."""

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
            _count(table, key)
        unmapped = dialogue.extra.get("unmapped_strategies")
        for name, times in (unmapped if isinstance(unmapped, dict) else {}).items():
            _count(self.unmapped_strategies, name, times if isinstance(times, int) else 1)
        self.crises += dialogue.crisis
        self.unhelpful += dialogue.helpful is False
        by_speaker = self.lengths.setdefault(dialogue.language, {})
        for one in dialogue.utterances:
            by_speaker.setdefault(one.speaker, Spread(width=4)).add(length(one.text, dialogue.language))
            if one.speaker == "supporter":
                _count(self.strategies, one.strategy)
            else:
                _count(self.utterance_emotions, one.emotion)
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
    """Count every dialogue, once."""
    statistics = Statistics()
    for dialogue in dialogues:
        statistics.add(dialogue)
    return statistics


def length(text: str, language: Language) -> int:
    """Words of an English text, characters of a Chinese one.

    >>> length("I feel low, really.", "en"), length("我很难过，OK？", "zh")
    (4, 5)
    """
    return len(text.split()) if language == "en" else len(_CHINESE_UNIT.findall(text))


def _count(table: dict[str, int], key: str | None, times: int = 1) -> None:
    if key is None:
        return
    if key not in table and len(table) >= _LIMIT:
        key = MORE
    table[key] = table.get(key, 0) + times
