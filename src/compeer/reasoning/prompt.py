"""How a model is asked to reason, in both languages (`prompt.yaml`).

Two lengths of instruction: `full` explains every label, for models that have never seen the contract; `brief` only
names it, for models trained on it, where each token of the prompt is read at every first turn. Three amounts of
thinking: `full`, `brief` (one short sentence a step) and `off` (the reply alone, in which case there is no contract to
keep). Pins and given steps are said in words too, so that a model without a grammar has a fair chance to keep them.
Without thinking only a strategy can be pinned, and it is said at the end of the conversation (`steered`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from compeer.config import convert, read_yaml
from compeer.reasoning.control import FREE, Control
from compeer.reasoning.grammar import strategy_in_words
from compeer.reasoning.ontology import INTENSITY_DEFINITIONS, VOCABULARIES, Language
from compeer.reasoning.schema import COLON, KEYS, STEPS, label_line

Length = Literal["full", "brief"]
Think = Literal["full", "brief", "off"]


@cache
def _texts(language: Language) -> dict[str, str]:
    file = Path(__file__).with_suffix(".yaml")
    return convert(read_yaml(file), dict[Language, dict[str, str]], file)[language]


def system_prompt(
    language: Language = "en", control: Control = FREE, length: Length = "full", think: Think = "full"
) -> str:
    """The instruction that asks for the contract, or with `think="off"` for the reply alone."""
    texts = _texts(language)
    blocks = [texts["role"]]
    if think == "off" and control.pins.strategy:
        # how to reply stands after the conversation (`steered`)
        control = msgspec.structs.replace(control, pins=msgspec.structs.replace(control.pins, strategy=None))
    elif length == "brief":
        blocks.append(texts[f"think_{think}"])
    elif think == "off":
        blocks += [texts["think_off"], texts["reply_alone"]]
    else:
        blocks += [texts["form"], _labels(language), texts["reply"]]
    return "\n\n".join([*blocks, *_controlled(language, control)])


def steered(text: str, language: Language, control: Control) -> str:
    """The person's last message with a word on how the reply is to be given, where a strategy is pinned and nothing is
    thought. At the end of the conversation a small model keeps it; in front of it, it does not."""
    if control.pins.strategy is None:
        return text
    how = strategy_in_words(control.pins.strategy, language).how
    return f"{text}\n\n{_texts(language)['for_reply'].format(how=how)}"


def _labels(language: Language) -> str:
    """Every label with its values; stages and strategies with what they mean."""
    english = language == "en"
    join = ", " if english else "、"
    values = {label: join.join(one.name(language) for one in known) for label, known in VOCABULARIES.items()}
    for label in ("stage", "strategy"):
        known = VOCABULARIES[label]
        values[label] = (
            "; ".join(f"{one.id} ({one.definition})" for one in known)
            if english
            else "；".join(f"{one.zh}（{one.definition_zh}）" for one in known)
        )
    values["intensity"] = join.join(f"{number} {word}" for number, word in INTENSITY_DEFINITIONS[language].items())
    return "\n".join(_texts(language)[label] + COLON[language] + values[label] for label in KEYS)


def _controlled(language: Language, control: Control) -> list[str]:
    """Pins and given steps, in words."""
    texts, blocks = _texts(language), []
    if pins := control.pins.items():
        blocks.append("\n".join([texts["fixed"], *(label_line(label, value, language) for label, value in pins)]))
    for step in STEPS:
        if step in control.given:
            blocks.append(f"{texts['given']}\n<{step}>\n{control.given[step].strip()}\n</{step}>")
    return blocks
