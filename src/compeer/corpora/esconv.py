"""ESConv: 1,300 English support conversations, with the helper's strategy on every utterance.

Forms: the hub's (train.txt, valid.txt, test.txt: one JSON a line, speakers `usr` and `sys`) and the original
ESConv.json (a list, `content` and `annotation`, speakers `seeker` and `supporter`).

    load(Path("esconv"))                  every split in the folder
    load(Path("esconv"), split="valid")   one of them
    load(Path("thu-coai/esconv"))         from the hub

Traps: `sys` is the *supporter*. Scores are strings. One speaker often has several utterances in a row; they
stay apart here, `compeer.dialogue.rounds` merges them. `problem_type` comes in varying letter case. The test
split holds situations of ESC-Eval's cards.

FailedESConv: 196 conversations in which the seeker was not helped. Real negatives, kept by ESConv's authors.

    load_failed(Path("esconv/FailedESConv.json"))    or the folder that holds it

Traps: `speaker` is the *seeker* and `listener` the *supporter*, the other way round from what the words suggest.
Strategy names vary (`Questions`, `Other`, `Direct Guidance`, `Approval and Reassurance`, `Restatement`). Every
dialogue is marked `helpful=False`; the seeker's ratings of single replies, 1 to 5, are in `extra["feedback"]` by the
index of the utterance at which they were given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec

from compeer.corpora.reading import Rejected, by_index, conversations, imported, parts
from compeer.corpora.records import Labels, dialogue, problem_type, scale, side, utterance
from compeer.dialogue import Dialogue, Speaker

LICENCE = "CC BY-NC 4.0"
FILES = {
    "train": ("train.txt", "train.jsonl", "train.json"),
    "valid": ("valid.txt", "validation.txt", "valid.jsonl", "valid.json", "val.json"),
    "test": ("test.txt", "test.jsonl", "test.json"),
    "all": ("ESConv.json",),
}
SPEAKERS: Mapping[str, Speaker] = {"usr": "seeker", "sys": "supporter", "seeker": "seeker", "supporter": "supporter"}

FAILED_LICENCE = "academic research use"
FAILED_FILES = {"failed": ("FailedESConv.json",)}
FAILED_SPEAKERS: Mapping[str, Speaker] = {"speaker": "seeker", "listener": "supporter"}

_COMMENTS = ("seeker_question1", "seeker_question2", "supporter_question1", "supporter_question2")
Score = str | float | None


class Annotation(msgspec.Struct):
    strategy: str | None = None
    feedback: Score = None  # the seeker's rating, 1 to 5, of what the supporter said just before


class EsconvUtterance(msgspec.Struct):
    speaker: str
    text: str | None = None
    content: str | None = None
    strategy: str | None = None
    annotation: Annotation | None = None


class EsconvRow(msgspec.Struct):
    dialog: list[EsconvUtterance]
    experience_type: str | None = None
    emotion_type: str | None = None
    problem_type: str | None = None
    situation: str | None = None
    survey_score: dict[str, dict[str, Score] | None] | None = None
    seeker_question1: str | None = None
    seeker_question2: str | None = None
    supporter_question1: str | None = None
    supporter_question2: str | None = None


def load(path: Path, *, split: str | None = None) -> Iterator[Dialogue | Rejected]:
    """The conversations of a file, a folder or a hub name."""
    build = partial(convert, source="esconv", licence=LICENCE, speakers=SPEAKERS)
    return conversations("esconv", path, EsconvRow, FILES, build, split)


def load_failed(path: Path) -> Iterator[Dialogue | Rejected]:
    """The failed conversations of the file, or of the folder that holds it."""
    name = "failed_esconv"
    build = partial(convert, source=name, licence=FAILED_LICENCE, speakers=FAILED_SPEAKERS, helpful=False)
    for _, rows in parts(name, path, EsconvRow, FAILED_FILES):
        yield from imported(name, rows, by_index(name), build)


def convert(
    row: EsconvRow,
    name: str,
    *,
    source: str,
    licence: str,
    speakers: Mapping[str, Speaker],
    helpful: bool | None = None,
) -> Dialogue:
    """One conversation; FailedESConv has the same form under other speaker names."""
    labels = Labels()
    feedback: dict[str, int] = {}
    said = []
    for at, one in enumerate(row.dialog):
        speaker = side(speakers, one.speaker, f"utterance {at}")
        note = one.annotation or Annotation()
        strategy = labels.strategy(one.strategy or note.strategy, at) if speaker == "supporter" else None
        said.append(utterance(at, speaker, one.text or one.content, strategy=strategy))
        if (rating := scale(note.feedback)) is not None:
            feedback[str(at)] = rating
    # the questionnaire as numbers; questions nobody answered are left out
    numbers = {
        who: {q: n for q, s in (given or {}).items() if (n := scale(s))}
        for who, given in (row.survey_score or {}).items()
    }
    survey = {who: given for who, given in numbers.items() if given}
    seeker = survey.get("seeker", {})
    extra = {
        "experience_type": row.experience_type,
        "final_intensity": seeker.get("final_emotion_intensity"),
        "survey": survey,
        "feedback": feedback,
        "comments": {q: text for q in _COMMENTS if (text := getattr(row, q)) and text.strip()},
    }
    return dialogue(
        name,
        source,
        licence,
        "en",
        said,
        labels,
        extra,
        situation=row.situation,
        problem=problem_type(row.problem_type),
        emotion=labels.emotion(row.emotion_type),
        intensity=seeker.get("initial_emotion_intensity"),
        helpful=helpful,
    )
