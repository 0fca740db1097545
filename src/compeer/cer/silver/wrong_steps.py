"""Which steps are wrong, in what way, and whose conclusion stands there instead.

    history    issue      another dialogue's issue before one's own last words and stage
               stage      one's own issue, and a stage that is unlikely here
               whole      the step of another dialogue with another problem
    emotion    emotion    one's own quotes, and a feeling of another family that is unlikely here
               intensity  one's own feeling, two or more too strong or too weak
               whole      the step of another dialogue with a feeling of another family
    strategy   strategy   one's own quotes, and a strategy that people in such moments do not choose
               whole      the step of another moment, with such a strategy

`whole` can be seen from quotes that were never said here; the others only by reading.

Wrong conclusions are *exchanged* among moments, not drawn. Drawing them from any distribution of our own would give
them away: too many rare emotions, too few common ones. A permutation cannot: what stands in the wrong places is exactly
what was taken out of them. Who takes whose is a linear assignment: no forbidden pair where one can be avoided, and
among the allowed the least likely. Members are drawn by chance, never by what they say.

Where several strategies would fit, a person's single choice does not make the others wrong. So a wrong strategy is one
that is unlikely here, and the same goes for stages and feelings (`Odds`): a logistic regression over the words of the
last message (strategy, stage) or of everything told (feeling) and a few visible facts: how far in, how long the
message, a question, thanks, the two strategies before. No moment is judged by a model that has seen its own dialogue.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from compeer.cer.silver.evidence import Evidence, occasions
from compeer.cer.silver.moment import Moment
from compeer.cer.silver.phrases import family
from compeer.cer.silver.steps import Draft, concluded
from compeer.reasoning.ontology import STAGES, STRATEGIES
from compeer.reasoning.schema import LABELS, STEPS

Matrix = npt.NDArray[np.float64]
Table = npt.NDArray[np.float64]  # a row a moment, a column a value
Mask = npt.NDArray[np.bool_]

_FORBIDDEN = 1e6


def exchange(members: Sequence[int], cost: Matrix, allowed: Mask, seed: int) -> tuple[dict[int, int], list[int]]:
    """Who gets whose, and those for whom nothing allowed was left.

    `cost[a, b]` and `allowed[a, b]` are for the a-th member receiving from the b-th.

    >>> exchange([7, 8, 9], np.zeros((3, 3)), ~np.eye(3, dtype=bool), 0)[1]
    []
    """
    if len(members) < 2:
        return {}, list(members)
    from scipy.optimize import linear_sum_assignment

    jitter = np.random.default_rng(seed).random(cost.shape) * 1e-3  # ties are broken by chance, not by order
    rows, columns = linear_sum_assignment(cost + jitter + np.where(allowed, 0.0, _FORBIDDEN))
    taken = {members[a]: members[b] for a, b in zip(rows, columns, strict=True) if allowed[a, b]}
    return taken, [m for m in members if m not in taken]


def portions(members: Sequence[int], shares: dict[str, float], rng: Random) -> dict[str, list[int]]:
    """The members by chance into named portions; every share exact to one.

    >>> {name: len(part) for name, part in portions(range(10), {"a": 0.5, "b": 0.5}, Random(0)).items()}
    {'a': 5, 'b': 5}
    """
    order = list(members)
    rng.shuffle(order)
    cut: dict[str, list[int]] = {}
    start, reached = 0, 0.0
    for name, share in shares.items():
        reached += share / sum(shares.values())
        end = round(reached * len(order))
        cut[name] = sorted(order[start:end])
        start = end
    return cut


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


SHARES: dict[str, dict[str, float]] = {
    "history": {"issue": 0.48, "stage": 0.22, "whole": 0.3},
    "emotion": {"intensity": 0.15, "emotion": 0.5, "whole": 0.35},
    "strategy": {"strategy": 0.65, "whole": 0.35},
}
#: tried once more with those for whom their portion had nothing
_LAST = {"history": "stage", "emotion": "intensity", "strategy": "strategy"}
#: the parts that speak for the conclusion
_PARTS = {"stage": ("standing",), "emotion": ("reading",), "intensity": ("degree",), "strategy": ("plan", "against")}


class Wrong(msgspec.Struct, frozen=True):
    """One wrong step: how, and from which moment of the pool."""

    kind: str
    donor: int


class Pool(msgspec.Struct, frozen=True):
    """Moments that trade with each other, what is known about them, and their true steps."""

    moments: list[Moment]
    evidence: list[Evidence]
    drafts: list[Draft]
    odds: dict[str, Table]  # rows in the order of `moments`
    alike: Matrix  # how alike what was told is, 0 to 1


def wrong_steps(pool: Pool, rate: float, rng: Random) -> dict[str, dict[int, Wrong]]:
    """For each step, the moments at which it is wrong."""
    found: dict[str, dict[int, Wrong]] = {}
    everyone = range(len(pool.moments))
    for step in STEPS:
        drawn = rng.sample(everyone, round(rate * len(everyone)))
        found[step] = {}
        left: list[int] = []
        for kind, portion in (*portions(drawn, SHARES[step], rng).items(), (_LAST[step], [])):
            members = sorted({*portion, *left})
            if len(members) < 2:
                left = members
                continue
            trades, left = exchange(members, *_rules(pool, kind, step, members), seed=rng.randrange(2**32))
            found[step] |= {at: Wrong(kind, donor) for at, donor in trades.items()}
    return found


def worded(pool: Pool, step: str, at: int, wrong: Wrong, seed: int) -> tuple[str, dict[str, str | int]]:
    """The wrong step's text and the labels in which it differs from the true one."""
    draft, donor = pool.drafts[at], pool.moments[wrong.donor]
    if wrong.kind == "whole":
        return pool.drafts[wrong.donor].text(step), {label: getattr(donor, label) for label in LABELS[step]}
    if wrong.kind == "issue":
        return draft.text(step, {"issue": pool.drafts[wrong.donor].parts["history"]["issue"]}), {}
    text = concluded(draft, step, _PARTS[wrong.kind], pool.evidence[at], donor, seed)
    labels = ("emotion", "sentiment") if wrong.kind == "emotion" else (wrong.kind,)
    return text, {label: getattr(donor, label) for label in labels}


