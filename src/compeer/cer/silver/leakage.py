"""How much a text gives away about its label, without the conversation.

A judge that can tell True from False by the wording of a step learns the wording. So a logistic regression on words
and word pairs reads each step as it is rendered, its labelled lines included, and nothing else; likewise the
candidate's reply, for the sign of its reward. It is tested on dialogues it has not seen. Chance is 0.5.

    text_only(items)                         grouped by dialogue, cross-validated
    text_only(train_items, valid_items)      fitted on one set, tested on another
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

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
    """The mean recall of both classes over all held-out rows."""
    from sklearn.metrics import balanced_accuracy_score
    from sklearn.model_selection import StratifiedGroupKFold

    groups, texts, labels = [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]
    if len(set(labels)) < 2 or (not test and len(set(groups)) < folds):
        return 0.5  # nothing to tell apart
    if test:
        fitted = _fit(texts, labels)
        return float(balanced_accuracy_score([r[2] for r in test], fitted([r[1] for r in test])))
    truth: list[bool] = []
    told: list[bool] = []
    for train, held in StratifiedGroupKFold(folds, shuffle=True, random_state=0).split(texts, labels, groups):
        fitted = _fit([texts[i] for i in train], [labels[i] for i in train])
        truth += [labels[i] for i in held]
        told += list(fitted([texts[i] for i in held]))
    return float(balanced_accuracy_score(truth, told))


def _fit(texts: list[str], labels: list[bool]) -> Callable[[list[str]], Any]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    # a Chinese character is a word here
    words = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True, token_pattern=r"(?u)[\u4e00-\u9fff]|\w+")
    model = LogisticRegression(class_weight="balanced", solver="liblinear", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(words.fit_transform(texts), labels)
    return lambda held: model.predict(words.transform(held))
