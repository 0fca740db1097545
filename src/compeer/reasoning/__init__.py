"""The contract: controllable empathetic reasoning (Figure 1 of the paper).

ontology    the closed vocabularies, in English and Chinese, with the aliases of every corpus
schema      the three steps, their labels, and the tags around them
parse       strict reading of a model's output, with a precise diagnosis of what is missing; render, the way back
stream      the same reading while the output is still being written; filters of markup and stop strings
control     pins and given steps
grammar     what a controlled output may look like: GBNF, regular expression, prefix
prompt      how a model is asked, in both languages
"""

from compeer.reasoning.control import Control, ControlError, Pins, edit, violations
from compeer.reasoning.parse import (
    Parsed,
    Problem,
    begins_with_thinking,
    fields,
    parse,
    render,
    split_thinking,
    with_thinking,
)
from compeer.reasoning.prompt import system_prompt
from compeer.reasoning.schema import LABELS, STEPS, EmotionStep, HistoryStep, Reasoning, StrategyStep, render_step
from compeer.reasoning.stream import Event, StreamParser

__all__ = [
    "LABELS",
    "STEPS",
    "Control",
    "ControlError",
    "EmotionStep",
    "Event",
    "HistoryStep",
    "Parsed",
    "Pins",
    "Problem",
    "Reasoning",
    "StrategyStep",
    "StreamParser",
    "begins_with_thinking",
    "edit",
    "fields",
    "parse",
    "render",
    "render_step",
    "split_thinking",
    "system_prompt",
    "violations",
    "with_thinking",
]
