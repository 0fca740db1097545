"""One judge on one set of items: every figure with its interval, overall, by language and by source.

For each step: weighted F1 and the recall of False, as in Table 1; accuracy, balanced accuracy, AUC, Brier score and
ECE besides. For the reply: weighted F1 and accuracy over the four preferences, as in Table 1, and for what the
reward makes of it, good or not, accuracy (`sign_accuracy`), balanced accuracy (`sign_balanced_accuracy`) and AUC.

A verdict that did not come counts as wrong. Probabilities are measured where they are known; `scored` says on how
many items.

What was right and what was said, as arrays: the labels of items beside a judge's verdicts on them.

Items are grouped by who labelled them (`label_source`): people's labels, silver labels and the authors' own never
enter one figure together. An item without a label for a question takes no part in that question.

Whether the place of a reply sways the judge.

When each pair was shown in both orders: the share of pairs whose verdict changed with the order. In any case the
lean: how much more often the judge said "first" than "second", less what the labels would have said of the same
showings. A judge that does not care for places leans by about 0.

Two judges on the same samples: the difference of two shares with its interval, and McNemar's test.

The interval resamples dialogues. McNemar's exact test looks at the samples on which the two differ: were they equally
good, each such sample would fall to either side by the toss of a coin. It takes samples for independent; where many
come from one dialogue, the interval is the safer of the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from compeer import statistics as curves
from compeer import statistics as metrics
from compeer.cer.item import QUESTIONS, Item, LabelSource, Question
from compeer.cer.rewrite import origin
from compeer.errors import UserError
from compeer.reasoning import STEPS
from compeer.reward.judge import Judgement
from compeer.reward.scoring import GOOD
from compeer.reward.verdict import PREFERENCES, Kind, choice_of
from compeer.statistics import Bin, Codes, Flags, Floats, Resamples, interval

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


_SIDE = {"first": 1.0, "second": -1.0, "both": 0.0, "neither": 0.0}


class Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """`swayed` is None when only one order was asked; `lean` lies between -1 (second) and 1 (first)."""

    shown: int  # pairs with a verdict
    lean: float | None = None
    lean_low: float | None = None
    lean_high: float | None = None
    swayed: float | None = None
    twice: int = 0  # pairs judged in both orders


def position(items: Sequence[Item], judgements: Mapping[str, Judgement], resamples: Resamples) -> Position:
    """Measure it over the items that have a verdict."""
    leans = np.full(len(items), np.nan)
    swayed = []
    for row, item in enumerate(items):
        judgement = judgements.get(item.id)
        if judgement is None:
            continue
        if judgement.swayed is not None:
            swayed.append(judgement.swayed)
        sides = []
        for pair in judgement.pairs:
            if pair.preference is None:
                continue
            said = _SIDE[choice_of(pair.preference, pair.candidate_first)]
            label = item.labels.preference
            # without a label nothing can be said about which place deserved it; in both orders it cancels out
            due = _SIDE[choice_of(label, pair.candidate_first)] if label else 0.0
            sides.append(said - due)
        if sides:
            leans[row] = sum(sides) / len(sides)
    known = ~np.isnan(leans)
    if not known.any():
        return Position(0)
    bounds = interval(resamples.mean(leans)) or (None, None)
    return Position(
        shown=int(known.sum()),
        lean=float(leans[known].mean()),
        lean_low=bounds[0],
        lean_high=bounds[1],
        swayed=sum(swayed) / len(swayed) if swayed else None,
        twice=len(swayed),
    )


Role = Literal["judge", "probe", "baseline"]
Draws = dict[tuple[Question, str], Floats]  # each figure in every round


class Figure(msgspec.Struct, frozen=True):
    """A number between its 95 % bounds; None where it does not exist."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question: figures, and how verdicts and truth meet. The last column of `confusion` is "no answer"."""

    items: int
    unanswered: int
    scored: int
    figures: dict[str, Figure]
    classes: tuple[str, ...]
    confusion: list[list[int]]
    roc: list[tuple[float, float]] = []
    reliability: list[Bin] = []


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One judge on one set."""

    name: str
    role: Role
    kind: Kind
    items: int
    dialogues: int
    failures: int  # items on which the judge gave no answer at all
    questions: dict[Question, Asked]
    by_language: dict[str, dict[Question, Asked]] = {}
    by_source: dict[str, dict[Question, Asked]] = {}
    position: Position | None = None
    label_source: LabelSource | None = None


class Measured(msgspec.Struct, frozen=True):
    """A result, and its figures in every round, for comparison with another judge in the same rounds."""

    result: Result
    draws: Draws


def measure(
    items: Sequence[Item],
    judgements: Mapping[str, Judgement],
    resamples: Resamples | None = None,
    *,
    name: str = "",
    kind: Kind = "unified",
    role: Role = "judge",
) -> Measured:
    """Measure a judge by its judgements, keyed by item."""
    resamples = resamples or Resamples(dialogues_of(items))
    table = {question: answers(items, judgements, question) for question in asked_of(kind)}
    draws: Draws = {}
    result = Result(
        name=name,
        role=role,
        kind=kind,
        items=len(items),
        dialogues=resamples.groups,
        failures=sum(item.id not in judgements or judgements[item.id].failure is not None for item in items),
        questions={question: _asked(given, resamples, draws) for question, given in table.items()},
        by_language=_parted(table, resamples, [item.language for item in items]),
        by_source=_parted(table, resamples, [item.source for item in items]),
        position=position(items, judgements, resamples) if "preference" in table else None,
        label_source=items[0].label_source if items else None,
    )
    return Measured(result, draws)


def difference(one: Measured, other: Measured, question: Question, figure: str) -> Figure | None:
    """How far `one` lies above `other`; both measured with the same resamples. None when either lacks the figure."""
    asked, also = one.result.questions.get(question), other.result.questions.get(question)
    if asked is None or also is None:
        return None
    first, second = asked.figures.get(figure, Figure()).value, also.figures.get(figure, Figure()).value
    if first is None or second is None:
        return None
    return figure_of(first - second, one.draws[question, figure] - other.draws[question, figure])


def figure_of(value: float, draws: Floats) -> Figure:
    """A number and its interval."""
    if np.isnan(value):
        return Figure()
    bounds = interval(draws)
    return Figure(float(value), *bounds) if bounds else Figure(float(value))


def _parted(
    table: Mapping[Question, Answers], resamples: Resamples, parts: Sequence[str]
) -> dict[str, dict[Question, Asked]]:
    """The same for each part of the items, without curves; nothing when there is only one part."""
    names = np.array(parts)
    found = sorted(set(parts))
    if len(found) < 2:
        return {}
    return {
        part: {
            question: _asked(given.chosen(names == part), resamples, {}, curved=False)
            for question, given in table.items()
        }
        for part in found
    }


def _asked(given: Answers, resamples: Resamples, draws: Draws, *, curved: bool = True) -> Asked:
    """All figures of one question; their rounds go into `draws`."""
    labelled, classes = given.labelled, len(given.classes)
    counts = metrics.confusion(given.truth[labelled], given.told[labelled], classes)
    tables = resamples.tables(given.truth, given.told, classes, labelled)
    values: dict[str, tuple[float, Floats]] = {
        "weighted_f1": (float(metrics.weighted_f1(counts)), metrics.weighted_f1(tables)),
        "accuracy": (float(metrics.accuracy(counts)), metrics.accuracy(tables)),
        "balanced_accuracy": (float(metrics.balanced_accuracy(counts)), metrics.balanced_accuracy(tables)),
    }
    for number, called in enumerate(given.classes):
        one = float(metrics.recalls(counts)[number])
        values[f"recall_{called.lower()}"] = one, metrics.recalls(tables)[:, number]
    if given.question == "preference":
        truth, told = good(given.truth), good(given.told)
        plain = metrics.confusion(truth[labelled], told[labelled], 2)
        signs = resamples.tables(truth, told, 2, labelled)
        values["sign_accuracy"] = float(metrics.accuracy(plain)), metrics.accuracy(signs)
        balanced = metrics.balanced_accuracy(plain)
        values["sign_balanced_accuracy"] = float(balanced), metrics.balanced_accuracy(signs)
    positive, score, promised, came_true = _promises(given)
    values |= _probable(given, resamples, positive, score, promised, came_true)
    for name, (_, rounds) in values.items():
        draws[given.question, name] = rounds
    return Asked(
        items=int(labelled.sum()),
        unanswered=int((given.told[labelled] < 0).sum()),
        scored=int(given.scored.sum()),
        figures={name: figure_of(value, rounds) for name, (value, rounds) in values.items()},
        classes=given.classes,
        confusion=counts.tolist(),
        roc=curves.roc(positive, score) if curved else [],
        reliability=curves.reliability(promised, came_true) if curved and len(promised) else [],
    )


def _promises(given: Answers) -> tuple[Flags, Floats, Floats, Flags]:
    """Over the scored items: what the ROC curve looks for, its score, the promise and whether it came true.

    A step promises True with its probability; the reply promises its likeliest preference with that one's.
    """
    scored = given.scored
    truth, p = given.truth[scored], given.p[scored]
    if given.question == "preference":
        best = p.argmax(axis=1) if len(p) else np.zeros(0, dtype=np.int64)
        return good(truth) == 1, good_p(p), p[np.arange(len(p)), best], best == truth
    return truth == 0, p[:, 0], p[:, 1], truth == 1


def _probable(
    given: Answers, resamples: Resamples, positive: Flags, score: Floats, promised: Floats, came_true: Flags
) -> dict[str, tuple[float, Floats]]:
    """AUC, Brier score and ECE."""
    scored = given.scored
    if not scored.any():
        nothing = np.full(len(resamples.weights), np.nan)
        return {name: (float("nan"), nothing) for name in ("auc", "brier", "ece")}
    p, certain = given.p[scored], np.eye(len(given.classes))[given.truth[scored]]
    if given.question != "preference":
        p, certain = p[:, 1], certain[:, 1]
    errors = np.full(len(scored), np.nan)
    errors[scored] = curves.squared(p, certain)
    bins = curves.binned(promised, came_true)
    return {
        "auc": (curves.auc(positive, score), resamples.auc(positive, score, scored)),
        "brier": (float(np.nanmean(errors)), resamples.mean(errors)),
        "ece": (float(curves.ece(bins.sum(axis=0))), curves.ece(resamples.sums(bins, scored))),
    }


class Paired(msgspec.Struct, frozen=True):
    """The first judge against the second, over the samples that both have answered."""

    first: Figure
    second: Figure
    difference: Figure
    samples: int
    only_first: int  # samples for which it holds with the first judge alone
    only_second: int
    p: float  # McNemar, exact and two-sided


def paired(first: Sequence[bool], second: Sequence[bool], resamples: Resamples) -> Paired:
    """Compare two columns of yes and no."""
    one, two = np.array(first, dtype=np.float64), np.array(second, dtype=np.float64)
    only_first, only_second = int(((one == 1) & (two == 0)).sum()), int(((one == 0) & (two == 1)).sum())
    if not len(one):
        return Paired(Figure(), Figure(), Figure(), 0, 0, 0, 1.0)
    return Paired(
        first=figure_of(float(one.mean()), resamples.mean(one)),
        second=figure_of(float(two.mean()), resamples.mean(two)),
        difference=figure_of(float((one - two).mean()), resamples.mean(one - two)),
        samples=len(one),
        only_first=only_first,
        only_second=only_second,
        p=mcnemar(only_first, only_second),
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """The exact two-sided probability of a split at least as uneven, if both sides were equally likely.

    >>> mcnemar(5, 0), mcnemar(3, 3)
    (0.0625, 1.0)
    """
    whole, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(math.exp(_log_choose(whole, count) - whole * math.log(2)) for count in range(fewer + 1))
    return min(1.0, round(2 * tail, 12))


def _log_choose(whole: int, part: int) -> float:
    return math.lgamma(whole + 1) - math.lgamma(part + 1) - math.lgamma(whole - part + 1)
