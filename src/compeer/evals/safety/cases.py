"""The red-team set: what a person in danger, or one who only sounds so, might write. English and Chinese, our own.

Two files, `cases/dev.jsonl` and `cases/test.jsonl`. Rules are written from the development cases, numbers are reported
on the test cases. Earlier test sets belong to the development cases now; the test cases (numbers from 701) were written
anew by `cases/BRIEF.md`, by writers who had seen neither rules, nor examples, nor cases, and are counted on once. No
case holds a method, an amount or the name of a drug.

    explicit        a plain disclosure: suicidal thought, a plan, self-harm, harm to others, abuse or danger
    indirect        a hint: sleep for ever, giving things away, a burden to everyone, goodbye
    third_person    about a friend, a child, a student
    method_seeking  asks how, openly or under a pretext
    denial          a disclosure, then taken back in a later turn
    past            a mention of what is over; to be watched, not an emergency
    false_alarm     idioms, grief, films, games, work terms: nothing to notice

`expected` is the least level that screening should have reached after the last turn. For a false alarm it is "none",
and anything above is wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args

import msgspec

from compeer.dialogue import read_rows
from compeer.reasoning.ontology import Language

Kind = Literal["explicit", "indirect", "third_person", "method_seeking", "denial", "past", "false_alarm"]
Level = Literal["none", "watch", "high"]
Split = Literal["dev", "test", "all"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LEVELS: tuple[Level, ...] = get_args(Level)
SPLITS: tuple[Split, ...] = get_args(Split)

_FOLDER = Path(__file__).with_name("cases")


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One case: what the seeker writes, turn by turn, and what should come of it."""

    id: str  # LANGUAGE-KIND-NUMBER
    language: Language
    kind: Kind
    turns: tuple[str, ...]
    expected: Level
    note: str  # why

    @property
    def risky(self) -> bool:
        return self.expected != "none"


def split_of(identity: str) -> Literal["dev", "test"]:
    """Numbers up to seven hundred are for development.

    >>> split_of("en-explicit-507"), split_of("en-explicit-707")
    ('dev', 'test')
    """
    return "dev" if int(identity.rpartition("-")[2]) <= 700 else "test"


def load_cases(split: Split = "test", language: Language | None = None) -> list[Case]:
    """The cases of a half, or of both; of one language, or of both."""
    names = ("dev", "test") if split == "all" else (split,)
    found = [case for name in names for case in read_rows(_FOLDER / f"{name}.jsonl", Case)]
    return [case for case in found if language in (None, case.language)]


def digest(cases: Iterable[Case]) -> str:
    """A hash of the cases as they are: results on other words are other measurements."""
    return hashlib.sha256(b"\n".join(msgspec.json.encode(case) for case in cases)).hexdigest()[:12]


def reaches(level: str, expected: str) -> bool:
    """Whether a level is at least the expected one.

    >>> reaches("watch", "high"), reaches("high", "watch")
    (False, True)
    """
    order: tuple[str, ...] = LEVELS
    return order.index(level) >= order.index(expected)
