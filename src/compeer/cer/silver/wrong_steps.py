"""Which steps are wrong, in what way, and whose conclusion stands there instead.

    history    issue      another dialogue's issue before one's own stage
               stage      one's own issue, and a stage that is unlikely here
               whole      the step of another dialogue with another problem
    emotion    emotion    one's own quotes, and a feeling of another family that is unlikely here
               whole      the step of another dialogue with a feeling of another family
    strategy   strategy   one's own quotes, and a strategy that people in such moments do not choose
               whole      the step of another moment, with such a strategy

`whole` and `issue` can be seen from quotes that were never said here; the others only by reading.

Wrong conclusions are *exchanged* among moments, not drawn. Drawing them from any distribution of our own would give
them away: too many rare emotions, too few common ones. A permutation cannot: what stands in the wrong places is exactly
what was taken out of them. Who takes whose is a linear assignment: no forbidden pair where one can be avoided, and
among the allowed the least likely. Members are drawn by chance, never by what they say.

Where several strategies would fit, a person's single choice does not make the others wrong. So a wrong strategy is one
that is unlikely here, and the same goes for stages and feelings (`likelihoods`): a logistic regression over the words
of the last message and what came before it (strategy, stage) or of everything told (feeling). No moment is judged by a
model that has seen its own dialogue.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from compeer.cer.silver.moment import Moment
from compeer.cer.silver.steps import PARTS, Parts, family, phrases
from compeer.reasoning.ontology import STAGES, STRATEGIES
from compeer.reasoning.schema import LABELS, STEPS

Matrix = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_FORBIDDEN = 1e6
_FEWEST = 60  # moments; below that all values count as equally likely
_FOLDS = 3
#: the values of what is judged by how likely it is
VALUES: dict[str, tuple[str, ...]] = {
    "strategy": STRATEGIES.ids, "stage": STAGES.ids, "family": tuple(phrases("en").families),
}  # fmt: skip
#: what the last message itself asks for is never wrong, whatever the statistics say
_WELCOME = tuple(
    (re.compile(pattern, re.IGNORECASE), names)
    for pattern, names in (
        (r"\b(?:advice|suggest\w*|tips?|ideas?|help me)\b|what (?:should|can|could|do) (?:i|you)|how (?:do|can|to)\b"
         r"|怎么办|建议|怎么做|该怎么", ("providing suggestions", "information")),
        (r"\b(?:have|did|do|are|were) you\b|你呢|你有没有", ("self-disclosure", "others")),
        (r"\b(?:thank|thanks|thx|bye|hello|hi)\b|谢谢|再见|你好", ("others", "affirmation and reassurance")),
    )
)  # fmt: skip


class Corruption(NamedTuple):
    """One way in which a step can be wrong: how often, and which parts and labels are another moment's."""

    share: float
    parts: tuple[str, ...]
    labels: tuple[str, ...]


#: `whole` comes last: it also takes those for whom another kind had nothing
KINDS: dict[str, dict[str, Corruption]] = {
    "history": {"issue": Corruption(0.4, ("issue",), ()), "stage": Corruption(0.25, ("standing",), ("stage",))},
    "emotion": {"emotion": Corruption(0.65, ("reading",), ("emotion", "sentiment"))},
    "strategy": {"strategy": Corruption(0.65, ("plan",), ("strategy",))},
}
for _step, _kinds in KINDS.items():
    _kinds["whole"] = Corruption(0.35, (*PARTS[_step], "whole"), LABELS[_step])


class Wrong(msgspec.Struct, frozen=True):
    """One wrong step: how, and from which moment of the pool."""

    kind: str
    donor: int


class Pool(msgspec.Struct, frozen=True):
    """Moments that trade with each other, their true steps, and what is likely of them."""

    moments: list[Moment]
    steps: list[Parts]
    likely: dict[str, Matrix]  # by label; a row a moment, a column a value
    alike: Matrix  # how alike what was told is, 0 to 1


def wrong_steps(pool: Pool, rate: float, rng: Random) -> dict[str, dict[int, Wrong]]:
    """For each step, the moments at which it is wrong."""
    found: dict[str, dict[int, Wrong]] = {step: {} for step in STEPS}
    everyone = range(len(pool.moments))
    for step in STEPS:
        drawn = rng.sample(everyone, round(rate * len(everyone)))
        start, reached, left = 0, 0.0, list[int]()
        for kind, corruption in KINDS[step].items():
            reached += corruption.share
            end = round(reached * len(drawn))
            members = sorted([*drawn[start:end], *left])
            trades, left = exchange(members, *_rules(pool, kind, step, members), seed=rng.randrange(2**32))
            found[step] |= {at: Wrong(kind, donor) for at, donor in trades.items()}
            start = end
    return found


def corrupted(pool: Pool, step: str, at: int, wrong: Wrong) -> tuple[dict[str, str], dict[str, Any]]:
    """The parts of the wrong step, and the labels in which it differs from the true one."""
    corruption, donor = KINDS[step][wrong.kind], pool.steps[wrong.donor][step]
    own = {} if wrong.kind == "whole" else pool.steps[at][step]
    parts = own | {name: donor[name] for name in corruption.parts if name in donor}
    return parts, {label: getattr(pool.moments[wrong.donor], label) for label in corruption.labels}


