"""What was right and what was said, as arrays: the labels of items beside a judge's verdicts on them.

Items are grouped by who labelled them (`label_source`): people's labels, silver labels and the authors' own never
enter one figure together. An item without a label for a question takes no part in that question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from compeer.cer.item import QUESTIONS, Item, LabelSource, Question
from compeer.cer.variants import origin
from compeer.errors import UserError
from compeer.reasoning import STEPS
from compeer.reward.evaluation.curves import Flags
from compeer.reward.evaluation.metrics import Codes, Floats
from compeer.reward.judge import Judgement
from compeer.reward.scoring import GOOD
from compeer.reward.verdict import PREFERENCES, Kind

#: the classes of a step and of the reply, by number
STEP_CLASSES: tuple[str, ...] = ("False", "True")
REPLY_CLASSES: tuple[str, ...] = PREFERENCES
_GOOD = np.array([name in GOOD for name in PREFERENCES])
HEADINGS: dict[LabelSource, str] = {
    "human": "labels by people",
    "author": "labels by the authors of the set",
    "silver": "silver labels (made by rule, not by people)",
}


class Answers(msgspec.Struct, frozen=True):
    """One question over all items. `p` has a column for each class; a row is NaN where no probability is known."""

    question: Question
    classes: tuple[str, ...]
    truth: Codes  # -1: the item has no label here
    told: Codes  # -1: no verdict
    p: Floats

    @property
    def labelled(self) -> Flags:
        return self.truth >= 0

    @property
    def scored(self) -> Flags:
        """Items with a label and probabilities."""
        return self.labelled & ~np.isnan(self.p[:, 0])

    def chosen(self, rows: Flags) -> Answers:
        """The same question over some of the items: the others lose their label."""
        return msgspec.structs.replace(self, truth=np.where(rows, self.truth, -1))


def asked_of(kind: Kind) -> tuple[Question, ...]:
    """The questions a judge of this kind answers.

    >>> asked_of("orm")
    ('preference',)
    """
    return {"unified": QUESTIONS, "prm": QUESTIONS[:3], "orm": QUESTIONS[3:]}[kind]


def answers(items: Sequence[Item], judgements: Mapping[str, Judgement], question: Question) -> Answers:
    """Labels and verdicts of one question, in the order of the items. An item nobody judged was not answered."""
    return _reply(items, judgements) if question == "preference" else _step(items, judgements, question)


def good(told: Codes) -> Codes:
    """Preferences as the reward reads them: 1 when the candidate is better or both are good, 0 when not, -1 unknown.

    >>> good(np.array([0, 1, 2, 3, -1])).tolist()
    [1, 0, 1, 0, -1]
    """
    return np.where(told < 0, -1, _GOOD[told].astype(np.int64))


def good_p(p: Floats) -> Floats:
    """The probability of a good reply, from those of the four preferences."""
    found: Floats = p[:, _GOOD].sum(axis=1)
    return found


def by_label_source(items: Iterable[Item]) -> dict[LabelSource, list[Item]]:
    """Labelled items by who labelled them; items without any label are left out."""
    grouped: dict[LabelSource, list[Item]] = {}
    for item in items:
        if all(getattr(item.labels, question) is None for question in QUESTIONS):
            continue
        if item.label_source is None:
            raise UserError(
                f"Item {item.id} has labels, but does not say who gave them; set its label_source to human, silver "
                "or author. Figures over labels of unknown origin mean nothing."
            )
        grouped.setdefault(item.label_source, []).append(item)
    return {source: grouped[source] for source in HEADINGS if source in grouped}


def dialogues_of(items: Iterable[Item]) -> list[str]:
    """For each item the dialogue it comes from, rewritten or not: the unit of resampling."""
    return [origin(item) for item in items]


def _step(items: Sequence[Item], judgements: Mapping[str, Judgement], question: Question) -> Answers:
    place = STEPS.index(question)
    truth, told, p = _blank(len(items), 2)
    for row, item in enumerate(items):
        label = getattr(item.labels, question)
        truth[row] = -1 if label is None else int(label)
        judgement = judgements.get(item.id)
        verdict = judgement.steps[place] if judgement else None
        if verdict is not None and verdict.value is not None:
            told[row] = int(verdict.value)
            if verdict.p is not None:
                p[row] = 1 - verdict.p, verdict.p
    return Answers(question, STEP_CLASSES, truth, told, p)


def _reply(items: Sequence[Item], judgements: Mapping[str, Judgement]) -> Answers:
    truth, told, p = _blank(len(items), len(PREFERENCES))
    for row, item in enumerate(items):
        label, judgement = item.labels.preference, judgements.get(item.id)
        truth[row] = -1 if label is None else PREFERENCES.index(label)
        if judgement is None or judgement.preference is None:
            continue
        told[row] = PREFERENCES.index(judgement.preference)
        if known := judgement.preference_p:
            p[row] = [known[name] for name in PREFERENCES]
    return Answers("preference", REPLY_CLASSES, truth, told, p)


def _blank(rows: int, classes: int) -> tuple[Codes, Codes, Floats]:
    return np.full(rows, -1, dtype=np.int64), np.full(rows, -1, dtype=np.int64), np.full((rows, classes), np.nan)
