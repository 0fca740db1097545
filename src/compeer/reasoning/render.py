"""Reasoning and reply as a model writes them. What would not parse back to the same is refused."""

from __future__ import annotations

from compeer.reasoning.parse import Parsed, parse
from compeer.reasoning.schema import COLON, KEYS, LABELS, STEPS, Reasoning, write_value


def with_thinking(thinking: str, reply: str) -> str:
    """One text of what a server or a provider sent in two parts."""
    return f"<think>\n{thinking}\n</think>\n{reply}" if thinking else reply


def render(reasoning: Reasoning, response: str) -> str:
    """The full output. Raises ValueError when a text holds tags, labelled lines or no words.

    >>> from compeer.reasoning.schema import Reasoning
    >>> r = Reasoning.of(
    ...     {"history": "Lost the job.", "emotion": "Ashamed.", "strategy": "Ask first."},
    ...     {"stage": "exploration", "sentiment": "negative", "emotion": "shame", "intensity": 4,
    ...      "strategy": "question"})
    >>> print(render(r, "What happened?"))
    <think>
    <history>
    Lost the job.
    Stage: exploration
    </history>
    <emotion>
    Ashamed.
    Sentiment: negative
    Emotion: shame
    Intensity: 4
    </emotion>
    <strategy>
    Ask first.
    Strategy: question
    </strategy>
    </think>
    What happened?
    """
    steps = "\n".join(f"<{step}>\n{render_step(reasoning, step)}\n</{step}>" for step in STEPS)
    output = f"<think>\n{steps}\n</think>\n{response}"
    parsed = parse(output)
    if parsed.problems:
        raise ValueError("cannot be rendered: " + "; ".join(parsed.problems))
    if parsed.reasoning != reasoning or parsed.response != response:
        raise ValueError("cannot be rendered: texts must not begin or end with white space")
    return output


def named_labels(parsed: Parsed) -> dict[str, str]:
    """The conclusions as a person of this language names them."""
    language = parsed.language or "en"
    return {label: write_value(label, value, language) for label, value in parsed.labels.items()}


def chips(parsed: Parsed) -> list[str]:
    """The conclusions in short: stage, feeling with its intensity, strategy."""
    named = named_labels(parsed)
    if "emotion" in named and "intensity" in named:
        named["emotion"] += f" {named['intensity']}/5"
    return [named[label] for label in ("stage", "emotion", "strategy") if label in named]


def render_step(reasoning: Reasoning, step: str) -> str:
    """One step without its tags: free text and labelled lines."""
    lines = [
        KEYS[label][reasoning.language]
        + COLON[reasoning.language]
        + write_value(label, reasoning.label(label), reasoning.language)
        for label in LABELS[step]
    ]
    return "\n".join([reasoning.text(step), *lines])
