"""MESC: 1,019 English therapy conversations from a television series, with emotion and strategy per utterance.

    MESC.csv      every dialogue: text, emotion, strategy, season, episode, times
    val.json      102 of them, with situation, problem and a machine-written description of the video
                  (train.json and test.json have the same form)

    load(Path("mesc"))                        the csv
    load(Path("mesc"), split="val")           val.json joined with the csv beside it
    load(Path("mesc/val.json"), csv=Path(…))  the same, with the csv elsewhere
    load(Path("mesc"), media=Path("frames"))  pictures attached by name, see `media.py`

A dialogue has the same id in both forms, from its number in the csv: do not import both into one corpus.

Traps: in the json `text` is the utterance with the description glued on, without a separator. Each json dialogue
matches one csv dialogue in length and in the beginning of every utterance, so the csv gives the clean text and
the rest goes to `Utterance.seen`; one that matches none is turned away, never guessed at. The therapist has an
emotion too: it is the therapist's own, while ours on a supporter's utterance is the seeker's, so it goes to
`extra["supporter_emotions"]` (only where it is not neutral).
"""

from __future__ import annotations

import csv as csv_format
import io
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

import msgspec

from compeer.corpora.reading import CorpusError, Rejected, Row, files, imported, opened, parts, rejected
from compeer.corpora.records import Labels, Media, MediaFolder, dialogue, problem_type, side, sound_and_video, utterance
from compeer.dialogue import Dialogue, Speaker

LICENCE = "none stated"
CSV = "MESC.csv"
FILES = {"all": (CSV,), "train": ("train.json",), "val": ("val.json", "valid.json"), "test": ("test.json",)}
_COLUMNS = ("Utterance", "Speaker", "Emotion", "Strategy", "Dialogue_ID", "Utterance_ID")
_SPEAKERS: dict[str, Speaker] = {"Client": "seeker", "Therapist": "supporter"}
_JSON_SPEAKERS: dict[str, Speaker] = {"user": "seeker", "usr": "seeker", "sys": "supporter"}


class MescLine(msgspec.Struct, frozen=True):
    """One utterance of the csv."""

    at: int  # line in the file
    text: str
    speaker: str
    emotion: str
    strategy: str
    dialogue: str
    number: str
    season: str
    episode: str
    start: str
    end: str


class MescDescribed(msgspec.Struct):
    text: str
    speaker: str
    emotion: str | None = None
    strategy: str | None = None


class MescRow(msgspec.Struct):
    """One dialogue of the json."""

    dialog: list[MescDescribed]
    problem_type: str | None = None
    situation: str | None = None


Found = tuple[list[MescLine], MescRow | None]  # of the csv, and of the json where that is read


def load(
    path: Path, *, split: str | None = None, csv: Path | None = None, media: Path | None = None
) -> Iterator[Dialogue | Rejected]:
    """The csv's dialogues, or those of one json split joined with it."""
    pictures = MediaFolder(media) if media else None
    [(label, file), *_] = files(path, FILES, split or ("all" if path.is_dir() else None))
    build = partial(_convert, pictures=pictures)
    if ".csv" in file.suffixes:
        return imported("mesc", _dialogues(file), _name, build)
    clean = csv or file.with_name(CSV)
    if not clean.is_file():
        raise CorpusError(
            file, f"the clean text is in {CSV}, which is not at {clean}", f"Put {CSV} beside it, or give csv=PATH"
        )
    return imported("mesc", _joined(file, label, clean), _name, partial(build, split=label))


def _joined(file: Path, split: str, clean: Path) -> Iterator[Row[Found] | Rejected]:
    """The dialogues of a json split with the clean text of the csv."""
    by_length: dict[int, list[list[MescLine]]] = defaultdict(list)
    for found in _dialogues(clean):
        if not isinstance(found, Rejected):
            by_length[len(found.value[0])].append(found.value[0])
    for _, rows in parts("mesc", file, MescRow, FILES, split):
        for row in rows:
            if isinstance(row, Rejected):
                yield row
                continue
            candidates = by_length[len(row.value.dialog)]
            match = next((lines for lines in candidates if _matches(row.value, lines)), None)
            if match is None:
                reason = f"no dialogue of {clean.name} has these {len(row.value.dialog)} utterances"
                yield rejected("mesc", file, row.index, row.line, reason)
                continue
            candidates.remove(match)  # two equal dialogues must not both become the same one
            yield Row((match, row.value), row.index, row.line, row.file)


