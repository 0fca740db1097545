"""SMILE: Chinese conversations grown out of PsyQA's single questions and answers.

    load(Path("smilechat.jsonl"))    one JSON a line: {file, dialog: [{role, content, annotation}]}
    load(Path("smile/data"))         the original form: a folder of N.json, each a list of {role, content}

Roles are `client` and `counselor`. Traps: some dialogues have no counsellor turn at all (they are turned away,
with that reason), and in some one side speaks twice in a row. The id is the number in the file name, which stays
the same in any subset. 72 of ESC-Eval's Chinese cards come from this corpus.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from compeer.corpora.reading import Rejected, Row, files, imported, opened, parts
from compeer.corpora.records import dialogue, utterance
from compeer.dialogue import Dialogue, Speaker
from compeer.typed import from_json

LICENCE = "CC0 1.0"
_ROLES: dict[str, Speaker] = {"client": "seeker", "counselor": "supporter", "counsellor": "supporter"}
_NUMBERED = re.compile(r"(\d+)\.json")


class SmileUtterance(msgspec.Struct):
    role: str
    content: str


class SmileRow(msgspec.Struct):
    dialog: list[SmileUtterance]
    file: str | None = None


def load(path: Path) -> Iterator[Dialogue | Rejected]:
    """The conversations of a file, of a folder of numbered files, or of a hub name."""
    if path.is_dir() and (numbered := _numbered(path)):
        yield from imported("smile", _files(numbered), _identify, convert, seen=set())
        return
    names = {p.name: (p.name,) for p in sorted(path.glob("*.json*"))} if path.is_dir() else {}
    if path.is_dir() and not names:
        files(path, {"all": ("smilechat.jsonl",)})  # says what is missing
    seen: set[str] = set()
    for part in parts("smile", path, SmileRow, names):
        yield from imported("smile", part.rows, _identify, convert, seen)


def convert(row: SmileRow, name: str) -> Dialogue:
    said = []
    for at, one in enumerate(row.dialog):
        if one.role not in _ROLES:
            raise ValueError(f"utterance {at}: unknown role {one.role!r}; known: client, counselor")
        said.append(utterance(at, speaker=_ROLES[one.role], text=one.content))
    if said and not any(one.speaker == "supporter" for one in said):
        raise ValueError("there is no counsellor turn")
    return dialogue(id=name, source="smile", licence=LICENCE, language="zh", utterances=said, extra={"file": row.file})


def _identify(row: SmileRow, index: int) -> str:
    stem = (row.file or "").removesuffix(".json")
    return f"smile/{stem.zfill(5)}" if stem else f"smile/row-{index:05d}"


def _numbered(folder: Path) -> list[Path]:
    found = [(int(match.group(1)), p) for p in folder.iterdir() if (match := _NUMBERED.fullmatch(p.name))]
    return [p for _, p in sorted(found)]


def _files(numbered: list[Path]) -> Iterator[Row[SmileRow] | Rejected]:
    """One dialogue a file: a bare list of utterances, or the object of the other form."""
    for index, path in enumerate(numbered):
        with opened(path) as file:
            text = file.read().removeprefix(b"\xef\xbb\xbf")
        try:
            found = from_json(text, list[SmileUtterance] | SmileRow)
            said = found if isinstance(found, list) else found.dialog
            yield Row(SmileRow(dialog=said, file=path.name), index, 1, str(path))
        except ValueError as problem:
            reason = "not UTF-8" if isinstance(problem, UnicodeError) else str(problem)
            yield Rejected(source="smile", file=str(path), record=path.stem, line=1, reason=reason)
