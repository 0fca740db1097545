"""The course of a SAGE dialogue as a state machine that asks no model.

    turn 1       the seeker's preset words, mood at its start
    turn 2 …     a change (clipped, added, capped, no floor), then words; the dialogue ends when the mood is at the
                 top or below the threshold, or the words say goodbye
    last turn    the supporter answers once more, and nobody judges that answer

The arithmetic is `compeer.policy.seeker`, shared with training against a seeker. A change that cannot be read
leaves the mood where it is and is counted.

The people SAGE plays: a JSON lines file of personas, each with a scene, a hidden goal and its opening words.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.policy import seeker as emotion
from compeer.policy.seeker import MoodRules, farewell, moved, outcome
from compeer.reasoning.ontology import Language, detect

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


End = Literal["content", "lost", "goodbye", "turns"]

#: the two words by which SAGE ends a dialogue, wherever they stand
_GOODBYE = re.compile("再见|拜拜")
_LABEL = re.compile(r"(?:change|变化)\s*[:：]", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d+")
_SIGNED = re.compile(r"[+-]\d+")
_WIDE = str.maketrans("＋－−–０１２３４５６７８９", "+---0123456789")
_SPACED = re.compile(r"([+-])\s+(?=\d)")

#: SAGE's five bands, each from its value on
BANDS = ((100, "S"), (70, "A"), (40, "B"), (10, "C"))


class Protocol(msgspec.Struct, frozen=True):
    """The arithmetic, and after how many turns of the seeker a dialogue is over."""

    rules: MoodRules
    turns: int


SAGE = Protocol(emotion.SAGE, 10)
RLVER = Protocol(emotion.RLVER, 8)


class Course:
    """One dialogue's mood. `turn` for what the seeker does, `answered` when the supporter has spoken."""

    def __init__(self, protocol: Protocol = SAGE, language: Language = "zh") -> None:
        self.protocol, self.language = protocol, language
        self.curve = [int(protocol.rules.start)]
        self.turns = 1  # the opening words
        self.unread = 0  # changes that could not be read
        self.end: End | None = None

    @property
    def mood(self) -> int:
        return self.curve[-1]

    def feel(self, change: int | None) -> int:
        """The mood after a change; None is a change that could not be read."""
        self.unread += change is None
        self.curve.append(int(moved(self.mood, change or 0, self.protocol.rules)))
        return self.mood

    def speak(self, words: str) -> End | None:
        """What the seeker says after it felt: whether that was the end."""
        self.turns += 1
        self.end = outcome(self.mood, self.protocol.rules) or ("goodbye" if goodbye(words, self.language) else None)
        return self.end

    def answered(self) -> End | None:
        """The supporter has spoken: whether that was the last turn."""
        if self.turns >= self.protocol.turns:
            self.end = "turns"
        return self.end


def goodbye(words: str, language: Language = "zh") -> bool:
    """Whether these words end a dialogue: in Chinese SAGE's two, in English a goodbye at either end.

    >>> goodbye("那先这样，拜拜"), goodbye("好的 bye"), goodbye("Thanks, bye!", "en")
    (True, False, True)
    """
    return _GOODBYE.search(words) is not None if language == "zh" else farewell(words)


def read_change(text: str) -> int | None:
    """The change a plan names: the first whole number after the last "Change:", signed or not.

    Without such a label only a number with a sign counts, because plans number their sentences.

    >>> read_change("He listened.\\nChange: -5"), read_change("变化：＋3（好一点）"), read_change("1. nothing new")
    (-5, 3, None)
    """
    plain = _SPACED.sub(r"\1", text.translate(_WIDE))
    labels = list(_LABEL.finditer(plain))
    found = _NUMBER.search(plain, labels[-1].end()) if labels else _SIGNED.search(plain)
    return int(found.group()) if found else None


def band(mood: float) -> str:
    """SAGE's letter for a mood.

    >>> [band(value) for value in (100, 99, 70, 40, 10, 9)]
    ['S', 'A', 'A', 'B', 'C', 'F']
    """
    return next((letter for least, letter in BANDS if mood >= least), "F")


def reward(mood: float) -> float:
    """RLVER's reward for a dialogue.

    >>> reward(45)
    0.45
    """
    return mood / 100
