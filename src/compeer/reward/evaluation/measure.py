"""One judge on one set of items: every figure with its interval, overall, by language and by source.

Per step: weighted F1 and recall of False, as in Table 1; also accuracy, balanced accuracy, AUC, Brier score and ECE.
For the reply: weighted F1 and accuracy over the four preferences, as in Table 1; and for what the reward makes of it,
good or not, accuracy (`sign_accuracy`), balanced accuracy (`sign_balanced_accuracy`) and AUC.

Items are grouped by who labelled them (`label_source`): labels of people, silver labels and author labels never enter
one figure together. An item without a label for a question takes no part in that question. A missing verdict counts as
wrong. Probabilities are measured where they are known; `scored` is the number of those items.

Intervals resample dialogues. The position of a reply is measured too: the share of pairs whose verdict changed with
the order, where both orders were shown; and the lean, how much more often the judge said "first" than "second" than
the labels would have said for the same showings. A judge that ignores the position leans by about 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from compeer.cer.item import QUESTIONS, Item, LabelSource, Question
from compeer.cer.rewrite import origin
from compeer.errors import UserError
from compeer.reasoning import STEPS
from compeer.reward.judge import Judgement
from compeer.reward.scoring import GOOD
from compeer.reward.verdict import PREFERENCES, Kind, choice_of
from compeer.statistics import Codes, Figure, Flags, Floats, Resamples, classification, estimate

JudgeRole = Literal["judge", "probe", "baseline"]
Draws = dict[tuple[Question, str], Floats]  # each figure in every round of resampling
#: the classes of a step, by number; those of the reply are PREFERENCES
STEP_CLASSES: tuple[str, ...] = ("False", "True")
_GOOD = np.array([name in GOOD for name in PREFERENCES])
_SIDE = {"first": 1.0, "second": -1.0, "both": 0.0, "neither": 0.0}
HEADINGS: dict[LabelSource, str] = {
    "human": "labels by people",
    "author": "labels by the authors of the set",
    "silver": "silver labels (made by rule, not by people)",
}


class QuestionAnswers(msgspec.Struct, frozen=True):
    """Labels and verdicts of one question. `p` has a column per class; a row is NaN where no probability is known."""

    question: Question
    classes: tuple[str, ...]
    truth: Codes  # -1: no label
    told: Codes  # -1: no verdict
    p: Floats

    @property
    def labelled(self) -> Flags:
        return self.truth >= 0

    @property
    def scored(self) -> Flags:
        """Items with a label and probabilities."""
        return self.labelled & ~np.isnan(self.p[:, 0])

    def only(self, rows: Flags) -> QuestionAnswers:
        """The same question over some of the items: the others lose their label."""
        return msgspec.structs.replace(self, truth=np.where(rows, self.truth, -1))


class QuestionResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The figures of one question. The last column of `confusion` is "no answer"."""

    items: int
    unanswered: int
    scored: int
    figures: dict[str, Figure]
    classes: tuple[str, ...]
    confusion: list[list[int]]
    roc: list[tuple[float, float]] = []
    reliability: list[classification.Bin] = []


class PositionEffect(msgspec.Struct, frozen=True, omit_defaults=True):
    """`lean` is between -1 (second) and 1 (first); `swayed` is None when only one order was asked."""

    shown: int  # pairs with a verdict
    lean: Figure = Figure("lean")
    swayed: float | None = None
    twice: int = 0  # pairs judged in both orders


class JudgeResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    role: JudgeRole
    kind: Kind
    items: int
    dialogues: int
    failures: int  # items without any answer
    questions: dict[Question, QuestionResult]
    by_language: dict[str, dict[Question, QuestionResult]] = {}
    by_source: dict[str, dict[Question, QuestionResult]] = {}
    position: PositionEffect | None = None
    label_source: LabelSource | None = None

    def figure(self, question: Question, name: str) -> Figure | None:
        """A figure of a question; None when the judge does not answer this question."""
        return self.questions[question].figures.get(name) if question in self.questions else None


class MeasuredJudge(msgspec.Struct, frozen=True):
    """A result, and its figures in every round, for comparison with another judge in the same rounds."""

    result: JudgeResult
    draws: Draws


