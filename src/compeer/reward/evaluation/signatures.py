"""Failure signatures: signs that a judge cannot be trusted, each with its number and what to do.

The paper's summary names three: wrong steps that are not recognised (the untrained models of Table 1 find fewer than
one in ten), verdicts on process and outcome that contradict each other in more than one sample of ten, and a gap
between process and outcome accuracy. Others can affect any judge: one answer for everything, a preference for one
position, probabilities that mean nothing, missing answers, and being no better than a linear probe.

The gap between process and outcome compares balanced accuracy of True and False with that of good and not good,
because two classes and four are not equally hard. The sentences are in `signature_texts.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer.cer.item import Question
from compeer.reasoning import STEPS
from compeer.reward.evaluation.measure import JudgeResult, MeasuredJudge, QuestionResult, difference
from compeer.statistics import Figure
from compeer.typed import from_json

LOW_RECALL = 0.10  # the summary: baseline models of Table 1 are below
INCONSISTENT = 0.10  # the summary
GAP = 0.15
ONE_CLASS = 0.98
SWAYED = 0.10
UNCALIBRATED = 0.10
UNANSWERED = 0.05
LEAK = 0.55  # what a probe without the history may reach, as for silver labels
_CALLED = {"history": "history", "emotion": "emotion", "strategy": "strategy", "preference": "reply"}
_BALANCED = dict.fromkeys(STEPS, "balanced_accuracy") | {"preference": "sign_balanced_accuracy"}

SignatureCode = Literal[
    "low-recall-of-false",
    "no-better-than-chance",
    "one-class",
    "process-outcome-gap",
    "inconsistent",
    "position-bias",
    "uncalibrated",
    "unanswered",
    "no-better-than-probe",
    "text-leak",
]


class Signature(msgspec.Struct, frozen=True):
    """One finding: which judge, which sign, its number, and a sentence or two for people."""

    judge: str
    code: SignatureCode
    number: float
    text: str


def signatures(measured: MeasuredJudge, probes: Sequence[MeasuredJudge] = ()) -> list[Signature]:
    """The signatures of a judge; `probes` were measured on the same items with the same resamples."""
    result = measured.result
    name, asked = result.name, result.questions
    recalls = _figures(result, dict.fromkeys(STEPS, "recall_false"))
    low = {step: one.value or 0.0 for step, one in recalls.items() if (one.value or 0.0) < LOW_RECALL}
    guessed = {key: one.value or 0.0 for key, one in _figures(result, _BALANCED).items() if _low(one) <= 0.5}
    errors = _figures(result, dict.fromkeys(asked, "ece"))
    uncalibrated = {key: value for key, one in errors.items() if (value := one.value or 0.0) > UNCALIBRATED}
    unanswered = {
        key: share for key, one in asked.items() if (share := one.unanswered / max(1, one.items)) > UNANSWERED
    }
    return [
        *_finding(name, "low-recall-of-false", low, form="{:.1%}", worst=min),
        *_finding(name, "no-better-than-chance", guessed, worst=min),
        *_one_class(result),
        *_gap(result),
        *_position(result),
        *_finding(name, "uncalibrated", uncalibrated),
        *_finding(name, "unanswered", unanswered, form="{:.1%}"),
        *(finding for rival in probes for finding in _no_better_than_probe(measured, rival)),
    ]


def inconsistency(judge: str, ratio: Figure) -> list[Signature]:
    """The signature of the consistency study."""
    if ratio.value is None or ratio.value <= INCONSISTENT:
        return []
    text = _texts()["inconsistent"].format(number=ratio.value, limit=INCONSISTENT)
    return [Signature(judge, "inconsistent", ratio.value, text)]


def leaks(probe: JudgeResult) -> list[Signature]:
    """Whether a probe without the history finds more than the texts should tell."""
    balanced = _figures(probe, _BALANCED).items()
    found = {key: value for key, one in balanced if (value := one.value or 0.0) > LEAK and _low(one) > 0.5}
    return _finding(probe.name, "text-leak", found)


def _one_class(result: JudgeResult) -> list[Signature]:
    found, said = {}, set()
    for question, asked in result.questions.items():
        share, name = _commonest(asked)
        largest = max(sum(row) for row in asked.confusion) / asked.items if asked.items else 1.0
        if share >= ONE_CLASS and largest < ONE_CLASS:
            found[question] = share
            said.add(name)
    return _finding(result.name, "one-class", found, form="{:.1%}", said=", ".join(sorted(said)))


def _gap(result: JudgeResult) -> list[Signature]:
    figures = _figures(result, _BALANCED)
    known = [figures[step].value or 0.0 for step in STEPS if step in figures]
    if not known or "preference" not in figures:
        return []
    reply = figures["preference"].value or 0.0
    steps = sum(known) / len(known)
    if abs(steps - reply) <= GAP:
        return []
    better, worse = ("steps", "replies") if steps > reply else ("replies", "steps")
    text = _texts()["process-outcome-gap"].format(better=better, worse=worse, steps=steps, reply=reply)
    return [Signature(result.name, "process-outcome-gap", steps - reply, text)]


def _position(result: JudgeResult) -> list[Signature]:
    effect, findings = result.position, []
    if effect is None:
        return []
    if effect.swayed is not None and effect.swayed > SWAYED:
        findings.append(
            f"of {effect.twice:,} pairs shown in both orders, {effect.swayed:.1%} get another verdict when the replies "
            "change places"
        )
    lean = effect.lean.value or 0.0
    same_sign = _low(effect.lean) * (lean if effect.lean.high is None else effect.lean.high) > 0
    if abs(lean) > SWAYED and same_sign:
        side = "first" if lean > 0 else "second"
        findings.append(f"it leans to the {side} reply by {abs(lean):.2f} (0 is none, 1 is always)")
    if not findings:
        return []
    whole = "; ".join(findings)
    text = _texts()["position-bias"].format(findings=whole[0].upper() + whole[1:])
    return [Signature(result.name, "position-bias", effect.swayed or abs(lean), text)]


def _no_better_than_probe(measured: MeasuredJudge, rival: MeasuredJudge) -> list[Signature]:
    """By AUC, which needs no threshold; by balanced accuracy where a judge gives no probabilities."""
    found = {}
    for question in measured.result.questions:
        gain = difference(measured, rival, question, "auc") or difference(
            measured, rival, question, _BALANCED[question]
        )
        if gain is not None and gain.value is not None and _low(gain) <= 0:
            found[question] = gain.value
    name = rival.result.name
    return _finding(measured.result.name, "no-better-than-probe", found, form="{:+.2f}", worst=min, rival=name)


def _finding(
    judge: str,
    code: SignatureCode,
    found: Mapping[Question, float] | Mapping[str, float],
    form: str = "{:.2f}",
    worst: Callable[..., float] = max,
    **words: Any,
) -> list[Signature]:
    """One finding over all questions that show it; `{each}` in the text becomes their numbers."""
    if not found:
        return []
    each = ", ".join(f"{form.format(value)} ({_CALLED[question]})" for question, value in found.items())
    return [Signature(judge, code, worst(found.values()), _texts()[code].format(each=each, **words))]


@cache
def _texts() -> dict[str, str]:
    return from_json(Path(__file__).with_name("signature_texts.json").read_bytes(), dict[str, str])


def _figures(result: JudgeResult, names: Mapping[str, str]) -> dict[str, Figure]:
    """For each question that the judge answers, the figure of this name, where it has a value."""
    found = {key: asked.figures[names[key]] for key, asked in result.questions.items() if key in names}
    return {key: figure for key, figure in found.items() if figure.value is not None}


def _low(figure: Figure) -> float:
    """The lower bound; the value itself where all resamples agree and there is no interval."""
    return figure.low if figure.low is not None else figure.value or 0.0


def _commonest(asked: QuestionResult) -> tuple[float, str]:
    """The share of the most frequent verdict among the answers, and its name."""
    said = [sum(row[column] for row in asked.confusion) for column in range(len(asked.classes))]
    return (max(said) / sum(said), asked.classes[said.index(max(said))]) if sum(said) else (0.0, "")
