"""Published results recomputed without a model: a log that SAGE released, and score files of ESC-RANK.

**SAGE's log.** `replay` sends the recorded changes through our rules and lists every value that differs, and why.

**ESC-Eval's score files.** ESC-RANK leaves one JSON file per model and language:

    {"0": {"fluency": 3, "diversity": 3, "empathic": 3, "suggestion": 3, "human": 1, "tech": 3, "overall": 2}, …}

The language is read from the file's name (en, zh, eng, chinese … between separators), the model from the rest of it or
from the folder. They hold -1 where the official parser found no number: by default it is left out and counted;
`official` averages it in, as the leaderboard did.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.dialogue import read_rows
from compeer.errors import UserError
from compeer.evals import esc_eval, sage
from compeer.evals.result import DIMENSIONS, Transcript
from compeer.reasoning.ontology import Language
from compeer.statistics import Figure
from compeer.typed import from_json

_LANGUAGE = re.compile(r"(?:^|[_\-. ])(en|eng|english|zh|cn|ch|chi|chinese)(?=$|[_\-. ])", re.IGNORECASE)


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
    files = sorted(log.rglob("*.jsonl")) if log.is_dir() else [log]
    if len(files) != 1:
        raise UserError(f"{log} holds {len(files)} .jsonl files; name one of them.")
    differences: list[ReplayDifference] = []
    curves: list[ReplayedDialogue] = []
    values = 0
    for dialogue in read_rows(files[0], RecordedDialogue):
        course, found = _follow(dialogue)
        differences += found
        values += len(course.curve)
        curves.append(ReplayedDialogue(dialogue.id, tuple(course.curve), course.end, dialogue.emo_point))
    if not curves:
        raise UserError(f"{files[0]} holds no dialogues.")
    equal = values - sum(one.what == "emotion" for one in differences)
    figures = sage.figures([one.curve for one in curves])
    return Replay(str(files[0]), len(curves), figures, values, equal, tuple(differences), tuple(curves))


def _follow(dialogue: RecordedDialogue) -> tuple[sage.MoodCourse, list[ReplayDifference]]:
    """The course by the rules, and where the record departs from it."""
    course, found, turn = sage.MoodCourse(), [], 0

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
        if turn == 1:
            reason = "the recorded value is not what the rules give for the start"
            compare("emotion", message.emotion, course.mood, reason)
            continue
        given = message.planning.change if message.planning else None
        change = given if isinstance(given, int) else sage.read_change(f"Change: {given}")
        course.feel(change)
        reason = f"{course.curve[-2]} with a change of {change} gives {course.mood} by the rules"
        if change is None:
            reason = f"the recorded change {given!r} cannot be read, so the mood stays"
        compare("emotion", message.emotion, course.mood, reason)
        course.speak(message.content)
    if course.end is None:
        compare("length", f"it ends after {turn} turns", "it continues", "no rule ends the dialogue here")
    compare("final", dialogue.emo_point, course.mood, "the final value is not that of the last turn by the rules")
    if dialogue.emo_state:
        letter = dialogue.emo_state.rpartition("-")[2]
        compare("band", letter, sage.band(course.mood), "the recorded letter is not the final value's band")
    return course, found


class ScoreTable(msgspec.Struct, frozen=True):
    """One model in one language, or in all (`language` is then "pooled")."""

    model: str
    language: str
    cards: int
    failures: int  # cells without a number
    figures: tuple[Figure, ...]


def score_tables(folder: Path, *, official: bool = False) -> list[ScoreTable]:
    """A table for each model and language, and one for each model over all its languages."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder. --scores takes a folder of score files, one per model and language.")
    found: dict[str, dict[str, list[dict[str, int]]]] = {}
    for file in sorted(folder.rglob("*.json")):
        model, language = _named(file, folder)
        known = found.setdefault(model, {})
        if language in known:
            raise UserError(f"{file} is the second file for {model} in {language}; keep one of them in {folder}.")
        known[language] = list(_read_scores(file).values())
    if not found:
        raise UserError(f"{folder} holds no .json files with scores.")
    tables = []
    for model, languages in found.items():
        languages["pooled"] = [row for rows in languages.values() for row in rows]
        tables += [_table(model, name, rows, official=official) for name, rows in languages.items()]
    return tables


def _table(model: str, language: str, rows: Sequence[dict[str, int]], *, official: bool) -> ScoreTable:
    def given(row: dict[str, int]) -> dict[str, float | None]:
        return {f"ESC-RANK/{key}": row[key] if official or row[key] >= 0 else None for key in DIMENSIONS}

    cards = [Transcript("", language, (), given(row)) for row in rows]
    failures = sum(row[key] < 0 for row in rows for key in DIMENSIONS)
    return ScoreTable(model, language, len(rows), failures, tuple(esc_eval.columns(cards, ["ESC-RANK"])))


def _named(file: Path, folder: Path) -> tuple[str, Language]:
    """(model, language) of a file.

    >>> _named(Path("s/gpt-4o_zh.json"), Path("s")), _named(Path("s/llama/score_english.json"), Path("s"))
    (('gpt-4o', 'zh'), ('llama', 'en'))
    """
    found = _LANGUAGE.search(file.stem)
    if not found:
        raise UserError(f"{file} does not say its language; name it MODEL_en.json or MODEL_zh.json.")
    language: Language = "en" if found.group(1).casefold().startswith("en") else "zh"
    rest = (file.stem[: found.start()] + file.stem[found.end() :]).strip("_-. ")
    inside = file.parent.relative_to(folder).as_posix()
    return (inside if inside != "." else rest or file.stem), language


def _read_scores(file: Path) -> dict[str, dict[str, int]]:
    try:
        rows = from_json(file.read_bytes(), dict[str, dict[str, int]])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is no score file: {error}.") from None
    for card, row in rows.items():
        if lacking := [key for key in DIMENSIONS if key not in row]:
            raise UserError(f"{file}, card {card}: no score for {', '.join(lacking)}.")
        if strange := [f"{key} {value}" for key, value in row.items() if key in DIMENSIONS and not -1 <= value <= 4]:
            raise UserError(f"{file}, card {card}: {', '.join(strange)} is not from 0 to 4, nor -1.")
    return rows
