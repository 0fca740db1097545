"""How a model is asked to reason, in both languages.

Two lengths of instruction: `full` explains every label, for models that have never seen the contract; `brief` only
names it, for models trained on it, where each token of the prompt is read at every first turn. Three amounts of
thinking: `full`, `brief` (one short sentence a step) and `off` (the reply alone, in which case there is no contract to
keep). Pins and given steps are said in words too, so that a model without a grammar has a fair chance to keep them.
Without thinking only a strategy can be pinned, and it is said at the end of the conversation (`steered`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from compeer.reasoning.control import FREE, Control
from compeer.reasoning.grammar import strategy_in_words
from compeer.reasoning.ontology import (
    EMOTIONS,
    INTENSITY_DEFINITIONS,
    SENTIMENTS,
    STAGES,
    STRATEGIES,
    Language,
    Vocabulary,
)
from compeer.reasoning.schema import COLON, KEYS, STEPS, write_value

Length = Literal["full", "brief"]
Think = Literal["full", "brief", "off"]

_ROLE: dict[Language, str] = {
    "en": (
        "You are a supporter in a chat: a program that listens and answers in plain, kind words. "
        "You have no life of your own to tell of, and you do not lecture."
    ),
    "zh": "你是聊天里的支持者：一个倾听并用平实、温和的话回应的程序。你没有自己的生活经历可讲，也不说教。",
}

_BRIEF: dict[Think, dict[Language, str]] = {
    "full": {
        "en": "Think in three steps, history, emotion and strategy, each ending in its labelled lines. Then reply.",
        "zh": "先按 history、emotion、strategy 三步思考，每一步以标注行作结，然后回复。",
    },
    "brief": {
        "en": (
            "Think in three steps, history, emotion and strategy, one short sentence each, then its labelled lines. "
            "Then reply."
        ),
        "zh": "先按 history、emotion、strategy 三步思考，每一步只写一句短话和标注行，然后回复。",
    },
    "off": {"en": "Reply directly, without writing down your thinking.", "zh": "直接回复，不写出思考。"},
}

_FORM: dict[Language, str] = {
    "en": """Before you reply, think in three steps. Write exactly this form and nothing else:

<think>
<history>
What this person is really facing, what has been said so far, where the conversation stands.
Stage: one of the stages
</history>
<emotion>
What they feel and why, read from their words and, if there are pictures, from face and posture.
Sentiment: one of the sentiments
Emotion: one of the emotions
Intensity: 1 to 5
</emotion>
<strategy>
What would help now, and why this way rather than another.
Strategy: one of the strategies
</strategy>
</think>
Your reply to the person.""",
    "zh": """回复之前，先分三步思考。严格按下面的格式书写，不要写别的内容：

<think>
<history>
这个人真正面对的是什么，到目前为止说了什么，对话进行到哪里。
阶段：从下列阶段中选一个
</history>
<emotion>
对方的感受和原因，从话语中体会；若有图片，也看表情和姿态。
情感倾向：从下列倾向中选一个
情绪：从下列情绪中选一个
强度：1 到 5
</emotion>
<strategy>
此刻什么会有帮助，为什么这样而不是那样。
策略：从下列策略中选一个
</strategy>
</think>
你对对方说的话。""",
}

_REPLY: dict[Language, str] = {
    "en": (
        "Think in your own words, two to four sentences a step. The reply is one to three plain sentences in everyday "
        "language: take up their own words, ask at most one question, give no advice before you have "
        "listened, no lists, no tags."
    ),
    "zh": (
        "每一步用自己的话写两到四句。回复用一到三句口语：接住对方自己的话，"
        "最多问一个问题，没听清之前不给建议，不列条目，不写标签。"
    ),
}

_REPLY_ALONE: dict[Language, str] = {
    "en": (
        "One to three plain sentences: take up their own words, ask at most one question, give no advice before you "
        "have listened, no lists."
    ),
    "zh": "用一到三句口语：接住对方自己的话，最多问一个问题，没听清之前不给建议，不列条目。",
}

_HEADINGS: dict[Language, dict[str, str]] = {
    "en": {
        "stage": "Stages",
        "sentiment": "Sentiments",
        "emotion": "Emotions",
        "intensity": "Intensities",
        "strategy": "Strategies",
    },
    "zh": {label: keys["zh"] for label, keys in KEYS.items()},
}

_FIXED: dict[Language, str] = {
    "en": "For this reply the following is fixed; keep it:",
    "zh": "这一次以下内容已经确定，请照写：",
}
_FOR_REPLY: dict[Language, str] = {"en": "For your reply:", "zh": "回复要求："}
_GIVEN: dict[Language, str] = {
    "en": "This step is already written; copy its text unchanged and continue from it:",
    "zh": "这一步已经写好，请原样抄写并由此继续：",
}


def system_prompt(
    language: Language = "en", control: Control = FREE, length: Length = "full", think: Think = "full"
) -> str:
    """The instruction that asks for the contract, or with `think="off"` for the reply alone."""
    blocks = [_ROLE[language]]
    if think == "off" and control.pins.strategy:
        # how to reply stands after the conversation (`steered`)
        control = msgspec.structs.replace(control, pins=msgspec.structs.replace(control.pins, strategy=None))
    elif think == "off":
        blocks += [_BRIEF["off"][language]] if length == "brief" else [_BRIEF["off"][language], _REPLY_ALONE[language]]
    elif length == "brief":
        blocks.append(_BRIEF[think][language])
    else:
        blocks += [_FORM[language], _labels(language), _REPLY[language]]
    blocks += _controlled(language, control)
    return "\n\n".join(blocks)


def steered(text: str, language: Language, control: Control) -> str:
    """The person's last message with a word on how the reply is to be given, where a strategy is pinned and nothing is
    thought. At the end of the conversation a small model keeps it; in front of it, it does not."""
    if control.pins.strategy is None:
        return text
    how = strategy_in_words(control.pins.strategy, language).how
    return (
        f"{text}\n\n({_FOR_REPLY[language]} {how})"
        if language == "en"
        else f"{text}\n\n（{_FOR_REPLY[language]}{how}）"
    )


def _labels(language: Language) -> str:
    join = ", " if language == "en" else "、"
    heading = {label: text + COLON[language] for label, text in _HEADINGS[language].items()}
    intensity = INTENSITY_DEFINITIONS[language]
    return "\n".join(
        [
            heading["stage"] + _defined(STAGES, language),
            heading["sentiment"] + join.join(value.name(language) for value in SENTIMENTS),
            heading["emotion"] + join.join(value.name(language) for value in EMOTIONS),
            heading["intensity"] + join.join(f"{number} {word}" for number, word in intensity.items()),
            heading["strategy"] + _defined(STRATEGIES, language),
        ]
    )


def _defined(vocabulary: Vocabulary, language: Language) -> str:
    if language == "en":
        return "; ".join(f"{value.id} ({value.definition})" for value in vocabulary)
    return "；".join(f"{value.zh}（{value.definition_zh}）" for value in vocabulary)


def _controlled(language: Language, control: Control) -> list[str]:
    blocks = []
    if control.pins.items():
        lines = [
            KEYS[label][language] + COLON[language] + write_value(label, value, language)
            for label, value in control.pins.items()
        ]
        blocks.append("\n".join([_FIXED[language], *lines]))
    for step in STEPS:
        if step in control.given:
            blocks.append(f"{_GIVEN[language]}\n<{step}>\n{control.given[step].strip()}\n</{step}>")
    return blocks