def questions_of(kind: Kind) -> tuple[Question, ...]:
    """The questions that a judge of this kind answers.

    >>> questions_of("orm")
    ('preference',)
    """
    return {"unified": QUESTIONS, "prm": QUESTIONS[:3], "orm": QUESTIONS[3:]}[kind]


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
    """The dialogue of each item, rewritten or not: the unit of resampling."""
    return [origin(item) for item in items]


def measure(
    items: Sequence[Item],
    judgements: Mapping[str, Judgement],
    resamples: Resamples | None = None,
    *,
    name: str = "",
    kind: Kind = "unified",
    role: JudgeRole = "judge",
) -> MeasuredJudge:
    """Measure a judge by its judgements, keyed by item id."""
    resamples = resamples or Resamples(dialogues_of(items))
    answers = {question: answers_to(items, judgements, question) for question in questions_of(kind)}
    draws: Draws = {}
    rows = resamples.with_observed()
    result = JudgeResult(
        name=name,
        role=role,
        kind=kind,
        items=len(items),
        dialogues=resamples.groups,
        failures=sum(item.id not in judgements or judgements[item.id].failure is not None for item in items),
        questions={question: _question_result(given, rows, draws) for question, given in answers.items()},
        by_language=_by_part(answers, rows, [item.language for item in items]),
        by_source=_by_part(answers, rows, [item.source for item in items]),
        position=position_effect(items, judgements, resamples) if "preference" in answers else None,
        label_source=items[0].label_source if items else None,
    )
    return MeasuredJudge(result, draws)


def difference(one: MeasuredJudge, other: MeasuredJudge, question: Question, name: str) -> Figure | None:
    """One judge minus another, both measured with the same resamples. None when either lacks the figure."""
    first, second = one.result.figure(question, name), other.result.figure(question, name)
    if first is None or second is None or first.value is None or second.value is None:
        return None
    return estimate(name, first.value - second.value, one.draws[question, name] - other.draws[question, name], first.n)


def answers_to(items: Sequence[Item], judgements: Mapping[str, Judgement], question: Question) -> QuestionAnswers:
    """Labels and verdicts of one question, in the order of the items. An unjudged item has no verdict."""
    classes = PREFERENCES if question == "preference" else STEP_CLASSES
    truth, told = np.full(len(items), -1, dtype=np.int64), np.full(len(items), -1, dtype=np.int64)
    p = np.full((len(items), len(classes)), np.nan)
    for row, item in enumerate(items):
        label = getattr(item.labels, question)
        truth[row] = -1 if label is None else classes.index(str(label))
        judgement = judgements.get(item.id)
        if judgement is None:
            continue
        if question == "preference":
            verdict: object = judgement.preference
            known = [judgement.preference_p[name] for name in PREFERENCES] if judgement.preference_p else None
        else:
            step = judgement.steps[STEPS.index(question)]
            verdict, known = step.value, None if step.p is None else [1 - step.p, step.p]
        if verdict is not None:
            told[row] = classes.index(str(verdict))
            if known is not None:
                p[row] = known
    return QuestionAnswers(question, classes, truth, told, p)


def good(told: Codes) -> Codes:
    """Preferences as the reward reads them: 1 when the candidate is better or both are good, 0 when not, -1 unknown.

    >>> good(np.array([0, 1, 2, 3, -1])).tolist()
    [1, 0, 1, 0, -1]
    """
    return np.where(told < 0, -1, _GOOD[told].astype(np.int64))


def position_effect(items: Sequence[Item], judgements: Mapping[str, Judgement], resamples: Resamples) -> PositionEffect:
    """How far the position of a reply moves the judge, over the items that have a verdict."""
    given = [judgements.get(item.id) for item in items]
    swayed = [one.swayed for one in given if one is not None and one.swayed is not None]
    lean = resamples.figure("lean", [_lean(item, one) for item, one in zip(items, given, strict=True)])
    return PositionEffect(
        shown=lean.n, lean=lean, swayed=sum(swayed) / len(swayed) if swayed else None, twice=len(swayed)
    )


def _lean(item: Item, judgement: Judgement | None) -> float:
    """How much more the verdicts are for the first place than the label; NaN without a verdict."""
    label, leans = item.labels.preference, []
    for pair in judgement.pairs if judgement else ():
        if pair.preference is not None:
            # without a label it is unknown which place deserved it; over both orders that cancels out
            due = _SIDE[choice_of(label, pair.candidate_first)] if label else 0.0
            leans.append(_SIDE[choice_of(pair.preference, pair.candidate_first)] - due)
    return sum(leans) / len(leans) if leans else float("nan")


