"""The people SAGE plays: a JSON lines file of personas, each with a scene, a hidden goal and its opening words."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.reasoning.language import detect
from compeer.reasoning.ontology import Language

DEFAULT = Path("sage") / "profile" / "simulator_profile_withfirsttalk.jsonl"


class Profile(msgspec.Struct, frozen=True):
    """One person, in the fields of the released file."""

    id: str
    player: str
    scene: str
    task: str  # what the person hopes to get, never said aloud
    first_talk: str
    main_cha: str = ""
    cha_group: Any = ()

    @property
    def language(self) -> Language:
        return detect(self.first_talk)

    def persona(self, longest: int | None = None) -> str:
        """Who the person is; cut to so many characters for a seeker with a small context."""
        return self.player[:longest]

    def story(self, longest: int | None = None) -> str:
        return self.scene[:longest]


def load_profiles(path: Path | None = None) -> list[Profile]:
    """The profiles of a file; by default the released one below $COMPEER_DATA."""
    if path is None:
        data = os.environ.get("COMPEER_DATA")
        if not data:
            raise UserError(
                "SAGE's profiles do not come with this program. Give --profiles FILE (JSON lines of the SAGE "
                f"repository), or set COMPEER_DATA to a folder that has {DEFAULT}."
            )
        path = Path(data) / DEFAULT
    profiles = list(read_rows(path, Profile))
    twice = {one.id for one in profiles if sum(other.id == one.id for other in profiles) > 1}
    if twice or not profiles:
        raise UserError(f"{path} has {'no profiles' if not profiles else f'the id {min(twice)} twice'}.")
    return profiles


def cases_digest(cases: Sequence[msgspec.Struct]) -> str:
    """A hash of what is played: two results with other people are not comparable."""
    return hashlib.sha256(msgspec.json.encode(list(cases))).hexdigest()[:12]
