"""A result of control for a reader."""

from __future__ import annotations

from compeer.evals.language.table import shown
from compeer.evals.result import Result

MEANINGS = {
    "adherence": "pins that the output keeps",
    "adherence/stage": "pinned stages kept",
    "adherence/strategy": "pinned strategies kept",
    "adherence/emotion": "pinned emotions kept",
    "completeness": "outputs with all three steps and a reply",
    "failures": "requests without an answer",
    "agreement/judge": "replies whose main strategy, in the judge's eyes, is the stated one",
    "agreement/judge-any": "the same, counting secondary strategies",
}


def meaning(name: str) -> str:
    """What a figure is.

    >>> meaning("agreement/classifier/en")
    'replies that the classifier reads as the stated strategy (en)'
    """
    if name in MEANINGS:
        return MEANINGS[name]
    kind, _, language = name.rpartition("/")
    beginnings = {
        "agreement/classifier": "replies that the classifier reads as the stated strategy",
        "classifier-accuracy": "the classifier's own accuracy on held-out utterances of people",
        "classifier-macro-f1": "its F1 there, all strategies alike",
        "classifier-commonest": "what always naming the commonest strategy reaches there",
    }
    return f"{beginnings[kind]} ({language})" if kind in beginnings else ""


def markdown(result: Result) -> str:
    """The figures with what they mean, then the notes."""
    lines = [f"{result.model}: control", "", "| figure | value | n | what it is |", "|---|---:|---:|---|"]
    lines += [f"| {one.name} | {shown(one)} | {one.n} | {meaning(one.name)} |" for one in result.figures]
    return "\n".join([*lines, "", *(f"- {note}" for note in result.notes)])
