"""What people in similar moments do and do not do: P(strategy), P(stage), P(emotion family) from what can be seen.

Where several strategies would fit, a person's single choice does not make the others wrong. So a wrong strategy is
not any other one but one that is unlikely here, and the same goes for stages and feelings. The estimate is a
logistic regression over the words of the last message (strategy, stage) or of everything told (feeling) and a few
plain facts: how far in, how long the message, a question, thanks, the two strategies before. It is fitted across:
no moment is judged by a model that has seen its own dialogue.

Only *visible* facts go in. How long the conversation will last, or what comes later, is not among them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from compeer.cer.silver.evidence import occasions
from compeer.cer.silver.feelings import family
from compeer.cer.silver.moment import Moment
from compeer.reasoning.ontology import STAGES, STRATEGIES

Table = npt.NDArray[np.float64]

FAMILIES = ("fear", "sadness", "anger", "shame", "open", "joy")
_FOLDS = 3
_WELCOME = tuple(
    (re.compile(pattern, re.IGNORECASE), names)
    for pattern, names in (
        (
            r"\b(?:advice|advise|suggest\w*|tips?|ideas?|recommend\w*)\b|what (?:should|can|could|do|would) (?:i|you)"
            r"|how (?:do|can|should|would|to)\b|help me|怎么办|建议|怎么做|该怎么",
            ("providing suggestions", "information"),
        ),
        (r"\b(?:have|did|do|are|were) you\b|你呢|你有没有", ("self-disclosure", "others")),
        (r"\b(?:thank|thanks|thx|bye|hello|hi)\b|谢谢|再见|你好", ("others", "affirmation and reassurance")),
    )
)
_FEWEST = 60  # moments; below that only the overall shares are used


class Odds:
    """Probability tables, a row a moment, columns in the order of the vocabulary."""

    def __init__(self, moments: Sequence[Moment]) -> None:
        train = [m for m in moments if m.helpful]  # what failing helpers did is no guide
        self.strategy = _across(moments, train, STRATEGIES.ids, lambda m: m.strategies, last_message)
        self.stage = _across(moments, train, STAGES.ids, lambda m: (m.stage,), last_message)
        self.family = _across(moments, moments, FAMILIES, lambda m: (family(m.emotion),), everything)

    def of(self, label: str) -> Table:
        table: Table = getattr(self, label)
        return table


def relative(table: Table) -> Table:
    """How much likelier than usual: 1 where the moment says nothing."""
    ratio: Table = table / np.maximum(table.mean(axis=0, keepdims=True), 1e-6)
    return ratio


def welcome(moment: Moment) -> frozenset[str]:
    """Strategies that the last message itself asks for: never wrong, whatever the statistics say.

    >>> from types import SimpleNamespace
    >>> sorted(welcome(SimpleNamespace(last="Any advice for me?")))
    ['information', 'providing suggestions']
    """
    return frozenset(name for pattern, names in _WELCOME for name in names if pattern.search(moment.last))


def last_message(moment: Moment) -> str:
    """The last message and the visible facts, as words for a vectorizer."""
    before = [f"before_{name}" for name in moment.before[-1:]] + [f"earlier_{name}" for name in moment.before[-2:-1]]
    advised = sum(s in ("providing suggestions", "information") for s in moment.before)
    facts = [
        *(f"occasion_{name}" for name in occasions(moment)),
        *(name.replace(" ", "_") for name in before),
        f"round_{min(moment.index, 14) // 2}",
        f"told_{min(moment.words, 320) // 40}",
        f"advised_{min(advised, 4)}",
        f"feeling_{family(moment.emotion)}",
    ]
    return " ".join(facts) + " " + moment.last


def everything(moment: Moment) -> str:
    return moment.told


def _across(
    moments: Sequence[Moment],
    train: Sequence[Moment],
    values: Sequence[str],
    right: Callable[[Moment], Sequence[str]],
    visible: Callable[[Moment], str],
) -> Table:
    """A table for all moments, each row from a model fitted on other dialogues."""
    shares = np.full(len(values), 0.5)
    for moment in train:
        for value in right(moment):
            shares[values.index(value)] += 1
    table: Table = np.tile(shares / shares.sum(), (len(moments), 1))
    fold = {name: at % _FOLDS for at, name in enumerate(dict.fromkeys(m.dialogue.id for m in moments))}
    if len(train) < _FEWEST or len(fold) < 2 * _FOLDS:
        return table
    features = _features([visible(m) for m in moments])
    trainable = {id(m) for m in train}
    for held_out in range(_FOLDS):
        rows = [
            (at, value)
            for at, m in enumerate(moments)
            if fold[m.dialogue.id] != held_out and id(m) in trainable
            for value in right(m)
        ]
        test = [at for at, m in enumerate(moments) if fold[m.dialogue.id] == held_out]
        if test and len({value for _, value in rows}) > 1:
            model = _fit(features[[at for at, _ in rows]], [value for _, value in rows])
            table[test] = 1e-4
            table[np.ix_(test, [values.index(value) for value in model.classes_])] = model.predict_proba(features[test])
    return table


def _features(texts: list[str]) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = r"(?u)[a-z]+_[\w-]+|[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]{2,}"
    return TfidfVectorizer(min_df=min(3, len(texts)), sublinear_tf=True, token_pattern=words).fit_transform(texts)


def _fit(features: Any, labels: list[str]) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # stopped early on purpose: as good on unseen dialogues as the fitted end, and a hundred times faster
        return LogisticRegression(solver="saga", max_iter=8, tol=1e-2, random_state=0).fit(features, labels)
