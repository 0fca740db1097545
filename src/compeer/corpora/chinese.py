"""Chinese corpora: SoulChatCorpus, SMILE, CPsyCounD and EmoLLM.

**SoulChatCorpus**: about 258,000 conversations, several rounds each, rewritten to be empathetic.

    load_soulchat(Path("SoulChatCorpus-sft-multi-Turn.json"))    a JSON list or JSON lines; both are streamed
    load_soulchat(Path("scutcyr/SoulChatCorpus"))                from the hub

A row is {id, topic, messages: [{role, content}]}. The conversations are largely machine-written: expect stock
phrases, and sort them out downstream (`compeer cer filter`). The id is the place in the file; the corpus's own
stays in `extra["original_id"]`.

**SMILE**: conversations grown out of PsyQA's single questions and answers.

    load_smile(Path("smilechat.jsonl"))    one JSON a line: {file, dialog: [{role, content, annotation}]}
    load_smile(Path("smile/data"))         the original form: a folder of N.json, each a list of {role, content}

Traps: some dialogues have no counsellor turn at all (they are turned away, with that reason), and in some one side
speaks twice in a row. The id is the number in the file name, which stays the same in any subset. 72 of ESC-Eval's
Chinese cards come from this corpus.

**CPsyCounD**: counselling conversations reconstructed from case reports. One text file a case.

    load_cpsycoun(Path("cpsycoun"))                the folder, or the one of case_N.txt inside it, in the order of N
    load_cpsycoun(Path("CPsyCounD/case_12.txt"))   one case

Paragraphs alternate between `来访者：` (the client) and `心理咨询师：` (the counsellor). Traps: a line without a
speaker belongs to the utterance before it (numbered advice); a line wholly in brackets is narration
("（一段时间后）"), said by nobody, and goes to `extra["narration"]` with the index of the utterance it stands before;
in a few cases a mother, a child or one of two named clients speaks: all on the seeker's side, and their names by
utterance are in `extra["speakers"]`.

**EmoLLM**: counselling conversations of one to five rounds, written by a model.

    load_emollm(Path("emollm"))                     data.json (1,596) and the persona-styled aiwei (200 here)
    load_emollm(Path("emollm"), split="data")       the first alone

A conversation is a list of {system? (first only), input, output}: the seeker's words and the supporter's. The system
prompt goes to `extra["system"]`. Trap: `aiwei` speaks in a persona, with emoji and stage directions; its dialogues
carry `extra["style"] = "persona"`. They are what a filter for artificial style should catch, not what a model should
learn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from compeer.corpora.reading import CorpusError, Rejected, Row, conversations, files, imported, opened, parts, rejected
from compeer.corpora.records import dialogue, problem_type, side, utterance
from compeer.dialogue import Dialogue, Speaker, Utterance
from compeer.typed import from_json

SOULCHAT_LICENCE, SMILE_LICENCE, CPSYCOUN_LICENCE, EMOLLM_LICENCE = "Apache-2.0", "CC0 1.0", "CC BY 4.0", "MIT"
_SOULCHAT_FILES = {
    "multi": tuple(f"SoulChatCorpus-sft-multi-Turn.{suffix}" for suffix in ("json", "jsonl")),
    "train": ("train.json", "train.jsonl"),
}
_EMOLLM_FILES = {"data": ("data.json", "data.jsonl"), "aiwei": ("aiwei_200.json", "aiwei.json", "aiwei.jsonl")}
_SOULCHAT_ROLES: dict[str, Speaker | None] = {"system": None, "user": "seeker", "assistant": "supporter"}
_SMILE_ROLES: dict[str, Speaker] = {"client": "seeker", "counselor": "supporter", "counsellor": "supporter"}
_NUMBERED = re.compile(r"(\d+)\.json")
_CASE = re.compile(r"case_?(\d+)\.txt")
_COUNSELLOR = ("心理咨询师", "咨询师", "心理医生", "治疗师")
_CLIENT = ("来访者", "求助者", "妈妈", "母亲", "爸爸", "父亲", "家长", "孩子", "女儿", "儿子", "丈夫", "妻子")
_SPEAKER = re.compile(rf"({'|'.join(_COUNSELLOR + _CLIENT)})\s*(?:[（(]([^）)]{{1,20}})[）)])?\s*[：:]\s*(.*)")
_NARRATION = re.compile(r"[（(].*[）)]")


class ChineseMessage(msgspec.Struct):
    role: str
    content: str


class SoulChatRow(msgspec.Struct):
    messages: list[ChineseMessage]
    id: int | str | None = None
    topic: str | None = None


class SmileRow(msgspec.Struct):
    dialog: list[ChineseMessage]
    file: str | None = None


class EmoLLMExchange(msgspec.Struct):
    input: str
    output: str
    system: str | None = None


class EmoLLMRow(msgspec.Struct):
    conversation: list[EmoLLMExchange]


def load_soulchat(path: Path, *, split: str | None = None) -> Iterator[Dialogue | Rejected]:
    """The conversations of a file, a folder or a hub name."""
    return conversations("soulchat", path, SoulChatRow, _SOULCHAT_FILES, _soulchat, split, digits=6)


def _soulchat(row: SoulChatRow, name: str) -> Dialogue:
    said, system = [], []
    for at, message in enumerate(row.messages):
        if speaker := side(_SOULCHAT_ROLES, message.role, f"message {at}", "role"):
            said.append(utterance(at, speaker, message.content))
        else:
            system.append(message.content)
    extra = {"original_id": row.id, "system": "\n".join(system)}
    return dialogue(name, "soulchat", SOULCHAT_LICENCE, "zh", said, extra=extra, problem=problem_type(row.topic))


def load_smile(path: Path) -> Iterator[Dialogue | Rejected]:
    """The conversations of a file, of a folder of numbered files, or of a hub name."""
    if path.is_dir() and (numbered := _by_number(path, _NUMBERED)):
        yield from imported("smile", _smile_files(numbered), _smile_id, _smile, seen=set())
        return
    names = {p.name: (p.name,) for p in sorted(path.glob("*.json*"))} if path.is_dir() else {}
    if path.is_dir() and not names:
        files(path, {"all": ("smilechat.jsonl",)})  # says what is missing
    seen: set[str] = set()
    for _, rows in parts("smile", path, SmileRow, names):
        yield from imported("smile", rows, _smile_id, _smile, seen)


def _smile(row: SmileRow, name: str) -> Dialogue:
    said = [
        utterance(at, side(_SMILE_ROLES, one.role, f"utterance {at}", "role"), one.content)
        for at, one in enumerate(row.dialog)
    ]
    if said and not any(one.speaker == "supporter" for one in said):
        raise ValueError("there is no counsellor turn")
    return dialogue(name, "smile", SMILE_LICENCE, "zh", said, extra={"file": row.file})


def _smile_id(row: SmileRow, index: int) -> str:
    stem = (row.file or "").removesuffix(".json")
    return f"smile/{stem.zfill(5)}" if stem else f"smile/row-{index:05d}"


def _smile_files(numbered: list[Path]) -> Iterator[Row[SmileRow] | Rejected]:
    """One dialogue per file: a list of utterances, or an object as in smilechat.jsonl."""
    for index, path in enumerate(numbered):
        with opened(path) as file:
            text = file.read().removeprefix(b"\xef\xbb\xbf")
        try:
            found = from_json(text, list[ChineseMessage] | SmileRow)
            said = found if isinstance(found, list) else found.dialog
            yield Row(SmileRow(dialog=said, file=path.name), index, 1, str(path))
        except ValueError as problem:
            yield rejected("smile", path, path.stem, 1, problem)


def _by_number(folder: Path, form: re.Pattern[str]) -> list[Path]:
    """The files of this form in the order of their numbers: case_2 before case_10."""
    found = [(int(match.group(1)), p) for p in folder.iterdir() if (match := form.fullmatch(p.name))]
    return [p for _, p in sorted(found)]


def load_cpsycoun(path: Path) -> Iterator[Dialogue | Rejected]:
    """The cases of a folder, or one case."""
    yield from imported("cpsycoun", _texts(_cases(path)), lambda case, _: case[0], lambda case, _: _cpsycoun(*case))


def _cpsycoun(name: str, text: str) -> Dialogue:
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
    found = [utterance(at, speaker, words) for at, (speaker, words) in enumerate(said)]
    extra = {"narration": narration, "speakers": speakers}
    return dialogue(name, "cpsycoun", CPSYCOUN_LICENCE, "zh", found, extra=extra)


def _cases(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise CorpusError(path, "there is no such file or folder", "Give the folder of case_N.txt, or one of them")
    for folder in (path, path / "CPsyCounD"):
        if folder.is_dir() and (found := _by_number(folder, _CASE)):
            return found
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
        except UnicodeDecodeError as problem:
            yield rejected("cpsycoun", path, name, 1, problem)


def load_emollm(path: Path, *, split: str | None = None) -> Iterator[Dialogue | Rejected]:
    """The conversations of a file or folder."""
    return conversations("emollm", path, EmoLLMRow, _EMOLLM_FILES, _emollm, split)


def _emollm(row: EmoLLMRow, name: str) -> Dialogue:
    said: list[Utterance] = []
    for turn in row.conversation:
        said.append(utterance(len(said), "seeker", turn.input))
        said.append(utterance(len(said), "supporter", turn.output))
    system = next((turn.system for turn in row.conversation if turn.system), None)
    style = "persona" if "aiwei" in name.split("/")[1] else None  # the split
    return dialogue(name, "emollm", EMOLLM_LICENCE, "zh", said, extra={"system": system, "style": style})