def exchange(members: Sequence[int], cost: Matrix, allowed: Mask, seed: int) -> tuple[dict[int, int], list[int]]:
    """The donor of each member, and the members without an allowed donor.

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


def welcome(moment: Moment) -> frozenset[str]:
    """Strategies that the last message itself asks for.

    >>> from types import SimpleNamespace
    >>> sorted(welcome(SimpleNamespace(last="Any advice for me?")))
    ['information', 'providing suggestions']
    """
    return frozenset(name for pattern, names in _WELCOME for name in names if pattern.search(moment.last))


def likelihoods(moments: Sequence[Moment]) -> dict[str, Matrix]:
    """How likely each strategy, stage and family of feelings is, a row a moment, columns in the order of `VALUES`."""
    helpful = [at for at, m in enumerate(moments) if m.helpful]  # what failing helpers did is no guide
    last = [" ".join((m.last, f"round_{min(m.round.index, 14) // 2}", *_before(m))) for m in moments]
    return {
        "strategy": _across(moments, helpful, last, VALUES["strategy"], lambda m: m.strategy),
        "stage": _across(moments, helpful, last, VALUES["stage"], lambda m: m.stage),
        "family": _across(
            moments, range(len(moments)), [m.told for m in moments], VALUES["family"], lambda m: family(m.emotion)
        ),
    }


def _before(moment: Moment) -> list[str]:
    """The two strategies before, as words for a vectorizer."""
    return [f"before{n}_{name.replace(' ', '_')}" for n, name in enumerate(moment.before[-2:][::-1])]


def _across(
    moments: Sequence[Moment],
    train: Sequence[int],
    texts: list[str],
    values: Sequence[str],
    value: Callable[[Moment], str],
) -> Matrix:
    """A table for all moments, each row from a model fitted on other dialogues."""
    table: Matrix = np.full((len(moments), len(values)), 1 / len(values))
    groups = np.array([m.dialogue.id for m in moments])
    if len(train) < _FEWEST or len(set(groups)) < 2 * _FOLDS:
        return table
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold

    words = r"(?u)[a-z]+\d?_[\w-]+|[\u4e00-\u9fff]|[^\W\u4e00-\u9fff]{2,}"
    features = TfidfVectorizer(min_df=3, sublinear_tf=True, token_pattern=words).fit_transform(texts)
    labels, trainable = np.array([value(m) for m in moments]), np.isin(np.arange(len(moments)), train)
    for seen, held_out in GroupKFold(_FOLDS).split(features, groups=groups):
        fitted = seen[trainable[seen]]
        if len(set(labels[fitted])) < 2:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            # stopped early on purpose: as good on unseen dialogues as the fitted end, and a hundred times faster
            model = LogisticRegression(solver="saga", max_iter=8, tol=1e-2, random_state=0)
            model.fit(features[fitted], labels[fitted])
        table[held_out] = 1e-4
        columns = [values.index(one) for one in model.classes_]
        table[np.ix_(held_out, columns)] = model.predict_proba(features[held_out])
    return table


def _rules(pool: Pool, kind: str, step: str, members: Sequence[int]) -> tuple[Matrix, Mask]:
    """Cost of an exchange between any two members, and whether it is allowed."""
    moments = [pool.moments[m] for m in members]

    def differ(value: Callable[[Moment], object]) -> Mask:
        seen = [value(m) for m in moments]
        return np.array([[a != b for b in seen] for a in seen], dtype=bool).reshape(len(seen), len(seen))

    def unlikely(label: str, value: Callable[[Moment], str]) -> Matrix:
        """How much likelier than usual the other's value is here: 1 where the moment says nothing."""
        table = pool.likely[label]
        columns = [VALUES[label].index(value(m)) for m in moments]
        cost: Matrix = (table / np.maximum(table.mean(axis=0, keepdims=True), 1e-6))[np.ix_(members, columns)]
        return cost

    allowed = differ(lambda m: m.dialogue.id)
    if kind != "whole":  # written reasoning is one piece: it trades as a whole or not at all
        loose = np.array([m.written is None for m in moments], dtype=bool)
        allowed &= loose[:, None] & loose[None, :]
    if kind == "stage":
        return unlikely("stage", lambda m: m.stage), allowed & differ(lambda m: m.stage)
    if step == "history":
        known = np.array([bool(m.dialogue.problem) for m in moments], dtype=bool)
        allowed &= differ(lambda m: m.dialogue.problem) | ~(known[:, None] & known[None, :])
        return pool.alike[np.ix_(members, members)], allowed
    if step == "emotion":
        return unlikely("family", lambda m: family(m.emotion)), allowed & differ(lambda m: family(m.emotion))
    right = [{*m.strategies, *welcome(m)} for m in moments]
    fits = np.array([[b.strategy in here for b in moments] for here in right], dtype=bool)
    return unlikely("strategy", lambda m: m.strategy), allowed & ~fits.reshape(allowed.shape)
