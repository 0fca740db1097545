"""The cases of an arena: a conversation up to the point where somebody needs an answer, with its pictures.

A case is a row of JSON lines:

    {"id": "mesc/12#3", "language": "en", "history": [{"speaker": "seeker", "text": "…", "images": ["12/face.png"]}]}

Pictures are paths below one folder, which is named when the file is used. Dialogues of any corpus become cases by
cutting them at a round drawn by the paper's equation 1, so later and earlier moments come up as they do in CER.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta

from compeer.cer.item import Said
from compeer.cer.sample import sample_rounds
from compeer.dialogue import Dialogue, history, read_rows, rounds
from compeer.errors import UserError
from compeer.reasoning.ontology import Language


class Case(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One conversation to be answered; it ends with the seeker."""

    id: Annotated[str, Meta(min_length=1, max_length=500)]
    language: Language = "en"
    history: Annotated[tuple[Said, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if self.history[-1].speaker != "seeker":
            raise ValueError("the last turn must be the seeker's, since a reply follows it")

    @property
    def images(self) -> list[str]:
        """All pictures, in the order in which they are shown."""
        return [path for turn in self.history for path in turn.images]


def read_cases(path: str | Path) -> list[Case]:
    """All cases of a file; an id may occur once."""
    found = list(read_rows(path, Case))
    if not found:
        raise UserError(f"There are no cases in {path}.")
    unique([case.id for case in found], f"The case {{}} stands twice in {path}; each must have an id of its own.")
    return found


def cases_of(
    dialogues: Iterable[Dialogue], *, count: int | None = None, pictures: bool = False, seed: int = 0
) -> Iterator[Case]:
    """A case from each dialogue, at most `count`; with `pictures` only those whose history shows one.

    The round is drawn for each dialogue by itself, so more dialogues change nothing about the others' cases.
    """
    made = 0
    for dialogue in dialogues:
        if count is not None and made >= count:
            return
        usable = [one.index for one in rounds(dialogue) if one.seeker is not None]
        if not usable:
            continue
        digest = hashlib.sha256(f"{seed}\x1f{dialogue.id}".encode()).digest()
        place = sample_rounds(len(usable), 1, Random(digest))[0]
        told = tuple(Said(turn.speaker, turn.text, turn.images) for turn in history(dialogue, usable[place - 1]))
        case = Case(id=f"{dialogue.id}#{usable[place - 1]}", language=dialogue.language, history=told)
        if case.images or not pictures:
            made += 1
            yield case


def unique(names: Iterable[str], message: str) -> None:
    """UserError with the first name that stands there twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise UserError(message.format(name))
        seen.add(name)