def _by_part(
    answers: Mapping[Question, QuestionAnswers], resamples: Resamples, parts: Sequence[str]
) -> dict[str, dict[Question, QuestionResult]]:
    """The results for each part of the items, without curves; empty when there is only one part."""
    names, found = np.array(parts), sorted(set(parts))
    if len(found) < 2:
        return {}
    return {
        part: {
            question: _question_result(given.only(names == part), resamples, {}, curves=False)
            for question, given in answers.items()
        }
        for part in found
    }


def _dialogues(resamples: Resamples, chosen: Flags) -> int | None:
    """How many dialogues some items come from; None below two, which tell nothing about others."""
    count = len(np.unique(resamples.places[chosen]))
    return count if count > 1 else None


def _question_result(
    given: QuestionAnswers, resamples: Resamples, draws: Draws, *, curves: bool = True
) -> QuestionResult:
    """All figures of one question; `resamples` begin with what was observed. The other rounds go into `draws`."""
    labelled, classes = given.labelled, len(given.classes)
    tables = resamples.tables(given.truth, given.told, classes, labelled)
    measures = {
        "weighted_f1": classification.weighted_f1,
        "accuracy": classification.accuracy,
        "balanced_accuracy": classification.balanced_accuracy,
    }
    values = {name: measured(tables) for name, measured in measures.items()}
    # these are shares: where all answers are right, or none is, Wilson's interval over the dialogues stands
    independent: dict[str, int | None] = dict.fromkeys(("accuracy", "sign_accuracy"), _dialogues(resamples, labelled))
    for number, called in enumerate(given.classes):
        values[f"recall_{called.lower()}"] = classification.recalls(tables)[:, number]
        independent[f"recall_{called.lower()}"] = _dialogues(resamples, labelled & (given.truth == number))
    if given.question == "preference":
        signs = resamples.tables(good(given.truth), good(given.told), 2, labelled)
        values |= {f"sign_{name}": measures[name](signs) for name in ("accuracy", "balanced_accuracy")}
    positive, score, promised, came_true = _promises(given)
    bins = classification.binned(promised, came_true)
    values |= {
        "auc": resamples.auc(positive, score, given.scored),
        "brier": resamples.mean(_brier_errors(given)),
        "ece": classification.ece(resamples.sums(bins, given.scored)),
    }
    draws |= {(given.question, name): rounds[1:] for name, rounds in values.items()}
    n = int(labelled.sum())
    return QuestionResult(
        items=n,
        unanswered=int((given.told[labelled] < 0).sum()),
        scored=int(given.scored.sum()),
        figures={
            name: estimate(name, float(rounds[0]), rounds[1:], n, share_of=independent.get(name))
            for name, rounds in values.items()
        },
        classes=given.classes,
        confusion=tables[0].astype(int).tolist(),
        roc=classification.roc(positive, score) if curves else [],
        reliability=classification.reliability(promised, came_true) if curves and len(promised) else [],
    )


def _promises(given: QuestionAnswers) -> tuple[Flags, Floats, Floats, Flags]:
    """Over the scored items: what the ROC curve looks for, its score, the promise and whether it came true.

    A step promises True with its probability; the reply promises its likeliest preference with the probability of it.
    """
    scored = given.scored
    truth, p = given.truth[scored], given.p[scored]
    if given.question == "preference":
        best = p.argmax(axis=1)
        return good(truth) == 1, p[:, _GOOD].sum(axis=1), p[np.arange(len(p)), best], best == truth
    return truth == 0, p[:, 0], p[:, 1], truth == 1


def _brier_errors(given: QuestionAnswers) -> Floats:
    """The squared distance of each item's probabilities from the truth; NaN for an item without them."""
    scored = given.scored
    p, certain = given.p[scored], np.eye(len(given.classes))[given.truth[scored]]
    if given.question != "preference":
        p, certain = p[:, 1], certain[:, 1]
    errors = np.full(len(scored), np.nan)
    errors[scored] = classification.squared(p, certain)
    return errors
