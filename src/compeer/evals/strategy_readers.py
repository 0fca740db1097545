"""Readers that name the strategy of a reply: a classifier trained on a labelled corpus, and a judge model.

**Classifier.** Sentence vectors and logistic regression, trained here on the corpus that the user names. A fifth of the
*dialogues* is held out to measure how far it can be trusted: its accuracy on people's own utterances is the most that
agreement can mean. Always naming the commonest strategy is reported beside it. Classes are weighted evenly, since
"others" and "question" fill half of ESConv.

**Judge.** It sees the definitions, the seeker's last words and the reply, each quoted as data, but not the stated
strategy, so it cannot simply agree. It answers with JSON: the main strategy, and any others that the reply uses.

A reply may use two strategies, and a reader may be wrong, so disagreement is no proof of a fault. The figure compares
models under the same reader, beside the reader's own quality.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from compeer.dialogue import Dialogue
from compeer.errors import UserError
from compeer.evals.language.outputs import Output
from compeer.models import Model, ModelError
from compeer.models.ask import ask_json
from compeer.models.request import instructed
from compeer.policy.redundancy import Embed
from compeer.reasoning.ontology import STRATEGIES, Language
from compeer.reward.conversation import quote
from compeer.statistics import Figure, share_figure, wilson

_FEWEST = 40  # utterances below which nothing can be learnt, let alone held out


class ClassifierQuality(msgspec.Struct, frozen=True):
    """The classifier on people's utterances that it was not trained on."""

    language: Language
    accuracy: float
    macro_f1: float
    commonest: float  # the accuracy of always naming the commonest strategy
    trained: int
    held_out: int
    recall: dict[str, float]


class StrategyClassifier:
    """`classify` texts of one language."""

    def __init__(self, language: Language, embed: Embed, machine: Any, quality: ClassifierQuality) -> None:
        self.language, self.quality = language, quality
        self._embed, self._machine = embed, machine

    def classify(self, texts: Sequence[str]) -> list[str]:
        if not texts:
            return []
        return [str(name) for name in self._machine.predict(np.asarray(self._embed(list(texts))))]


def train_classifier(
    dialogues: Iterable[Dialogue],
    embedders: Callable[[Language], Embed],
    language: Language,
    *,
    most: int = 3000,
    seed: int = 0,
) -> StrategyClassifier:
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
    quality = ClassifierQuality(
        language,
        float(accuracy_score(truth, told)),
        float(f1_score(truth, told, labels=names, average="macro", zero_division=0)),
        truth.count(commonest) / len(truth),
        len(kept),
        len(held),
        {name: float(value) for name, value in zip(names, recalls, strict=True)},
    )
    return StrategyClassifier(language, embed, machine, quality)


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


StrategyName: Any = Literal[tuple(STRATEGIES.ids)]
#: the strategies of a reply as the judge reads it: the main one, and in `also` any others
StrategyReading: Any = msgspec.defstruct(
    "StrategyReading", [("main", StrategyName), ("also", list[StrategyName], msgspec.field(default_factory=list))]
)


@cache
def instructions() -> str:
    """The system prompt with the definitions of the ontology."""
    lines = [f"- {value.id}: {value.definition}" for value in STRATEGIES]
    prompt = (Path(__file__).with_name("prompts") / "strategy_prompt.txt").read_text(encoding="utf-8").strip()
    return prompt.replace("{strategies}", "\n".join(lines))


def prompt_hash() -> str:
    return hashlib.sha256(instructions().encode()).hexdigest()[:12]


async def read_strategy(model: Model, before: str, reply: str) -> Any:
    """The judge's `StrategyReading` of one reply; ModelError where it gave none."""
    asked = f"The seeker said:\n{quote(before or '(nothing yet)')}\n\nThe reply:\n{quote(reply)}\n\nWhich strategy?"
    request = instructed(instructions(), asked, max_tokens=200, temperature=0.0)
    return (await ask_json(model, request, StrategyReading))[0]


class ReaderAnswers(msgspec.Struct, frozen=True):
    """One reader's answers for all replies; None where it gave none. `any_of` includes secondary strategies."""

    name: str
    main: tuple[str | None, ...]
    any_of: tuple[tuple[str, ...], ...] | None = None


def by_classifier(classifier: StrategyClassifier, outputs: Sequence[Output]) -> ReaderAnswers:
    """The classifier's reading; replies in another language stay unread."""
    ours = [one for one in outputs if one.language == classifier.language]
    told = iter(classifier.classify([one.reply for one in ours]))
    main = tuple(next(told) if one.language == classifier.language else None for one in outputs)
    return ReaderAnswers(f"classifier/{classifier.language}", main)


async def by_judge(
    model: Model, outputs: Sequence[Output], concurrency: int = 16, watch: Callable[[int], None] | None = None
) -> ReaderAnswers:
    """The judge model's reading; one that fails leaves its reply unread."""
    gate = asyncio.Semaphore(concurrency)
    done = 0

    async def one(output: Output) -> Any:
        nonlocal done
        before = next((turn.text for turn in reversed(output.history) if turn.speaker == "seeker"), "")
        async with gate:
            try:
                return await read_strategy(model, before, output.reply)
            except ModelError:
                return None
            finally:
                done += 1
                if watch:
                    watch(done)

    readings = await asyncio.gather(*(one(output) for output in outputs))
    main = tuple(reading.main if reading else None for reading in readings)
    every = tuple((reading.main, *reading.also) if reading else () for reading in readings)
    return ReaderAnswers("judge", main, every)


def quality_figures(quality: ClassifierQuality) -> list[Figure]:
    """What the classifier is worth, to stand beside the agreement."""
    n, language = quality.held_out, quality.language
    return [
        Figure(f"classifier-accuracy/{language}", quality.accuracy, *wilson(quality.accuracy, n), n),
        Figure(f"classifier-macro-f1/{language}", quality.macro_f1, n=n),
        Figure(f"classifier-commonest/{language}", quality.commonest, *wilson(quality.commonest, n), n),
    ]


def agreement_figures(reader: ReaderAnswers, outputs: Sequence[Output]) -> list[Figure]:
    """How often the reader names the stated strategy; outputs that state none are left out."""
    groups = [output.dialogue for output in outputs]

    def share(name: str, readings: Iterable[tuple[str, ...]]) -> Figure:
        pairs = zip(outputs, readings, strict=True)
        held = [bool({*read} & {*one.strategies}) if read and one.strategies else None for one, read in pairs]
        return share_figure(f"agreement/{name}", held, groups)

    found = [share(reader.name, ((told,) if told else () for told in reader.main))]
    return found if reader.any_of is None else [*found, share(f"{reader.name}-any", reader.any_of)]


def stated_and_read(reader: ReaderAnswers, outputs: Sequence[Output]) -> dict[str, dict[str, int]]:
    """stated -> read -> how often."""
    table: dict[str, Counter[str]] = {}
    for output, told in zip(outputs, reader.main, strict=True):
        if told is not None:
            for stated in output.strategies[:1]:
                table.setdefault(stated, Counter())[told] += 1
    return {stated: dict(counted) for stated, counted in table.items()}
