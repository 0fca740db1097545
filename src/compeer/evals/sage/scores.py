"""SAGE's numbers: Sentient is the mean final mood, Success how many reached the top, Failure how many fell below 10.

A failure keeps its value in the mean; it is not set to zero.

A released SAGE log once more: our own state machine over the changes that were recorded.

Nothing is asked. Each dialogue's recorded changes go through `machine.Course`; every value on the way, the end, the
final value and its band are compared with what the log says. What is not equal is listed with its reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.evals.sage.machine import SAGE, Course, Protocol, band, read_change
from compeer.policy.seeker import outcome
from compeer.statistics import Figure, mean_figure


def figures(final: Sequence[int], turns: Sequence[int] = ()) -> tuple[Figure, ...]:
    """The table's columns first, then the bands and the mean length."""
    ends = Counter(outcome(mood, SAGE.rules) for mood in final)
    bands = Counter(band(mood) for mood in final)
    count = len(final)
    return (
        mean_figure("Sentient", final),
        Figure("Success", ends["content"], n=count),
        Figure("Failure", ends["lost"], n=count),
        *(Figure(f"band {letter}", bands[letter], n=count) for letter in "SABCF"),
        *((mean_figure("turns", turns),) if turns else ()),
    )


class Planning(msgspec.Struct):
    """The plan of a turn; of its fields only the change counts here."""

    change: Any = None


class Turn(msgspec.Struct):
    """One message of a released dialogue."""

    role: str
    content: str = ""
    emotion: float | None = msgspec.field(name="emotion-point", default=None)
    planning: Planning | None = None


class Recorded(msgspec.Struct):
    """One released dialogue."""

    id: str
    emo_point: float
    history: list[Turn]
    emo_state: str = ""


class Difference(msgspec.Struct, frozen=True):
    """One value that is not the recorded one."""

    dialogue: str
    turn: int  # of the seeker, from 1
    what: str
    recorded: Any
    ours: Any
    reason: str


class Replayed(msgspec.Struct, frozen=True):
    """One dialogue, by our arithmetic."""

    id: str
    curve: tuple[int, ...]
    end: str | None
    recorded: float


class Replay(msgspec.Struct, frozen=True):
    """A whole log."""

    log: str
    dialogues: int
    figures: tuple[Figure, ...]
    values: int  # emotion values compared
    equal: int
    differences: tuple[Difference, ...]
    curves: tuple[Replayed, ...]


def replay(log: Path, protocol: Protocol = SAGE) -> Replay:
    """Recompute a log, a file or a folder with one; UserError when it is none."""
    path = _file(log)
    differences: list[Difference] = []
    curves: list[Replayed] = []
    values = equal = 0
    for dialogue in read_rows(path, Recorded):
        course, found, checked = _follow(dialogue, protocol)
        differences += found
        values += checked
        equal += checked - sum(one.what == "emotion" for one in found)
        curves.append(Replayed(dialogue.id, tuple(course.curve), course.end, dialogue.emo_point))
    if not curves:
        raise UserError(f"{path} holds no dialogues.")
    final = [one.curve[-1] for one in curves]
    numbers = figures(final, [len(one.curve) for one in curves])
    return Replay(str(path), len(curves), numbers, values, equal, tuple(differences), tuple(curves))


def _follow(dialogue: Recorded, protocol: Protocol) -> tuple[Course, list[Difference], int]:
    course = Course(protocol)
    found: list[Difference] = []
    checked = turn = 0

    def compare(what: str, recorded: Any, ours: Any, reason: str) -> None:
        if recorded != ours:
            found.append(Difference(dialogue.id, turn, what, recorded, ours, reason))

    for message in dialogue.history:
        if course.end == "turns" or (course.end and message.role == "assistant"):
            compare("length", "it goes on", f"it ends: {course.end}", "the rules end the dialogue here")
            course.end = None
        if message.role == "assistant":
            course.answered()
            continue
        turn += 1
        reason = "the recorded value is not what the rules give for the start"
        if turn > 1:
            given = message.planning.change if message.planning else None
            change = given if isinstance(given, int) else read_change(f"Change: {given}")
            course.feel(change)
            reason = (
                f"the recorded change {given!r} cannot be read, so the mood stays"
                if change is None
                else f"{course.curve[-2]} with a change of {change} gives {course.mood} by the rules"
            )
        checked += 1
        compare("emotion", message.emotion, course.mood, reason)
        if turn > 1:
            course.speak(message.content)
    if course.end is None:
        compare("length", f"it ends after {turn} turns", "it goes on", "no rule ends the dialogue here")
    compare("final", dialogue.emo_point, course.mood, "the final value is not that of the last turn by the rules")
    if dialogue.emo_state:
        letter = dialogue.emo_state.rpartition("-")[2]
        compare("band", letter, band(course.mood), "the recorded letter is not the final value's band")
    return course, found, checked


def _file(log: Path) -> Path:
    if not log.is_dir():
        return log
    files = sorted(log.rglob("*.jsonl"))
    if len(files) != 1:
        raise UserError(f"{log} holds {len(files)} .jsonl files; name one of them.")
    return files[0]
