"""SAGE's arithmetic without any model: how the mood moves, when a dialogue ends, the figures, released logs checked.

    turn 1       the seeker's preset words, mood at its start
    turn 2 …     a change (clipped, added, capped, no floor), then words; the dialogue ends when the mood is at the
                 top or below the threshold, or the words say goodbye
    last turn    the supporter answers once more, and nobody judges that answer

The rules are those of `compeer.policy.seeker`, shared with training against a seeker. A change that cannot be read
leaves the mood where it is and is counted.

Sentient is the mean final mood, Success how many reached the top, Failure how many fell below 10. A failure keeps its
value in the mean; it is not set to zero. `replay` sends the changes of a released log through the same rules and lists
every value that differs, with the reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.policy.seeker import SAGE, farewell, moved, outcome
from compeer.reasoning.ontology import Language
from compeer.statistics import Figure, mean_figure

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


#: turns of the seeker after which a dialogue is over
TURNS = 10


class MoodCourse:
    """The mood over one dialogue: `feel`, then `speak` for each turn of the seeker, `answered` for the supporter's."""

    def __init__(self, language: Language = "zh") -> None:
        self.language = language
        self.curve = [int(SAGE.start)]
        self.turns = 1  # the opening words
        self.unread = 0  # changes that could not be read
        self.end: End | None = None

    @property
    def mood(self) -> int:
        return self.curve[-1]

    def feel(self, change: int | None) -> int:
        """The mood after a change; None is a change that could not be read."""
        self.unread += change is None
        self.curve.append(int(moved(self.mood, change or 0, SAGE)))
        return self.mood

    def speak(self, words: str) -> End | None:
        """What the seeker says after it felt: whether that was the end."""
        self.turns += 1
        self.end = outcome(self.mood, SAGE) or ("goodbye" if goodbye(words, self.language) else None)
        return self.end

    def answered(self) -> End | None:
        """The supporter has spoken: whether that was the last turn."""
        if self.turns >= TURNS:
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


def figures(curves: Sequence[Sequence[int]]) -> tuple[Figure, ...]:
    """The table's columns first, then the bands and the mean length."""
    final = [curve[-1] for curve in curves]
    ends = Counter(outcome(mood, SAGE) for mood in final)
    bands = Counter(band(mood) for mood in final)
    count = len(final)
    return (
        mean_figure("Sentient", final),
        Figure("Success", ends["content"], n=count),
        Figure("Failure", ends["lost"], n=count),
        *(Figure(f"band {letter}", bands[letter], n=count) for letter in "SABCF"),
        mean_figure("turns", [len(curve) for curve in curves]),
    )


class RecordedPlan(msgspec.Struct):
    """The plan of a turn; of its fields only the change counts here."""

    change: Any = None


class RecordedTurn(msgspec.Struct):
    role: str
    content: str = ""
    emotion: float | None = msgspec.field(name="emotion-point", default=None)
    planning: RecordedPlan | None = None


class RecordedDialogue(msgspec.Struct):
    id: str
    emo_point: float
    history: list[RecordedTurn]
    emo_state: str = ""


class ReplayDifference(msgspec.Struct, frozen=True):
    dialogue: str
    turn: int  # of the seeker, from 1
    what: str
    recorded: Any
    ours: Any
    reason: str


class ReplayedDialogue(msgspec.Struct, frozen=True):
    id: str
    curve: tuple[int, ...]
    end: str | None
    recorded: float


class Replay(msgspec.Struct, frozen=True):
    log: str
    dialogues: int
    figures: tuple[Figure, ...]
    values: int  # emotion values compared
    equal: int
    differences: tuple[ReplayDifference, ...]
    curves: tuple[ReplayedDialogue, ...]


def replay(log: Path) -> Replay:
    """Recompute a log: a file, or a folder with one file."""
    path = _file(log)
    differences: list[ReplayDifference] = []
    curves: list[ReplayedDialogue] = []
    values = equal = 0
    for dialogue in read_rows(path, RecordedDialogue):
        course, found, checked = _follow(dialogue)
        differences += found
        values += checked
        equal += checked - sum(one.what == "emotion" for one in found)
        curves.append(ReplayedDialogue(dialogue.id, tuple(course.curve), course.end, dialogue.emo_point))
    if not curves:
        raise UserError(f"{path} holds no dialogues.")
    numbers = figures([one.curve for one in curves])
    return Replay(str(path), len(curves), numbers, values, equal, tuple(differences), tuple(curves))


def _follow(dialogue: RecordedDialogue) -> tuple[MoodCourse, list[ReplayDifference], int]:
    course = MoodCourse()
    found: list[ReplayDifference] = []
    checked = turn = 0

    def compare(what: str, recorded: Any, ours: Any, reason: str) -> None:
        if recorded != ours:
            found.append(ReplayDifference(dialogue.id, turn, what, recorded, ours, reason))

    for message in dialogue.history:
        if course.end == "turns" or (course.end and message.role == "assistant"):
            compare("length", "it continues", f"it ends: {course.end}", "the rules end the dialogue here")
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
        compare("length", f"it ends after {turn} turns", "it continues", "no rule ends the dialogue here")
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