def _rules(pool: Pool, kind: str, step: str, members: Sequence[int]) -> tuple[Matrix, Mask]:
    """What an exchange costs between any two members, and whether it may be."""
    moments = [pool.moments[m] for m in members]

    def differ(value: Callable[[Moment], object]) -> Mask:
        seen = [value(m) for m in moments]
        return np.array([[a != b for b in seen] for a in seen], dtype=bool)

    def unlikely(table: str, values: Sequence[str], value: Callable[[Moment], str]) -> Matrix:
        columns = [values.index(value(m)) for m in moments]
        cost: Matrix = relative(pool.odds[table])[np.ix_(members, columns)]
        return cost

    allowed = differ(lambda m: m.dialogue.id)
    if kind != "whole":  # written reasoning is one piece: it trades as a whole or not at all
        loose = np.array([m.written is None for m in moments], dtype=bool)
        allowed &= loose[:, None] & loose[None, :]
    if step == "history" and kind != "stage":
        known = np.array([bool(m.dialogue.problem) for m in moments], dtype=bool)
        allowed &= differ(lambda m: m.dialogue.problem) | ~(known[:, None] & known[None, :])
        return pool.alike[np.ix_(members, members)], allowed
    if kind == "stage":
        return unlikely("stage", STAGES.ids, lambda m: m.stage), allowed & differ(lambda m: m.stage)
    if kind == "intensity":
        strength = np.array([m.intensity for m in moments])
        known = np.array([m.derived["intensity"] != "unknown" for m in moments], dtype=bool)
        far = np.abs(strength[:, None] - strength[None, :]) >= 2
        return np.zeros(far.shape), allowed & far & known[:, None] & known[None, :]
    if step == "emotion":
        cost = unlikely("family", FAMILIES, lambda m: family(m.emotion))
        return cost, allowed & differ(lambda m: family(m.emotion))
    right = [{*m.strategies, *welcome(m)} for m in moments]
    fits = np.array([[b.strategy in here for b in moments] for here in right], dtype=bool)
    return unlikely("strategy", STRATEGIES.ids, lambda m: m.strategy), allowed & ~fits
