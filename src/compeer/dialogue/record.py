"""Dialogue and Utterance: the record every corpus is turned into.

An utterance is kept as it was said; consecutive utterances of one speaker are merged only when rounds
are asked for (`compeer.dialogue.rounds`), so nothing of the original is lost. Labels hold canonical
identifiers of `compeer.reasoning.ontology`; what a corpus says beyond that goes into `extra`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from compeer.reasoning.ontology import VOCABULARIES, Language

Speaker = Literal["seeker", "supporter"]
Intensity = Annotated[int, Meta(ge=1, le=5)]


class Steps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The free texts of the three reasoning steps, written out for one supporter turn."""

    history: str
    emotion: str
    strategy: str


class Utterance(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One utterance. On a supporter's utterance, emotion, sentiment and intensity are the seeker's."""

    speaker: Speaker
    text: str
    images: tuple[str, ...] = ()
    seen: str | None = None  # what a picture or video shows, in words, where a corpus has that
    stage: str | None = None
    sentiment: str | None = None
    emotion: str | None = None
    intensity: Intensity | None = None
    strategy: str | None = None
    reasoning: Steps | None = None

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ValueError("text is empty")
        for label in ("stage", "sentiment", "emotion", "strategy"):
            _check_label(label, getattr(self, label))


class Dialogue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One conversation between a seeker and a supporter."""

    id: Annotated[str, Meta(min_length=1)]
    source: Annotated[str, Meta(min_length=1)]
    licence: str
    language: Language
    utterances: Annotated[tuple[Utterance, ...], Meta(min_length=1)]
    situation: str | None = None
    problem: str | None = None
    emotion: str | None = None  # the seeker's, at the start
    intensity: Intensity | None = None
    helpful: bool | None = None
    crisis: bool = False
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        _check_label("emotion", self.emotion)


def _check_label(label: str, value: str | None) -> None:
    if value is not None and value not in VOCABULARIES[label].ids:
        known = VOCABULARIES[label].find(value)
        hint = f"; write {known.id!r}" if known else f"; known: {', '.join(VOCABULARIES[label].ids)}"
        raise ValueError(f"unknown {label} {value!r}{hint}")
