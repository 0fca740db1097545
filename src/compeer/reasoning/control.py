"""Control: any conclusion can be pinned, any step's text can be given; the model continues from there.

A `Control` is what a person (or a training script) fixes before the model writes. The grammar makes a
model keep it while decoding; `violations` checks what came back, for endpoints that know no grammar.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.reasoning.ontology import EMOTIONS, INTENSITIES, VOCABULARIES, fits
from compeer.reasoning.parse import Parsed, Problem
from compeer.reasoning.schema import KEYS, LABELS, STEPS, TAG, Reasoning, has_words, match_label_line


class ControlError(UserError, ValueError):
    """A pin or a given step that cannot be kept, with what would be accepted."""


class Pins(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fixed conclusions, as canonical identifiers; None leaves the model free."""

    stage: str | None = None
    sentiment: str | None = None
    emotion: str | None = None
    intensity: int | None = None
    strategy: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, str | int] | Iterable[tuple[str, str | int]]) -> Pins:
        """Pins from names in any language or any corpus's spelling; ControlError says what is known."""
        known: dict[str, Any] = {}
        for name, value in values.items() if isinstance(values, Mapping) else values:
            label = label_named(name)
            if label in known:
                raise ControlError(f"{label} is pinned twice")
            known[label] = _value(label, value)
        pins = cls(**known)
        if pins.sentiment and pins.emotion and not fits(pins.emotion, pins.sentiment):
            possible = " or ".join(EMOTIONS.get(pins.emotion).sentiments)
            raise ControlError(
                f"sentiment={pins.sentiment} and emotion={pins.emotion} contradict each other: "
                f"{pins.emotion} is {possible}. Pin one of them, or both so that they fit."
            )
        return pins

    @classmethod
    def parse(cls, pairs: Iterable[str]) -> Pins:
        """Pins from `key=value` words, as on a command line."""
        values: list[tuple[str, str | int]] = []
        for pair in pairs:
            name, equals, value = pair.partition("=")
            if not equals or not name.strip() or not value.strip():
                raise ControlError(f"a pin is written key=value, for example strategy=question; got {pair!r}")
            values.append((name, value))
        return cls.of(values)

    def items(self) -> list[tuple[str, str | int]]:
        """The pins that are set, in the order of the contract."""
        return [(label, value) for label in KEYS if (value := getattr(self, label)) is not None]


class Control(msgspec.Struct, frozen=True):
    """Pins and given step texts."""

    pins: Pins = Pins()
    given: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        for step, text in self.given.items():
            check_given(step, text)

    def __bool__(self) -> bool:
        return bool(self.pins.items() or self.given)


FREE = Control()


def edit(reasoning: Reasoning, step: str, text: str | None = None, **labels: str | int) -> Control:
    """Control that keeps every step before `step`, fixes this one as edited, and leaves the later ones open.

    `text` replaces the step's free text (None keeps it). `labels` fixes the step's own conclusions; those
    not named are written anew, because they should follow from the edited text.
    """
    if step not in STEPS:
        raise ControlError(f"there is no step {step!r}; the steps are {', '.join(STEPS)}")
    foreign = set(labels) - set(LABELS[step])
    if foreign:
        raise ControlError(f"{', '.join(sorted(foreign))} does not belong to the step {step}")
    earlier = STEPS[: STEPS.index(step)]
    # what the model concluded before stands as it is, even where sentiment and emotion do not fit
    kept = {label: reasoning.label(label) for before in earlier for label in LABELS[before]}
    given = {before: reasoning.text(before) for before in earlier}
    given[step] = reasoning.text(step) if text is None else text
    return Control(Pins(**kept, **dict(Pins.of(labels).items())), given)  # type: ignore[arg-type]


def violations(parsed: Parsed, control: Control) -> tuple[Problem, ...]:
    """Every pin and given text that an output does not keep."""
    found = []
    for label, wanted in control.pins.items():
        got = parsed.labels.get(label)
        if got != wanted:
            found.append(Problem("pin", f"{label} was pinned to {wanted!r}; the output says {got!r}"))
    for step, text in control.given.items():
        if parsed.texts.get(step) != text.strip():
            found.append(Problem("given", f"the text given for <{step}> was changed", step))
    return tuple(found)


def check_given(step: str, text: str) -> None:
    """A given text must be free text: no tags, no labelled lines, some words."""
    if step not in STEPS:
        raise ControlError(f"there is no step {step!r}; the steps are {', '.join(STEPS)}")
    if not has_words(text):
        raise ControlError(f"the text given for <{step}> is empty")
    if TAG.search(text):
        raise ControlError(f"the text given for <{step}> contains a reasoning tag; write it without")
    if any(match_label_line(step, line) for line in text.split("\n")):
        raise ControlError(f"the text given for <{step}> contains a labelled line; pin the label instead")


def label_named(name: str) -> str:
    """The label of this name, in either language; ControlError suggests the nearest one."""
    wanted = name.strip().casefold()
    for label, keys in KEYS.items():
        if wanted in (label, *(key.casefold() for key in keys.values())):
            return label
    close = difflib.get_close_matches(wanted, KEYS, n=1)
    hint = f"Did you mean {close[0]}? " if close else ""
    raise ControlError(f"unknown pin {name.strip()!r}. {hint}What can be pinned: {', '.join(KEYS)}.")


def _value(label: str, value: str | int) -> str | int:
    written = str(value).strip()
    if label == "intensity":
        if written not in map(str, INTENSITIES):
            raise ControlError(f"intensity is a whole number from 1 to 5; got {written!r}")
        return int(written)
    vocabulary = VOCABULARIES[label]
    found = vocabulary.find(written)
    if found is None:
        close = difflib.get_close_matches(written.casefold(), vocabulary.ids, n=1)
        hint = f"Did you mean {close[0]!r}? " if close else ""
        raise ControlError(f"unknown {label} {written!r}. {hint}Known: {', '.join(vocabulary.ids)}.")
    return found.id
