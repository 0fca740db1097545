"""Official ESC-RANK score files: a JSON file for each model and language.

    {"0": {"fluency": 3, "diversity": 3, "empathic": 3, "suggestion": 3, "human": 1, "tech": 3, "overall": 2}, …}

The language is read from the file's name (en, zh, eng, chinese … between separators), the model from what is left of
it; a file in a folder named after the model works too. Official files hold -1 where their parser found no number: by
default it is left out and counted, `official` averages it in, as the leaderboard did.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from compeer.errors import UserError
from compeer.evals.esc_eval.dimension import DIMENSIONS
from compeer.evals.esc_eval.figures import Row, columns
from compeer.evals.interval import Figure
from compeer.reasoning.ontology import Language
from compeer.typed import from_json

_LANGUAGE = re.compile(r"(?:^|[_\-. ])(en|eng|english|zh|cn|ch|chi|chinese)(?=$|[_\-. ])", re.IGNORECASE)
Rows = dict[str, dict[str, int]]


class Table(msgspec.Struct, frozen=True):
    """One model in one language, or in all (`language` is then "pooled")."""

    model: str
    language: str
    cards: int
    failures: int  # cells without a number
    figures: tuple[Figure, ...]


def read_folder(folder: Path, *, official: bool = False) -> list[Table]:
    """A table for each model and language, and one for each model over all its languages."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder. --scores takes a folder of score files, one a model and language.")
    found: dict[str, dict[str, list[dict[str, int]]]] = {}
    for file in sorted(folder.rglob("*.json")):
        model, language = _named(file, folder)
        known = found.setdefault(model, {})
        if language in known:
            raise UserError(f"{file} is the second file for {model} in {language}; keep one of them in {folder}.")
        known[language] = list(_read(file).values())
    if not found:
        raise UserError(f"{folder} holds no .json files with scores.")
    tables: list[Table] = []
    for model, languages in found.items():
        tables += [table(model, language, rows, official=official) for language, rows in languages.items()]
        tables.append(table(model, "pooled", [row for rows in languages.values() for row in rows], official=official))
    return tables


def table(model: str, language: str, rows: Sequence[dict[str, int]], *, official: bool = False) -> Table:
    """Seven columns and their plain mean, times 25."""
    failures = sum(row[key] < 0 for row in rows for key in DIMENSIONS)
    kept: list[Row] = [{key: row[key] if official or row[key] >= 0 else None for key in DIMENSIONS} for row in rows]
    return Table(model, language, len(rows), failures, columns(kept))


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


def _read(file: Path) -> Rows:
    try:
        rows = from_json(file.read_bytes(), Rows)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is no score file: {error}.") from None
    for card, row in rows.items():
        if lacking := [key for key in DIMENSIONS if key not in row]:
            raise UserError(f"{file}, card {card}: no score for {', '.join(lacking)}.")
        if strange := [f"{key} {value}" for key, value in row.items() if key in DIMENSIONS and not -1 <= value <= 4]:
            raise UserError(f"{file}, card {card}: {', '.join(strange)} is not from 0 to 4, nor -1.")
    return rows
