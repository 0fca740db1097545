"""Which strategies a supporter states, against those of people.

The distance is total variation: half the sum of the differences of shares, 0 for the same mixture and 1 for two that
have nothing in common. With few replies it is never 0, even for people against themselves: compare it with that of a
second set of people's replies of the same size, not with 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from compeer.corpora import CORPORA, Rejected, load
from compeer.dialogue import Dialogue, read, rounds
from compeer.errors import UserError
from compeer.reasoning.ontology import STRATEGIES
from compeer.statistics import Figure, Resamples, interval


class Strategies(msgspec.Struct, frozen=True):
    """How often each strategy occurs, model and people, and where people's come from."""

    model: dict[str, int]
    people: dict[str, int]
    source: str


def shares(counted: Mapping[str, int]) -> dict[str, float]:
    """Counts as shares of all eight strategies.

    >>> shares({"question": 3, "others": 1})["question"]
    0.75
    """
    whole = sum(counted.values())
    return {name: counted.get(name, 0) / whole if whole else 0.0 for name in STRATEGIES.ids}


def total_variation(first: Mapping[str, int], second: Mapping[str, int]) -> float:
    """Half the sum of the differences of shares.

    >>> total_variation({"question": 1}, {"question": 2}), total_variation({"question": 1}, {"others": 1})
    (0.0, 1.0)
    """
    one, two = shares(first), shares(second)
    return sum(abs(one[name] - two[name]) for name in STRATEGIES.ids) / 2


def distance_figure(
    name: str, stated: Sequence[Sequence[str]], people: Mapping[str, int], resamples: Resamples
) -> Figure:
    """Total variation between what the replies state and people's counts; the interval resamples our dialogues."""
    table = np.zeros((len(stated), len(STRATEGIES)))
    for row, strategies in zip(table, stated, strict=True):
        for strategy in strategies:
            row[STRATEGIES.ids.index(strategy)] += 1
    everyone = np.ones(len(stated), dtype=bool)
    with np.errstate(invalid="ignore"):
        sums = resamples.sums(table, everyone)
        draws = np.abs(sums / sums.sum(axis=1, keepdims=True) - np.array(list(shares(people).values()))).sum(axis=1) / 2
    found = interval(draws) if resamples.groups > 1 else None
    value = total_variation(dict(zip(STRATEGIES.ids, table.sum(axis=0).astype(int).tolist(), strict=True)), people)
    low, high = found or (None, None)
    return Figure(name, value, low, high, int(table.any(axis=1).sum()))


def count(strategies: Iterable[Sequence[str]]) -> dict[str, int]:
    """How often each strategy occurs."""
    return dict(Counter(one for each in strategies for one in each))


def people_of(name: str) -> list[Dialogue]:
    """Dialogues of people who noted their strategies: a file of dialogues, or CORPUS:PATH, or `bundled`."""
    corpus, colon, path = name.partition(":")
    if corpus in CORPORA and (colon or corpus == "bundled"):
        outcomes = load(corpus, Path(path))
        dialogues = [outcome for outcome in outcomes if not isinstance(outcome, Rejected)]
    else:
        dialogues = list(read(Path(name)))
    if not any(said.strategy for dialogue in dialogues for said in dialogue.utterances):
        raise UserError(f"{name}: no utterance of these dialogues carries a strategy. ESConv's do: esconv:FOLDER.")
    return dialogues


def strategies_of(dialogues: Iterable[Dialogue]) -> dict[str, dict[str, int]]:
    """People's strategies by language, one count a supporter turn and strategy, as stated ones are counted."""
    found: dict[str, Counter[str]] = {}
    for dialogue in dialogues:
        counted = found.setdefault(dialogue.language, Counter())
        for one in rounds(dialogue):
            counted.update(one.supporter.strategies)
    return {language: dict(counted) for language, counted in found.items() if counted}
