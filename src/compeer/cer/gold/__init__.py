"""The gold set: 330 moments of the bundled corpus with reasoning, a second reply, and two labellings.

The reasoning and the second replies were written for this set; about a third of the candidates hold a
step that is wrong the way attentive people are wrong. All items were then labelled twice, from sheets
that showed neither the other labels nor what had been planted; an item counts where both labellings
agree on all four questions. `label_source` is "author": the labels are the project's own, not the work
of independent annotators, and the very high agreement says that one mind was asked twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from compeer.cer.item import QUESTIONS, Item, read_items
from compeer.reasoning.ontology import Language


def load(language: Language | None = None, *, disputed: bool = False) -> Iterator[Item]:
    """The agreed items, or with `disputed` every item that was labelled."""
    for item in read_items(Path(__file__).with_name("items.jsonl")):
        agreed = all(getattr(item.labels, question) is not None for question in QUESTIONS)
        if (agreed or disputed) and language in (None, item.language):
            yield item


def agreement() -> dict[str, float]:
    """The share of items on which the two labellings agree, for each question."""
    items = list(load(disputed=True))
    return {
        question: sum(getattr(item.labels, question) is not None for item in items) / len(items)
        for question in QUESTIONS
    }
