"""Signs that a judge cannot be trusted, each with its number and what to do.

The paper's summary names three: wrong steps that are not recognised (the untrained models of Table 1 find fewer than
one in ten), verdicts on process and outcome that contradict each other in more than one sample of ten, and a judge
of reasoning that does not carry over to replies. Beside them stand what any judge can suffer from: one answer for
everything, a liking for the first reply, probabilities that mean nothing, silence, and being no better than a
linear probe.

The gap between process and outcome compares like with like: balanced accuracy of True and False on one side, of good
and not good on the other, because two classes and four are not equally hard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from compeer.cer.item import Question
from compeer.reasoning import STEPS
from compeer.reward.evaluation.measure import Asked, Figure, Measured, Result, difference

LOW_RECALL = 0.10  # the summary: baseline models of Table 1 lie below
INCONSISTENT = 0.10  # the summary
GAP = 0.15
ONE_CLASS = 0.98
SWAYED = 0.10
UNCALIBRATED = 0.10
SILENT = 0.05
LEAK = 0.55  # what a probe without the history may reach, as for silver labels
_CALLED = {"history": "history", "emotion": "emotion", "strategy": "strategy", "preference": "reply"}
_BALANCED = dict.fromkeys(STEPS, "balanced_accuracy") | {"preference": "sign_balanced_accuracy"}

Code = Literal[
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
    """One finding: whose, which, how much, and a sentence or two for people."""

    judge: str
    code: Code
    number: float
    text: str


def signatures(measured: Measured, probes: Sequence[Measured] = ()) -> list[Signature]:
    """What is wrong with a judge; `probes` were measured on the same items with the same resamples."""
    result = measured.result
    checks = (_low_recall, _chance, _one_class, _gap, _position, _uncalibrated, _silence)
    found = [finding for check in checks for finding in check(result)]
    return found + [finding for rival in probes for finding in _probe(measured, rival)]


def inconsistency(judge: str, ratio: Figure) -> list[Signature]:
    """The finding of the consistency study."""
    if ratio.value is None or ratio.value <= INCONSISTENT:
        return []
    text = (
        f"In {ratio.value:.1%} of the samples its verdicts on process and outcome contradict each other, above "
        f"{INCONSISTENT:.0%}: the outcome is not judged in the light of the reasoning. Check that training rows hold "
        "all four turns in one conversation and that every assistant turn is in the loss."
    )
    return [Signature(judge, "inconsistent", ratio.value, text)]


def leaks(probe: Result) -> list[Signature]:
    """Whether a probe without the history finds more than the texts should tell."""
    found = {}
    for question, asked in probe.questions.items():
        figure = asked.figures[_BALANCED[question]]
        if figure.value is not None and figure.value > LEAK and (figure.low or 0.0) > 0.5:
            found[question] = figure.value
    return _one(
        probe.name,
        "text-leak",
        found,
        "Without seeing the conversation it reaches a balanced accuracy of {each} (chance is 0.50): the texts give "
        "labels away, and part of what a judge gets right here may be that. Compare judges with this probe.",
    )


def _low_recall(result: Result) -> list[Signature]:
    found = {step: _value(result, step, "recall_false") for step in STEPS}
    return _one(
        result.name,
        "low-recall-of-false",
        {step: value for step, value in found.items() if value is not None and value < LOW_RECALL},
        "Of the wrong steps it recognises {each}: it cannot tell wrong reasoning, and its negative rewards are not to "
        "be relied on. Give it more wrong steps in training, or weigh them more.",
        form="{:.1%}",
        worst=min,
    )


def _chance(result: Result) -> list[Signature]:
    found = {}
    for question, asked in result.questions.items():
        figure = asked.figures[_BALANCED[question]]
        if figure.value is not None and figure.low is not None and figure.low <= 0.5:
            found[question] = figure.value
    return _one(
        result.name,
        "no-better-than-chance",
        found,
        "Its balanced accuracy is {each}, and the interval holds 0.50, which is guessing: it has not been shown to "
        "read what it judges. Train longer, on more items, or measure on more.",
        worst=min,
    )


def _one_class(result: Result) -> list[Signature]:
    found = {}
    for question, asked in result.questions.items():
        share, _ = _commonest(asked)
        largest = max(sum(row) for row in asked.confusion) / asked.items if asked.items else 1.0
        if share >= ONE_CLASS and largest < ONE_CLASS:
            found[question] = share
    said = sorted({_commonest(result.questions[question])[1] for question in found})
    return _one(
        result.name,
        "one-class",
        found,
        f"It gives one answer ({', '.join(said)}) nearly always, "
        "{each}, where the labels vary: it answers without "
        "reading. Check the balance of the training data and the learning rate.",
        form="{:.1%}",
    )


def _gap(result: Result) -> list[Signature]:
    process = [value for step in STEPS if (value := _value(result, step, "balanced_accuracy")) is not None]
    outcome = _value(result, "preference", "sign_balanced_accuracy")
    if not process or outcome is None:
        return []
    mean = sum(process) / len(process)
    if abs(mean - outcome) <= GAP:
        return []
    better, worse = ("steps", "replies") if mean > outcome else ("replies", "steps")
    text = (
        f"It judges {better} far better than {worse}: balanced accuracy {mean:.2f} on steps, {outcome:.2f} on whether "
        f"the reply is good. It has learnt patterns of the one and not the quality of the other; look at the labels of "
        f"the {worse} and at their share of the loss."
    )
    return [Signature(result.name, "process-outcome-gap", mean - outcome, text)]


def _position(result: Result) -> list[Signature]:
    place, told = result.position, []
    if place is None:
        return []
    if place.swayed is not None and place.swayed > SWAYED:
        told.append(
            f"of {place.twice:,} pairs shown in both orders, {place.swayed:.1%} get another verdict when the replies "
            "change places"
        )
    lean, low, high = place.lean, place.lean_low, place.lean_high
    if lean is not None and low is not None and high is not None and abs(lean) > SWAYED and low * high > 0:
        side = "first" if lean > 0 else "second"
        told.append(f"it leans to the {side} reply by {abs(lean):.2f} (0 is none, 1 is always)")
    if not told:
        return []
    whole = "; ".join(told)
    text = f"{whole[0].upper()}{whole[1:]}. Score with both orders, and train with the order drawn at random."
    return [Signature(result.name, "position-bias", place.swayed or abs(lean or 0.0), text)]


def _uncalibrated(result: Result) -> list[Signature]:
    found = {question: asked.figures["ece"].value for question, asked in result.questions.items()}
    return _one(
        result.name,
        "uncalibrated",
        {question: value for question, value in found.items() if value is not None and value > UNCALIBRATED},
        "Its probabilities are off by {each} on average (ECE): use its verdicts, not soft rewards, or calibrate it on "
        "a validation set.",
    )


def _silence(result: Result) -> list[Signature]:
    found = {}
    for question, asked in result.questions.items():
        if asked.items and asked.unanswered / asked.items > SILENT:
            found[question] = asked.unanswered / asked.items
    return _one(
        result.name,
        "unanswered",
        found,
        "Verdicts did not come or could not be read in {each}; each counts as wrong. Look at the kept judgements: a "
        "server that failed, a model that does not begin with the verdict, or two orders that contradict each other.",
        form="{:.1%}",
    )


def _probe(measured: Measured, rival: Measured) -> list[Signature]:
    """By AUC, which needs no threshold; by balanced accuracy where a judge gives no probabilities."""
    found = {}
    for question in measured.result.questions:
        gain = difference(measured, rival, question, "auc") or difference(
            measured, rival, question, _BALANCED[question]
        )
        if gain is not None and gain.value is not None and gain.low is not None and gain.low <= 0:
            found[question] = gain.value
    return _one(
        measured.result.name,
        "no-better-than-probe",
        found,
        f"Against the {rival.result.name} its AUC (balanced accuracy, where it gives no probabilities) differs by "
        "{each}, and the interval does not lie above 0: it has not been shown to know more than embeddings do.",
        form="{:+.2f}",
        worst=min,
    )


def _one(
    judge: str,
    code: Code,
    found: Mapping[Question, float] | Mapping[str, float],
    text: str,
    form: str = "{:.2f}",
    worst: Callable[..., float] = max,
) -> list[Signature]:
    """One finding over all questions it was found in; `{each}` in the text becomes their numbers."""
    if not found:
        return []
    each = ", ".join(f"{form.format(value)} ({_CALLED[question]})" for question, value in found.items())
    return [Signature(judge, code, worst(found.values()), text.replace("{each}", each))]


def _value(result: Result, question: str, name: str) -> float | None:
    asked = result.questions.get(question)  # type: ignore[call-overload]
    return asked.figures[name].value if asked else None


def _commonest(asked: Asked) -> tuple[float, str]:
    """The share of the commonest verdict among the answers, and its name."""
    said = [sum(row[column] for row in asked.confusion) for column in range(len(asked.classes))]
    return (max(said) / sum(said), asked.classes[said.index(max(said))]) if sum(said) else (0.0, "")
