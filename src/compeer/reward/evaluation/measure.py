"""One judge on one set of items: every figure with its interval, overall, by language and by source.

For each step: weighted F1 and the recall of False, as in Table 1; accuracy, balanced accuracy, AUC, Brier score and
ECE besides. For the reply: weighted F1 and accuracy over the four preferences, as in Table 1, and for what the
reward makes of it, good or not, accuracy (`sign_accuracy`), balanced accuracy (`sign_balanced_accuracy`) and AUC.

A verdict that did not come counts as wrong. Probabilities are measured where they are known; `scored` says on how
many items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from compeer.cer.item import Item, LabelSource, Question
from compeer.reward.evaluation import curves, metrics
from compeer.reward.evaluation.answers import Answers, answers, asked_of, dialogues_of, good, good_p
from compeer.reward.evaluation.bootstrap import Resamples, interval
from compeer.reward.evaluation.curves import Bin, Flags
from compeer.reward.evaluation.metrics import Floats
from compeer.reward.evaluation.position import Position, position
from compeer.reward.judge import Judgement
from compeer.reward.verdict import Kind

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
        dialogues=resamples.dialogues,
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
