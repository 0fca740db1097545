"""From an utterance to its strategy: sentence vectors and logistic regression, trained on a labelled corpus.

It is trained here, on the corpus the user names, and a fifth of the *dialogues* is held out to say how far it can be
trusted: its accuracy on people's own utterances is the most that agreement can mean. What always guessing the commonest
strategy would reach stands beside it. Classes are weighted evenly, since "others" and "question" fill half of ESConv.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from compeer.dialogue import Dialogue
from compeer.errors import UserError
from compeer.policy.redundancy import Embed
from compeer.reasoning.ontology import Language

_FEWEST = 40  # utterances below which nothing can be learnt, let alone held out


class Quality(msgspec.Struct, frozen=True):
    """How well the classifier reads people's own utterances that it was not trained on."""

    language: Language
    accuracy: float
    macro_f1: float
    commonest: float  # the accuracy of always naming the commonest strategy
    trained: int
    held_out: int
    recall: dict[str, float]


class Classifier:
    """`classify` texts of one language."""

    def __init__(self, language: Language, embed: Embed, machine: Any, quality: Quality) -> None:
        self.language, self.quality = language, quality
        self._embed, self._machine = embed, machine

    def classify(self, texts: Sequence[str]) -> list[str]:
        if not texts:
            return []
        return [str(name) for name in self._machine.predict(np.asarray(self._embed(list(texts))))]


def train(
    dialogues: Iterable[Dialogue],
    embedders: Callable[[Language], Embed],
    language: Language,
    *,
    most: int = 3000,
    seed: int = 0,
) -> Classifier:
    """A classifier for one language; `most` utterances at most are embedded, whole dialogues at a time."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import accuracy_score, f1_score, recall_score

    kept, held = _split(dialogues, language, most, seed)
    if len(kept) + len(held) < _FEWEST or len({name for _, name in kept}) < 2:
        raise UserError(
            f"The corpus has {len(kept) + len(held)} utterances with a strategy in {language}; a classifier needs "
            f"{_FEWEST} at least, of two strategies or more. Give a larger corpus, or --judge."
        )
    embed = embedders(language)
    machine = LogisticRegression(max_iter=2000, C=3.0, class_weight="balanced")
    machine.fit(np.asarray(embed([text for text, _ in kept])), [name for _, name in kept])
    truth = [name for _, name in held]
    told = [str(one) for one in machine.predict(np.asarray(embed([text for text, _ in held])))]
    names = sorted(set(truth))
    recalls = recall_score(truth, told, labels=names, average=None, zero_division=0)
    commonest = Counter(name for _, name in kept).most_common(1)[0][0]
    quality = Quality(
        language,
        float(accuracy_score(truth, told)),
        float(f1_score(truth, told, labels=names, average="macro", zero_division=0)),
        truth.count(commonest) / len(truth),
        len(kept),
        len(held),
        {name: float(value) for name, value in zip(names, recalls, strict=True)},
    )
    return Classifier(language, embed, machine, quality)


def _split(
    dialogues: Iterable[Dialogue], language: Language, most: int, seed: int
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(text, strategy) to learn from and to hold out; no dialogue is on both sides."""
    ours = [dialogue for dialogue in dialogues if dialogue.language == language]
    random.Random(seed).shuffle(ours)
    kept: list[tuple[str, str]] = []
    held: list[tuple[str, str]] = []
    for number, dialogue in enumerate(ours):
        if len(kept) + len(held) >= most:
            break
        side = held if number % 5 == 0 else kept
        side += [(said.text, said.strategy) for said in dialogue.utterances if said.strategy]
    return kept, held
