"""The files that every evaluation writes and the report reads.

    RUN/result.json           a Result: the figures, and what they may be compared with
    RUN/transcripts.jsonl.gz  one Transcript per line: what was said, thought and scored

Two results share a column only when `comparable` is equal: a SAGE score with another simulator, or an ESC-Eval score
by another judge or with other prompts, is another measurement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from compeer.dialogue import read_rows, write_json, write_rows
from compeer.errors import UserError
from compeer.statistics import Figure
from compeer.typed import from_json

RESULT = "result.json"
TRANSCRIPTS = "transcripts.jsonl.gz"
LANGUAGE_NAMES = {"en": "English", "zh": "Chinese"}
#: ESC-Eval's seven dimensions: the key in its code and files, and the paper's column
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
RATING_SCALE = 25.0  # ratings from 0 to 4 are published as 0 to 100
RatingRow = dict[str, float | None]  # by dimension


class TranscriptTurn(msgspec.Struct, frozen=True, omit_defaults=True):
    """One utterance. `reasoning` is the supporter's raw thinking; `emotion` the seeker's value after a SAGE turn."""

    speaker: str  # "seeker" or "supporter"
    text: str
    reasoning: str | None = None
    emotion: int | None = None
    note: str | None = None  # what a simulator said about this turn


class Transcript(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sample: a dialogue with its scores and how it ended."""

    id: str
    language: str
    said: tuple[TranscriptTurn, ...]
    scores: dict[str, float | None] = {}  # by "dimension" or "judge/dimension"; None: the judge gave no number
    curve: tuple[int, ...] = ()  # SAGE: emotion from start to end
    end: str | None = None
    about: dict[str, str] = {}  # persona, scene, topic, source: what a reader wants above the dialogue
    group: str | None = None  # the dialogue or moment that several samples share; intervals resample groups


class Finished(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sample: the dialogue with its scores, what judges wrote, and counts of calls, tokens and faults."""

    transcript: Transcript
    replies: dict[str, str] = {}  # by "judge/dimension"
    counts: dict[str, int] = {}


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one evaluation of one model."""

    benchmark: str  # "sage", "esc-eval", "diversity", "control", "safety"
    model: str  # the supporter, as a table names it
    comparable: dict[str, str]  # simulator, judge, prompts (hash), language, cases (hash): equal or not in one column
    figures: tuple[Figure, ...]
    setup: dict[str, Any] = {}  # seed, revision, reasoning mode, versions, counts, time: everything else
    notes: tuple[str, ...] = ()  # what a reader must know, in sentences
    differences_are_chance: bool = False  # too small a run: the report marks no difference to another one

    def figure(self, name: str) -> Figure | None:
        return next((figure for figure in self.figures if figure.name == name), None)


def rating_judges(transcripts: Iterable[Transcript]) -> list[str]:
    """Who rated dialogues of ESC-Eval."""
    return list(dict.fromkeys(name.rpartition("/")[0] for one in transcripts for name in one.scores))


def averaged(transcript: Transcript, judges: Sequence[str]) -> RatingRow:
    """A card's seven scores, each the mean over the judges that gave a number."""
    row: RatingRow = {}
    for key in DIMENSIONS:
        given = [score for judge in judges if (score := transcript.scores.get(f"{judge}/{key}")) is not None]
        row[key] = sum(given) / len(given) if given else None
    return row


@cache
def meanings() -> dict[str, dict[str, str]]:
    """What each figure is, by benchmark and name, in the order of the tables."""
    return from_json(Path(__file__).with_name("figure_meanings.json").read_bytes(), dict[str, dict[str, str]])


def meaning(benchmark: str, name: str) -> str:
    """What a figure is, in a few words; empty where its name says it all. A language may stand before or after it.

    >>> meaning("control", "agreement/classifier/en"), meaning("diversity", "zh/distinct-1")
    ('replies that the classifier reads as the stated strategy (English)', 'different words over all words')
    """
    known = meanings().get(benchmark, {})
    front, _, last = name.rpartition("/")
    if last in LANGUAGE_NAMES and front in known:
        return f"{known[front]} ({LANGUAGE_NAMES[last]})"
    first, _, rest = name.partition("/")
    return known.get(rest if first in LANGUAGE_NAMES else name, "")


def cases_digest(cases: Iterable[Any]) -> str:
    """A short hash of what is measured: results on other cases are not comparable."""
    return hashlib.sha256(b"\n".join(msgspec.json.encode(case) for case in cases)).hexdigest()[:12]


def save_result(run: Path, result: Result, transcripts: Iterable[Transcript] = ()) -> None:
    """Write both files; the result last, so that a folder with a result is whole.

    A figure without a value (no sample gave one) is left out and named in the notes.
    """
    run.mkdir(parents=True, exist_ok=True)
    write_rows(run / TRANSCRIPTS, transcripts)
    missing = [figure.name for figure in result.figures if figure.value is None]
    if missing:
        figures = tuple(figure for figure in result.figures if figure.value is not None)
        said = f"No sample gave a value for {', '.join(missing)}."
        result = msgspec.structs.replace(result, figures=figures, notes=(*result.notes, said))
    write_json(run / RESULT, result)


def load_result(run: Path) -> Result:
    """The result in a run's folder; UserError when there is none or it cannot be read."""
    file = run / RESULT
    try:
        return from_json(file.read_bytes(), Result)
    except FileNotFoundError:
        raise UserError(f"{run} has no {RESULT}: is it the folder that an evaluation wrote, and did it end?") from None
    except msgspec.DecodeError as error:
        raise UserError(f"{file} cannot be read: {error}. Run the evaluation again.") from None


def load_transcripts(run: Path) -> Iterator[Transcript]:
    yield from read_rows(run / TRANSCRIPTS, Transcript)
