"""The labelled items of open CER: how far labellers agree, how labels are spread, and what gives them away.

    python -m runs.open_cer.items LABELLED…      writes corpora/open_cer/items-{train,valid,test}.jsonl.gz and
                                                  corpora/open_cer/items.json, which the card shows

LABELLED are exports of `compeer annotate` with every vote. An item needs all four labels; 574 stay for test and 400 for
validation, drawn by a hash of their names, the rest is for training.

The shortcut table asks what a reader could know of a label without the conversation. Each probe learns from the train
items and tells the test items; balanced accuracy, 0.5 for a step and 0.25 for the pair is chance:

    text           sentence vectors of the step, or of both replies, without the conversation
    length         words of the step, or of both replies
    overlap        word overlap of candidate and reference (steps: of step and reference reply)
    generator      who wrote the candidate
    conversation   the same vectors with the conversation: what a linear reader can do

`one threshold on overlap` is the best single cut of the overlap of candidate and reference that tells good candidates
(preferred, or both) from others.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from compeer.cer.item import QUESTIONS, Item, read_items, to_row
from compeer.corpora import open_cer
from compeer.dialogue import write_rows
from compeer.models.embedding import Embedder
from compeer.reasoning import STEPS
from compeer.reasoning.ontology import words
from compeer.reward.evaluation.baselines import probe
from compeer.statistics.agreement import ac1, kappa, percent_agreement

WANTED = {"test": 574, "valid": 400}
FOLDER = open_cer.FOLDER
NUMBERS = FOLDER / "items.json"


def place(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def dataset(labelled: Iterable[Item]) -> dict[str, list[Item]]:
    """Items with all four labels by split, called `author`; a fixed number for test and validation, else to train."""
    found: dict[str, list[Item]] = {"train": [], "valid": [], "test": []}
    for item in sorted(labelled, key=lambda one: place(one.id)):
        values = [getattr(item.labels, question) for question in QUESTIONS]
        here = found[str(item.split)]
        if None not in values and len(here) < WANTED.get(str(item.split), len(here) + 1):
            here.append(msgspec.structs.replace(item, label_source="author"))
    return found


def agreement(items: Sequence[Item]) -> dict[str, Any]:
    """The two first labellings of each question, before any third vote."""
    told = {}
    for question in QUESTIONS:
        pairs = []
        for item in items:
            votes = {vote.annotator: vote.value for vote in item.votes if vote.question == question}
            if "first" in votes and "second" in votes:
                pairs.append((votes["first"], votes["second"]))
        told[question] = {"items": len(pairs), "percent": round(percent_agreement(pairs), 4),
                          "kappa": round(kappa(pairs), 4), "ac1": round(ac1(pairs), 4)}  # fmt: skip
    return told


def balance(items: Sequence[Item]) -> dict[str, Any]:
    """Shares of the labels, and who wrote the candidates."""
    told: dict[str, Any] = {}
    for question in QUESTIONS:
        counts = Counter(str(getattr(item.labels, question)) for item in items)
        told[question] = {name: round(count / len(items), 4) for name, count in sorted(counts.items())}
    for name, value in (
        ("generator", lambda item: item.candidate.generator),
        ("compared_with", lambda item: item.trace.get("compared_with", "written")),
        ("language", lambda item: item.language),
    ):  # type: tuple[str, Callable[[Item], str]]
        told[name] = dict(sorted(Counter(value(item) for item in items).items()))
    return told


def overlap(one: str, other: str) -> float:
    """Shared words over all words of both."""
    first, second = set(words(one.lower())), set(words(other.lower()))
    return len(first & second) / max(1, len(first | second))


def shortcuts(train: Sequence[Item], test: Sequence[Item]) -> dict[str, Any]:
    """Balanced accuracy of each probe on each question of the test items."""
    embed = Embedder()
    told: dict[str, Any] = {}
    for name, history in (("conversation", True), ("text", False)):
        found = probe(train, test, history=history, embedders=embed)
        told[name] = {
            question: balanced(
                [str(getattr(item.labels, question)) for item in test],
                [str(_said(found[item.id], question)) for item in test],
            )
            for question in QUESTIONS
        }
    for name, features in (("length", _lengths), ("overlap", _overlaps), ("generator", _generators)):
        told[name] = {question: _learnt(train, test, question, features) for question in QUESTIONS}
    good = np.array([item.labels.preference in ("candidate", "both") for item in test])
    likeness = np.array([overlap(item.candidate.response, item.reference) for item in test])  # type: ignore[union-attr]
    cuts = [max(_two_sided(good, likeness >= cut), 1 - _two_sided(good, likeness >= cut)) for cut in set(likeness)]
    told["one threshold on overlap"] = {"preference": round(max(cuts), 3)}
    return told


def balanced(truth: Sequence[str], told: Sequence[str]) -> float:
    """The mean of the recalls of the classes that occur."""
    shares = []
    for one in set(truth):
        here = [said for true, said in zip(truth, told, strict=True) if true == one]
        shares.append(sum(said == one for said in here) / len(here))
    return round(float(np.mean(shares)), 3)


def _two_sided(truth: Any, told: Any) -> float:
    return float((told[truth].mean() + (~told[~truth]).mean()) / 2)


def _said(judgement: Any, question: str) -> Any:
    if question == "preference":
        return judgement.pairs[0].preference
    return judgement.steps[STEPS.index(question)].value


def _text(item: Item, question: str) -> str:
    assert item.candidate is not None and item.candidate.reasoning is not None
    return item.candidate.response if question == "preference" else item.candidate.reasoning.text(question)  # type: ignore[arg-type]


def _lengths(item: Item, question: str) -> list[float]:
    return [float(len(words(_text(item, question)))), float(len(words(item.reference))), float(item.language == "zh")]


def _overlaps(item: Item, question: str) -> list[float]:
    return [overlap(_text(item, question), item.reference), float(item.language == "zh")]


def _generators(item: Item, question: str) -> list[float]:
    names = ("1.5b/part-a", "1.5b/part-a-0.35", "author/contrast", "author/correction", "author/mixed")
    return [float(item.candidate.generator == name) for name in names]  # type: ignore[union-attr]


def _learnt(
    train: Sequence[Item], test: Sequence[Item], question: str, features: Callable[[Item, str], list[float]]
) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(class_weight="balanced", max_iter=60, random_state=0)
    model.fit([features(item, question) for item in train], [str(getattr(item.labels, question)) for item in train])
    told = model.predict([features(item, question) for item in test])
    return balanced([str(getattr(item.labels, question)) for item in test], [str(one) for one in told])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labelled", nargs="+", type=Path)
    given = parser.parse_args()
    everything = [item for path in given.labelled for item in read_items(path)]
    made = dataset(everything)
    for split, items in made.items():
        write_rows(FOLDER / f"items-{split}.jsonl.gz", (to_row(item) for item in items))  # as `datasets` wants them
    kept = [item for items in made.values() for item in items]
    numbers = {
        "items": {split: len(items) for split, items in made.items()},
        "labelled": len(everything),
        "agreement": agreement(everything),
        "balance": balance(kept),
        "shortcuts": shortcuts(made["train"], made["test"]),
    }
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n", "utf-8")
    print(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