def _matches(described: MescRow, lines: list[MescLine]) -> bool:
    return all(
        one.text.strip().startswith(line.text.strip())
        and _JSON_SPEAKERS.get(one.speaker) == _SPEAKERS.get(line.speaker)
        for one, line in zip(described.dialog, lines, strict=True)
    )


def _convert(found: Found, name: str, *, pictures: MediaFolder | None, split: str | None = None) -> Dialogue:
    lines, described = found
    numbers = [line.number for line in lines]
    if numbers != [str(n) for n in range(len(lines))]:
        raise ValueError(f"utterances are missing or out of order: {', '.join(numbers)[:80]}")
    labels, own = Labels(), {}
    media: dict[int, Media] = {}
    said = []
    for at, line in enumerate(lines):
        speaker = side(_SPEAKERS, line.speaker, f"utterance {at}")
        seen = described.dialog[at].text.strip().removeprefix(line.text.strip()).strip() if described else ""
        if pictures and line.dialogue.isdigit():
            media[at] = pictures.of(int(line.dialogue), at)
        emotion = labels.emotion(line.emotion)
        if speaker == "supporter" and emotion not in (None, "neutral"):
            own[str(at)] = emotion
        said.append(
            utterance(
                at,
                speaker,
                line.text,
                seen=seen or None,
                images=tuple(media[at].image) if at in media else (),
                emotion=emotion if speaker == "seeker" else None,
                strategy=labels.strategy(line.strategy, at) if speaker == "supporter" else None,
            )
        )
    extra = {
        "season": lines[0].season,
        "episode": lines[0].episode,
        "start": lines[0].start,
        "end": lines[-1].end,
        "split": split,
        "supporter_emotions": own,
        "media": sound_and_video(media),
    }
    about = {"situation": described.situation, "problem": problem_type(described.problem_type)} if described else {}
    return dialogue(name, "mesc", LICENCE, "en", said, labels, extra, **about)


def _dialogues(file: Path) -> Iterator[Row[Found] | Rejected]:
    """The dialogues of the csv. One with a damaged row, or in several pieces, is rejected."""
    seen: set[str] = set()
    lines: list[MescLine] = []
    damaged = False

    def finished() -> Row[Found] | Rejected:
        reason = "a row of the dialogue is damaged" if damaged else None
        if lines[0].dialogue in seen:
            reason = "the dialogue goes on after another one began, or stands twice in the file"
        seen.add(lines[0].dialogue)
        found, at = (lines, None), lines[0].at
        return rejected("mesc", file, _name(found), at, reason) if reason else Row(found, len(seen) - 1, at, str(file))

    for line in _lines(file):
        if isinstance(line, Rejected):
            damaged = True
            yield line
            continue
        if lines and line.dialogue != lines[0].dialogue:
            yield finished()
            lines, damaged = [], False
        lines.append(line)
    if lines:
        yield finished()


def _lines(file: Path) -> Iterator[MescLine | Rejected]:
    # surrogateescape: bytes that are no UTF-8 cost one dialogue, not the file
    with (
        opened(file) as raw,
        io.TextIOWrapper(cast(io.BytesIO, raw), encoding="utf-8-sig", errors="surrogateescape", newline="") as text,
    ):
        reader = csv_format.DictReader(text)
        missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
        if missing:
            raise CorpusError(file, f"the csv has no column {', '.join(missing)}", f"Give the original {CSV}")
        while True:
            at = reader.line_num + 1
            try:
                row = next(reader)
                if None in row:
                    raise csv_format.Error("the row has more cells than the header: an unquoted comma?")
                if not row["Dialogue_ID"]:
                    raise csv_format.Error("the row has no Dialogue_ID")
                cells = [row.get(c) or "" for c in (*_COLUMNS, "Season", "Episode", "StartTime", "EndTime")]
                "".join(cells).encode()
            except StopIteration:
                return
            except (csv_format.Error, UnicodeEncodeError) as problem:
                yield rejected("mesc", file, f"line {at}", at, problem)
                continue
            yield MescLine(at, *cells)


def _name(found: Found, index: int = 0) -> str:
    return f"mesc/{found[0][0].dialogue.zfill(5)}"
