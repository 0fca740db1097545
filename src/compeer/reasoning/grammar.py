"""What a controlled output may look like, for every kind of decoder.

A plan is a sequence of parts: literal text, one of several strings, or prose. From the plan come a GBNF
grammar (llama.cpp), a regular expression (vLLM's `structured_outputs`, llguidance for transformers) and
the prefix that needs no decoding at all. Everything a plan admits parses as complete and keeps the
control: the tests sample from it.

Prose is one paragraph without angle brackets that ends like a sentence. Its first characters hold no
colon, so that it can never be read as a labelled line, and its length is bounded, so that a model that
does not know when to stop still finishes. With brief thinking the bound of a step is that of one short sentence.

A pinned strategy reaches the words: the reply is then one sentence that begins in one of the ways in which that
strategy is said (`strategies_in_words.json`; the model chooses among them), ends with a question mark if it is a
question, and has none if it is not. `reply_plan` is the same for a reply without thinking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec

from compeer.reasoning.control import FREE, Control
from compeer.reasoning.ontology import EMOTIONS, INTENSITIES, SENTIMENTS, VOCABULARIES, Language
from compeer.reasoning.schema import COLON, KEYS, LABELS, STEPS, write_value
from compeer.typed import from_json


class Literal(msgspec.Struct, frozen=True):
    text: str


class OneOf(msgspec.Struct, frozen=True):
    options: tuple[str, ...]


class Prose(msgspec.Struct, frozen=True):
    """`opening` characters without a colon, at most `most` more, then the end of a sentence."""

    language: Language
    opening: int
    most: int


class Sentence(msgspec.Struct, frozen=True):
    """The rest of one sentence, at most `most` characters, that ends as a question or as something else."""

    language: Language
    question: bool
    most: int


Part = Literal | OneOf | Prose | Sentence


class StrategyInWords(msgspec.Struct, frozen=True):
    """How a strategy is said: what a model is told, and how such a reply begins."""

    how: str
    openings: tuple[str, ...]


# longer than the longest key with the white space that may follow it (see schema.GAP), in either language
_OPENING: dict[Language, int] = {"en": 20, "zh": 13}
_MOST: dict[Language, int] = {"en": 480, "zh": 200}
_BRIEF: dict[Language, int] = {"en": 150, "zh": 60}
_SENTENCE: dict[Language, int] = {"en": 170, "zh": 60}
_FIRST: dict[Language, str] = {"en": "A-Za-z0-9", "zh": "一-鿿A-Za-z0-9"}
_END: dict[Language, str] = {"en": ".!?", "zh": "。！？!?"}
_MARK: dict[Language, str] = {"en": "?", "zh": "？"}
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_NEVER = r"<>\x00-\x1F\x7F"
_INSIDE = _NEVER + ".!?。！？"  # what the inside of one sentence never holds


def plan(language: Language, control: Control = FREE, *, brief: bool = False) -> tuple[Part, ...]:
    """The parts of an output that keeps this control; `brief`: with one short sentence for each step."""
    most = _BRIEF[language] if brief else _MOST[language]
    parts: list[Part] = [Literal("<think>\n")]
    for step in STEPS:
        parts.append(Literal(f"<{step}>\n"))
        given = control.given.get(step)
        parts.append(Literal(given.strip()) if given else Prose(language, _OPENING[language], most))
        parts += _label_parts(step, language, control)
        parts.append(Literal(f"\n</{step}>\n"))
    parts.append(Literal("</think>\n"))
    parts += reply_plan(language, control) or (Prose(language, 0, _MOST[language]),)
    return _joined(parts)


def reply_plan(language: Language, control: Control) -> tuple[Part, ...] | None:
    """The parts of a reply that says the pinned strategy in words; None where no strategy is pinned."""
    if control.pins.strategy is None:
        return None
    openings = strategy_in_words(control.pins.strategy, language).openings
    return OneOf(openings), Sentence(language, control.pins.strategy == "question", _SENTENCE[language])


@cache
def _strategies_in_words() -> dict[Language, dict[str, StrategyInWords]]:
    stored = Path(__file__).with_name("strategies_in_words.json").read_bytes()
    return from_json(stored, dict[Language, dict[str, StrategyInWords]])


def strategy_in_words(strategy: str, language: Language) -> StrategyInWords:
    """How this strategy is said in this language.

    >>> strategy_in_words("question", "en").openings[:3]
    ('What ', 'How ', 'When ')
    """
    return _strategies_in_words()[language][strategy]


def forced_end(text: str, language: Language, *, step: bool, brief: bool = False) -> bool:
    """Whether a step's text or a reply is as long as a plan lets it be: then the grammar has ended it, not the model.

    >>> forced_end("a" * 481 + ".", "en", step=False), forced_end("Short.", "en", step=False)
    (True, False)
    """
    most = _BRIEF[language] if step and brief else _MOST[language]
    return len(text.strip()) >= most + (_OPENING[language] if step else 0) + 2


def prefix(parts: Sequence[Part]) -> str:
    """The part of the output that is known beforehand and can be given to the model instead of decoded."""
    return parts[0].text if parts and isinstance(parts[0], Literal) else ""


def after_prefix(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The plan for what is left to decode once `prefix` has been given."""
    return tuple(parts[1:]) if parts and isinstance(parts[0], Literal) else tuple(parts)


