"""CPsyCounD: Chinese counselling conversations reconstructed from case reports. One text file a case.

    load(Path("cpsycoun"))                the folder, or the one of case_N.txt inside it, in the order of N
    load(Path("CPsyCounD/case_12.txt"))   one case

Paragraphs alternate between `来访者：` (the client) and `心理咨询师：` (the counsellor).

Traps: a line without a speaker belongs to the utterance before it (numbered advice); a line wholly in brackets
is narration ("（一段时间后）"), said by nobody, and goes to `extra["narration"]` with the index of the utterance it
stands before; in a few cases a mother, a child or one of two named clients speaks: all on the seeker's side, and
their names by utterance are in `extra["speakers"]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compeer.corpora.reading import CorpusError, Rejected, Row, imported, opened
from compeer.corpora.records import dialogue, utterance
from compeer.dialogue import Dialogue, Speaker

LICENCE = "CC BY 4.0"
_COUNSELLOR = ("心理咨询师", "咨询师", "心理医生", "治疗师")
_CLIENT = ("来访者", "求助者", "妈妈", "母亲", "爸爸", "父亲", "家长", "孩子", "女儿", "儿子", "丈夫", "妻子")
_SPEAKER = re.compile(rf"({'|'.join(_COUNSELLOR + _CLIENT)})\s*(?:[（(]([^）)]{{1,20}})[）)])?\s*[：:]\s*(.*)")
_NARRATION = re.compile(r"[（(].*[）)]")
_CASE = re.compile(r"case_?(\d+)\.txt")


def load(path: Path) -> Iterator[Dialogue | Rejected]:
    """The cases of a folder, or one case."""
    yield from imported("cpsycoun", _texts(_cases(path)), lambda case, _: case[0], lambda case, _: convert(*case))


def convert(name: str, text: str) -> Dialogue:
    """One case, from its text."""
    said: list[tuple[Speaker, str]] = []
    narration: list[dict[str, Any]] = []
    speakers: dict[str, str] = {}
    for line in (stripped for raw in text.splitlines() if (stripped := raw.strip())):
        if start := _SPEAKER.match(line):
            role, person, words = start.groups()
            if person or role not in ("来访者", *_COUNSELLOR):
                speakers[str(len(said))] = person or role
            said.append(("supporter" if role in _COUNSELLOR else "seeker", words))
        elif _NARRATION.fullmatch(line):
            narration.append({"before": len(said), "text": line[1:-1].strip()})
        elif said:
            said[-1] = said[-1][0], f"{said[-1][1]}\n{line}".strip()
        else:
            raise ValueError(f"the text does not begin with a speaker but with {line[:40]!r}")
    return dialogue(
        id=name,
        source="cpsycoun",
        licence=LICENCE,
        language="zh",
        utterances=[utterance(at, speaker=speaker, text=words) for at, (speaker, words) in enumerate(said)],
        extra={"narration": narration, "speakers": speakers},
    )


def _cases(path: Path) -> list[Path]:
    """The case files in the order of their numbers: case_2 before case_10."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise CorpusError(path, "there is no such file or folder", "Give the folder of case_N.txt, or one of them")
    for folder in (path, path / "CPsyCounD"):
        if folder.is_dir():
            found = [(int(match.group(1)), p) for p in folder.iterdir() if (match := _CASE.fullmatch(p.name))]
            if found:
                return [p for _, p in sorted(found)]
    raise CorpusError(path, "there is no case_N.txt here", "Give the folder CPsyCounD of the corpus")


def _texts(cases: list[Path]) -> Iterator[Row[tuple[str, str]] | Rejected]:
    """Id and text of each case."""
    for index, path in enumerate(cases):
        match = _CASE.fullmatch(path.name)
        name = f"cpsycoun/{int(match.group(1)):05d}" if match else f"cpsycoun/{path.stem}"
        with opened(path) as file:
            data = file.read()
        try:
            yield Row((name, data.decode("utf-8-sig")), index, 1, str(path))
        except UnicodeDecodeError:
            yield Rejected(source="cpsycoun", file=str(path), record=name, line=1, reason="not UTF-8")
