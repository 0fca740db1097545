"""ESC-Eval's ratings: a number read from a judge's reply, the seven columns and their mean, official score files.

**Reading a rating.** The official rule takes the first of "0", "1", "2", "3", "4", in that order, that occurs anywhere:
"4 out of 10" is 0, "10" is 0, and a reply without any of them is -1, which goes into the mean. `official` does just
that. `proper` reads the number as a person would and returns None where there is none; such replies are counted and
left out.

**Columns.** Scores from 0 to 4, times 25. Names without a prefix are over all cards and all judges, every judge
counting the same. `en/Fluency` is one language, `openai:gpt-4o/Fluency` one judge, `openai:gpt-4o/en/Fluency` both. The
average is the mean of the seven columns; its interval resamples cards.

**Official files.** ESC-RANK leaves one JSON file per model and language:

    {"0": {"fluency": 3, "diversity": 3, "empathic": 3, "suggestion": 3, "human": 1, "tech": 3, "overall": 2}, …}

The language is read from the file's name (en, zh, eng, chinese … between separators), the model from the rest of it or
from the folder. They hold -1 where the official parser found no number: by default it is left out and counted;
`official` averages it in, as the leaderboard did.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from compeer.errors import UserError
from compeer.evals.result import Transcript
from compeer.reasoning.ontology import Language
from compeer.statistics import Figure, mean_figure
from compeer.typed import from_json

#: the seven dimensions: the key in ESC-Eval's code and files, and the paper's column
DIMENSIONS: dict[str, str] = {
    "fluency": "Fluency",
    "diversity": "Expression",
    "empathic": "Empathy",
    "suggestion": "Information",
    "tech": "Skillful",
    "human": "Humanoid",
    "overall": "Overall",
}
AVERAGE = "Average"
SCALE = 25.0  # 0 to 4 is published as 0 to 100

_HAN = {sign: number for number, sign in enumerate("零一二三四五六七八九十")} | {"〇": 0, "两": 2}
_WORDS = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4}
_LABEL = re.compile(r"(?:score|rating|评分|得分|分数|打分)\s*(?:is|of|为|是)?\s*[:：=]?\s*", re.IGNORECASE)
#: a number alone: not half of a decimal, a range, a larger number or a negative one
_NUMBER = re.compile(r"(?<![\d.\-–~])(\d+(?:\.\d+)?)(?!\d)")
_RANGE = re.compile(r"\d\s*(?:-|–|~|to|到|至)\s*\d")
_OUT_OF = re.compile(r"(\d+(?:\.\d+)?)\s*(?:/|out of|of)\s*(\d+)", re.IGNORECASE)
_HAN_SCORE = re.compile(r"(?<![第十])([零〇一二两三四])\s*分(?!之)")
_WIDE = str.maketrans("０１２３４５６７８９", "0123456789")


def proper(reply: str) -> int | None:
    """The score a reply states: a whole number from 0 to 4, or None.

    >>> [proper(text) for text in ("3", "Score: 3", "三分", "4 out of 4", "4 out of 10", "I would say two.", "")]
    [3, 3, 3, 4, None, 2, None]
    """
    text = reply.translate(_WIDE).strip()
    if share := _OUT_OF.search(text):
        return _whole(share.group(1)) if share.group(2) == "4" else None  # on another scale it is no answer
    if label := _LABEL.search(text):
        stated = _first(text[label.end() :])
        if stated is not None:
            return stated
    return _only(text)


def official(reply: str) -> int:
    """ESC-Eval's rule.

    >>> [official(text) for text in ("3", "4 out of 10", "三分", "")]
    [3, 0, -1, -1]
    """
    return next((int(digit) for digit in "01234" if digit in reply), -1)


def _first(text: str) -> int | None:
    """The number a text begins with."""
    if number := re.match(r"\W{0,3}(\d+(?:\.\d+)?)", text):
        return _whole(number.group(1))
    if text[:1] in _HAN:
        return _whole(str(_HAN[text[0]]))
    word = re.match(r"\W{0,3}([a-z]+)", text, re.IGNORECASE)
    return _WORDS.get(word.group(1).casefold()) if word else None


def _only(text: str) -> int | None:
    """The one number of a text; two different ones are no answer, and neither is a range."""
    text = _RANGE.sub(" ", text)
    numbers = {_whole(found) for found in _NUMBER.findall(text)}
    numbers |= {_HAN[found] for found in _HAN_SCORE.findall(text)}
    if not numbers:
        if text.strip("。.!！ \n") in _HAN:
            numbers = {_whole(str(_HAN[text.strip("。.!！ \n")]))}
        else:
            numbers = {_WORDS[word] for word in re.findall(r"[a-z]+", text.casefold()) if word in _WORDS}
    return numbers.pop() if len(numbers) == 1 else None


def _whole(number: str) -> int | None:
    value = float(number)
    return int(value) if value.is_integer() and 0 <= value <= 4 else None


RatingRow = dict[str, float | None]  # by dimension


def figures(transcripts: Sequence[Transcript], judges: Sequence[str]) -> tuple[Figure, ...]:
    """Over everything first; then by language, by judge and by both, where there are several."""
    found = list(columns([averaged(one, judges) for one in transcripts]))
    languages = sorted({one.language for one in transcripts})
    parts: dict[str, Sequence[Transcript]] = {
        f"{language}/": [one for one in transcripts if one.language == language] for language in languages
    }
    if len(languages) > 1:
        for prefix, part in parts.items():
            found += columns([averaged(one, judges) for one in part], prefix)
    if len(judges) > 1:
        for judge in judges:
            for prefix, part in {"": transcripts, **(parts if len(parts) > 1 else {})}.items():
                found += columns([averaged(one, [judge]) for one in part], f"{judge}/{prefix}")
    return tuple(found)


def columns(rows: Sequence[RatingRow], prefix: str = "") -> tuple[Figure, ...]:
    """Seven columns and their mean. A column without any number is left out, and then the mean too."""
    given = {key: [score for row in rows if (score := row[key]) is not None] for key in DIMENSIONS}
    seven = [mean_figure(prefix + DIMENSIONS[key], scores, scale=SCALE) for key, scores in given.items() if scores]
    if len(seven) < len(DIMENSIONS):
        return tuple(seven)
    complete = [[score for score in row.values() if score is not None] for row in rows if None not in row.values()]
    spread = mean_figure(AVERAGE, [sum(scores) / len(scores) for scores in complete], scale=SCALE)
    average = sum(figure.value or 0.0 for figure in seven) / len(seven)
    return (*seven, Figure(prefix + AVERAGE, average, spread.low, spread.high, len(rows)))


def averaged(transcript: Transcript, judges: Sequence[str]) -> RatingRow:
    """A card's seven scores, each the mean over the judges that gave a number."""
    row: RatingRow = {}
    for key in DIMENSIONS:
        given = [score for judge in judges if (score := transcript.scores.get(f"{judge}/{key}")) is not None]
        row[key] = sum(given) / len(given) if given else None
    return row


