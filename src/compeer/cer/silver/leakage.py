"""How much a text gives away about its label, without the conversation.

A judge that can tell True from False by the wording of a step learns the wording. So a logistic regression on words
and word pairs reads each step as it is rendered, its labelled lines included, and nothing else; likewise the
candidate's reply, for the sign of its reward. It is tested on dialogues it has not seen. Chance is 0.5.

    text_only(items)                         grouped by dialogue, cross-validated
    text_only(train_items, valid_items)      fitted on one set, tested on another
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from compeer.cer.item import QUESTIONS, Item
from compeer.reasoning import render_step

#: what a classifier may reach and no more: a step, the reply
STEP_LIMIT, REPLY_LIMIT = 0.55, 0.65


class Leakage(msgspec.Struct, frozen=True):
    """Balanced accuracy from text alone."""

    history: float
    emotion: float
    strategy: float
    reply: float

    @property
    def within_limits(self) -> bool:
        return max(self.history, self.emotion, self.strategy) <= STEP_LIMIT and self.reply <= REPLY_LIMIT


def text_only(items: Sequence[Item], held_out: Sequence[Item] | None = None, *, folds: int = 3) -> Leakage:
    """What a classifier that never sees the history reaches, for each question."""
    found = {}
    for question in QUESTIONS:
        rows = [(item.dialogue, *_row(item, question)) for item in items if _labelled(item, question)]
        test = [(item.dialogue, *_row(item, question)) for item in held_out or () if _labelled(item, question)]
        found["reply" if question == "preference" else question] = _balanced_accuracy(rows, test, folds)
    return Leakage(**found)


def _labelled(item: Item, question: str) -> bool:
    candidate = item.candidate
    return candidate is not None and candidate.reasoning is not None and getattr(item.labels, question) is not None


def _row(item: Item, question: str) -> tuple[str, bool]:
    assert item.candidate and item.candidate.reasoning
    if question == "preference":
        return item.candidate.response, item.labels.preference in ("candidate", "both")
    return render_step(item.candidate.reasoning, question), bool(getattr(item.labels, question))


def _balanced_accuracy(
    rows: Sequence[tuple[str, str, bool]], test: Sequence[tuple[str, str, bool]], folds: int
) -> float:
    """The mean recall of both classes over all rows that were held out."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.model_selection import StratifiedGroupKFold

    groups, labels = [r[0] for r in rows], np.array([r[2] for r in rows])
    if len(set(labels)) < 2 or (not test and len(set(groups)) < folds):
        return 0.5  # nothing to tell apart
    # a Chinese character is a word here; the vocabulary knows no labels, so all rows may have a say in it
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, token_pattern=r"(?u)[\u4e00-\u9fff]|\w+")
    features = words.fit_transform([r[1] for r in rows])
    if test:
        told = _fit(features, labels).predict(words.transform([r[1] for r in test]))
        return float(balanced_accuracy_score([r[2] for r in test], told))
    told = np.zeros(len(labels), dtype=bool)
    for train, held in StratifiedGroupKFold(folds, shuffle=True, random_state=0).split(features, labels, groups):
        told[held] = _fit(features[train], labels[train]).predict(features[held])
    return float(balanced_accuracy_score(labels, told))


def _fit(features: Any, labels: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(class_weight="balanced", solver="liblinear", random_state=0).fit(features, labels)
