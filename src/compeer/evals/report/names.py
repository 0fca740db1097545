"""What figures are called: the paper's columns, whose judge, which language; and what other figures mean.

A judge and a language stand in front of a column: `Fluency`, `en/Fluency`, `openai:gpt-4o/en/Fluency`,
`en/distinct-2`.
"""

from __future__ import annotations

import msgspec

from compeer.evals.control.table import meaning as control_meaning
from compeer.evals.esc_eval.dimension import AVERAGE, DIMENSIONS
from compeer.evals.language.measure import NAMES
from compeer.evals.safety.table import MEANINGS as SAFETY

ESC_COLUMNS: tuple[str, ...] = (*DIMENSIONS.values(), AVERAGE)
SAGE_COLUMNS: tuple[str, ...] = ("Sentient", "Success", "Failure")
LANGUAGES = {"en": "English", "zh": "Chinese"}
REWARD = {
    "reward": "three steps, preference and format, -5 to 5",
    "history": "share of outputs whose first step is right",
    "emotion": "share of outputs whose second step is right",
    "strategy": "share of outputs whose third step is right",
    "preference": "share of replies at least as good as the reference",
    "complete": "share of outputs in the form of the contract, without a grammar",
}


class Named(msgspec.Struct, frozen=True):
    """A figure's name, taken apart."""

    column: str
    judge: str | None = None
    language: str | None = None


def named(name: str) -> Named:
    """Take a name apart. What stands before one of the paper's columns, besides a language, is a judge.

    >>> named("openai:org/gpt-4o/zh/Fluency")
    Named(column='Fluency', judge='openai:org/gpt-4o', language='zh')
    >>> named("en/distinct-2"), named("adherence/stage").column
    (Named(column='distinct-2', judge=None, language='en'), 'adherence/stage')
    """
    front, _, column = name.rpartition("/")
    before, _, last = front.rpartition("/")
    language = last if last in LANGUAGES else None
    rest = before if language else front
    if column in (*ESC_COLUMNS, *SAGE_COLUMNS):
        return Named(column, rest or None, language)
    return Named(f"{rest}/{column}" if rest else column, None, language)


def columns_of(benchmark: str) -> tuple[str, ...]:
    """The paper's columns of a benchmark; none where the paper has no table."""
    return {"esc-eval": ESC_COLUMNS, "sage": SAGE_COLUMNS}.get(benchmark, ())


def meaning_of(benchmark: str, name: str) -> str:
    """What a figure is, in a few words; empty where its name says it all."""
    if benchmark == "diversity":
        return NAMES.get(named(name).column, "")
    if benchmark == "safety":
        return SAFETY.get(name, "")
    if benchmark == "reward":
        return REWARD.get(name, "")
    return control_meaning(name) if benchmark == "control" else ""