_LANGUAGE = re.compile(r"(?:^|[_\-. ])(en|eng|english|zh|cn|ch|chi|chinese)(?=$|[_\-. ])", re.IGNORECASE)


class ScoreTable(msgspec.Struct, frozen=True):
    """One model in one language, or in all (`language` is then "pooled")."""

    model: str
    language: str
    cards: int
    failures: int  # cells without a number
    figures: tuple[Figure, ...]


def read_folder(folder: Path, *, official: bool = False) -> list[ScoreTable]:
    """A table for each model and language, and one for each model over all its languages."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder. --scores takes a folder of score files, one per model and language.")
    found: dict[str, dict[str, list[dict[str, int]]]] = {}
    for file in sorted(folder.rglob("*.json")):
        model, language = _named(file, folder)
        known = found.setdefault(model, {})
        if language in known:
            raise UserError(f"{file} is the second file for {model} in {language}; keep one of them in {folder}.")
        known[language] = list(_read(file).values())
    if not found:
        raise UserError(f"{folder} holds no .json files with scores.")
    tables: list[ScoreTable] = []
    for model, languages in found.items():
        tables += [table(model, language, rows, official=official) for language, rows in languages.items()]
        tables.append(table(model, "pooled", [row for rows in languages.values() for row in rows], official=official))
    return tables


def table(model: str, language: str, rows: Sequence[dict[str, int]], *, official: bool = False) -> ScoreTable:
    """Seven columns and their plain mean, times 25."""
    failures = sum(row[key] < 0 for row in rows for key in DIMENSIONS)
    kept: list[RatingRow] = [
        {key: row[key] if official or row[key] >= 0 else None for key in DIMENSIONS} for row in rows
    ]
    return ScoreTable(model, language, len(rows), failures, columns(kept))


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


def _read(file: Path) -> dict[str, dict[str, int]]:
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