def gbnf(parts: Sequence[Part]) -> str:
    """The plan as a GBNF grammar for llama.cpp."""
    return "root ::= " + " ".join(_written(part, _quoted, " ", "(") for part in parts) + "\n"


def regex(parts: Sequence[Part]) -> str:
    """The plan as a regular expression without look-around."""
    return "".join(_written(part, _escaped, "", "(?:") for part in parts)


def _label_parts(step: str, language: Language, control: Control) -> list[Part]:
    def key(label: str) -> Literal:
        return Literal(f"\n{KEYS[label][language]}{COLON[language]}")

    pins = dict(control.pins.items())
    if step != "emotion":
        (label,) = LABELS[step]
        values = [pins[label]] if label in pins else VOCABULARIES[label].ids
        return [key(label), OneOf(tuple(write_value(label, value, language) for value in values))]
    # an emotion only together with a sentiment it can carry, unless both are fixed already
    fixed = "sentiment" in pins and "emotion" in pins
    pairs = [
        write_value("sentiment", sentiment, language) + key("emotion").text + write_value("emotion", e.id, language)
        for sentiment in SENTIMENTS.ids
        for e in EMOTIONS
        if (fixed or sentiment in e.sentiments)
        and sentiment == pins.get("sentiment", sentiment)
        and e.id == pins.get("emotion", e.id)
    ]
    intensities = [pins["intensity"]] if "intensity" in pins else INTENSITIES
    return [key("sentiment"), OneOf(tuple(pairs)), key("intensity"), OneOf(tuple(str(i) for i in intensities))]


def _joined(parts: list[Part]) -> tuple[Part, ...]:
    """Neighbouring literals as one; a choice of one is a literal."""
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, OneOf) and len(part.options) == 1:
            part = Literal(part.options[0])
        if isinstance(part, Literal) and joined and isinstance(joined[-1], Literal):
            joined[-1] = Literal(joined[-1].text + part.text)
        else:
            joined.append(part)
    return tuple(joined)


def _written(part: Part, exactly: Callable[[str], str], gap: str, group: str) -> str:
    """A part in one of the two notations. Character classes and bounds are the same in both."""
    if isinstance(part, Literal):
        return exactly(part.text)
    if isinstance(part, OneOf):
        return group + f"{gap}|{gap}".join(map(exactly, part.options)) + ")"
    if isinstance(part, Sentence):
        return f"[^{_INSIDE}]{{0,{part.most}}}{gap}[{_ends(part)}]"
    opening = f"[^:：{_NEVER}]{{{part.opening}}}{gap}" if part.opening else ""
    return f"[{_FIRST[part.language]}]{gap}{opening}[^{_NEVER}]{{0,{part.most}}}{gap}[{_END[part.language]}]"


def _ends(part: Sentence) -> str:
    return _MARK[part.language] if part.question else _END[part.language].replace("?", "").replace("？", "")


def _quoted(text: str) -> str:
    """A GBNF string."""
    return '"' + text.translate(_ESCAPES) + '"'


def _escaped(text: str) -> str:
    """A regular expression for exactly this text; only what needs an escape gets one."""
    return re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", text).replace("\n", "\\n").replace("\t", "\\t")
