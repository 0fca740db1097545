"""Which steps are wrong, in what way, and whose conclusion stands there instead.

    history    issue      another dialogue's issue before one's own last words and stage
               stage      one's own issue, and a stage that is unlikely here
               whole      the step of another dialogue with another problem
    emotion    emotion    one's own quotes, and a feeling of another family that is unlikely here
               intensity  one's own feeling, two or more too strong or too weak
               whole      the step of another dialogue with a feeling of another family
    strategy   strategy   one's own quotes, and a strategy that people in such moments do not choose
               whole      the step of another moment, with such a strategy

`whole` can be seen from quotes that were never said here; the others only by reading. Members are drawn by chance,
never by what they say, and trade within their portion (`swap`), so right and wrong steps have the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import msgspec
import numpy as np

from compeer.cer.silver.compose import Draft, concluded
from compeer.cer.silver.evidence import Evidence
from compeer.cer.silver.feelings import family
from compeer.cer.silver.moment import Moment
from compeer.cer.silver.swap import Mask, Matrix, exchange, portions
from compeer.cer.silver.unlikely import FAMILIES, Table, relative, welcome
from compeer.reasoning.ontology import STAGES, STRATEGIES
from compeer.reasoning.schema import LABELS, STEPS

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
