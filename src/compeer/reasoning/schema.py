"""The shape of the reasoning: three steps, each free text and then its conclusions on labelled lines.

    <think>
    <history>   free text, Stage
    <emotion>   free text, Sentiment, Emotion, Intensity
    <strategy>  free text, Strategy
    </think>
    the reply

This file is the only place that knows which tags and which label keys there are.
"""

from __future__ import annotations

import re

import msgspec

from compeer.reasoning.ontology import INTENSITIES, VOCABULARIES, Language

STEPS: tuple[str, ...] = ("history", "emotion", "strategy")

#: step -> its labels, in the order of their lines
LABELS: dict[str, tuple[str, ...]] = {
    "history": ("stage",),
    "emotion": ("sentiment", "emotion", "intensity"),
    "strategy": ("strategy",),
}

#: label -> its key on the labelled line
KEYS: dict[str, dict[Language, str]] = {
    "stage": {"en": "Stage", "zh": "阶段"},
    "sentiment": {"en": "Sentiment", "zh": "情感倾向"},
    "emotion": {"en": "Emotion", "zh": "情绪"},
    "intensity": {"en": "Intensity", "zh": "强度"},
    "strategy": {"en": "Strategy", "zh": "策略"},
}
COLON: dict[Language, str] = {"en": ": ", "zh": "："}

#: the tags of a complete output, in order; "/" marks a closing one
TAG_SEQUENCE: tuple[str, ...] = (
    "think", "history", "/history", "emotion", "/emotion", "strategy", "/strategy", "/think",
)  # fmt: skip

#: at most this much white space may stand inside a tag, or between a key and its colon: the grammar relies on
#: the bound (prose must not turn into a labelled line), and so does reading in linear time
GAP = 4

# ASCII: otherwise "İ" and "ı" count as an "i" when letter case is ignored
_SPACE = rf"[ \t]{{0,{GAP}}}"
_TAG_FLAGS = re.IGNORECASE | re.ASCII
TAG = re.compile(rf"<{_SPACE}(/?){_SPACE}(think|history|emotion|strategy){_SPACE}>", _TAG_FLAGS)
#: what may be the beginning of a tag, at the end of a text that is still being written
TAG_BEGINNING = re.compile(rf"<{_SPACE}/?{_SPACE}[a-z]{{0,8}}{_SPACE}\Z", _TAG_FLAGS)
LONGEST_TAG = len("</strategy>") + 3 * GAP

_KEY_NAMES = {
    step: {key.casefold(): (label, language) for label in labels for language, key in KEYS[label].items()}
    for step, labels in LABELS.items()
}
_LABEL_LINES = {
    step: re.compile(rf"\s*+((?a:{'|'.join(keys)}))\s{{0,{GAP}}}[:：](.*)", re.IGNORECASE | re.DOTALL)
    for step, keys in _KEY_NAMES.items()
}


class HistoryStep(msgspec.Struct, frozen=True):
    """What the person is facing and where the conversation stands."""

    text: str
    stage: str


class EmotionStep(msgspec.Struct, frozen=True):
    """What they feel, why, and how strongly."""

    text: str
    sentiment: str
    emotion: str
    intensity: int


class StrategyStep(msgspec.Struct, frozen=True):
    """What would help now, and why this way."""

    text: str
    strategy: str


class Reasoning(msgspec.Struct, frozen=True):
    """The three steps, labels as canonical identifiers; `language` is the one they are written in."""

    history: HistoryStep
    emotion: EmotionStep
    strategy: StrategyStep
    language: Language = "en"

    def text(self, step: str) -> str:
        text: str = getattr(self, step).text
        return text

    def label(self, label: str) -> str | int:
        """The conclusion on one labelled line, e.g. `label("intensity") == 4`."""
        for step, labels in LABELS.items():
            if label in labels:
                value: str | int = getattr(getattr(self, step), label)
                return value
        raise KeyError(label)

    @classmethod
    def of(cls, texts: dict[str, str], labels: dict[str, str | int], language: Language = "en") -> Reasoning:
        """Reasoning from step texts and label values (canonical identifiers)."""
        return cls(
            HistoryStep(texts["history"], str(labels["stage"])),
            EmotionStep(texts["emotion"], str(labels["sentiment"]), str(labels["emotion"]), int(labels["intensity"])),
            StrategyStep(texts["strategy"], str(labels["strategy"])),
            language,
        )


def match_label_line(step: str, line: str) -> tuple[str, Language, str] | None:
    """(label, language of its key, value as written) if this line is one of the step's labelled lines.

    >>> match_label_line("history", " stage : Exploration ")
    ('stage', 'en', 'Exploration')
    >>> match_label_line("history", "At this stage: nothing") is None
    True
    """
    found = _LABEL_LINES[step].match(line)
    if not found:
        return None
    label, language = _KEY_NAMES[step][found.group(1).casefold()]
    return label, language, found.group(2).strip()


def could_become_label_line(step: str, beginning: str) -> bool:
    """Whether a line that begins like this may still turn out to be a labelled line of the step."""
    stripped = beginning.lstrip().casefold()
    for key in _KEY_NAMES[step]:
        if key.startswith(stripped):
            return True
        if stripped.startswith(key):
            rest = stripped[len(key) :]
            if len(rest) - len(rest.lstrip()) <= GAP and rest.lstrip()[:1] in ("", ":", "："):
                return True
    return False


def read_value(label: str, written: str, language: Language) -> str | int | None:
    """The canonical value of what stands on a labelled line, or None when it is not one.

    >>> read_value("strategy", "Reflection of  Feelings", "en"), read_value("intensity", "6", "en")
    ('reflection of feelings', None)
    """
    if label == "intensity":
        return int(written) if written in map(str, INTENSITIES) else None
    value = VOCABULARIES[label].named(written, language)
    return value.id if value else None


def write_value(label: str, value: str | int, language: Language) -> str:
    """The value as it is written on its line."""
    return str(value) if label == "intensity" else VOCABULARIES[label].get(str(value)).name(language)


def label_line(label: str, value: str | int, language: Language) -> str:
    """A whole labelled line.

    >>> label_line("stage", "exploration", "en")
    'Stage: exploration'
    """
    return KEYS[label][language] + COLON[language] + write_value(label, value, language)


def render_step(reasoning: Reasoning, step: str) -> str:
    """One step without its tags: free text and labelled lines."""
    lines = [label_line(label, reasoning.label(label), reasoning.language) for label in LABELS[step]]
    return "\n".join([reasoning.text(step), *lines])


def has_words(text: str) -> bool:
    """Whether there is anything to read: at least one letter, digit or Chinese character."""
    return any(character.isalnum() for character in text)
