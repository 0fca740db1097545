"""What every evaluation leaves in its folder, and what the report reads.

    RUN/result.json           a Result: the figures, and what they may be compared with
    RUN/transcripts.jsonl.gz  a Transcript a line: what was said, thought and scored

Two results stand in one column only when `comparable` is equal: a SAGE score with another simulator, an ESC-Eval
score by another judge or with other prompts is another measurement.

What a run has finished, kept so that nothing is done twice.

A sample is one line of `RUN/journal.jsonl`, written and flushed when it is finished, before anything else happens to
it. After a kill the same command reads the journal, leaves out what stands there and goes on; half a line at its end
is cut off. Inspect keeps finished samples in a buffer of its own and writes its log in batches; a run that was killed
leaves that log open, and repeating it would need a second command. So the journal is ours, and Inspect's logs in
`RUN/logs` (one a start) are for looking at.

The first line says what determines the samples: models, prompts, settings, seed. With other settings the folder is
refused, rather than mixing two measurements.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.statistics import Figure
from compeer.typed import from_json

RESULT = "result.json"
TRANSCRIPTS = "transcripts.jsonl.gz"


class Said(msgspec.Struct, frozen=True, omit_defaults=True):
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
    said: tuple[Said, ...]
    scores: dict[str, float | None] = {}  # by "dimension" or "judge/dimension"; None: the judge gave no number
    curve: tuple[int, ...] = ()  # SAGE: emotion from start to end
    end: str | None = None
    about: dict[str, str] = {}  # persona, scene, topic, source: what a reader wants above the dialogue


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one evaluation of one model."""

    benchmark: str  # "sage", "esc-eval", "diversity", "control", "safety"
    model: str  # the supporter, as a table names it
    comparable: dict[str, str]  # simulator, judge, prompts (hash), language, cases (hash): equal or not in one column
    figures: tuple[Figure, ...]
    setup: dict[str, Any] = {}  # seed, revision, reasoning mode, versions, counts, time: everything else
    notes: tuple[str, ...] = ()  # what a reader must know, in sentences

    def figure(self, name: str) -> Figure | None:
        """The figure of that name, when the result has it."""
        return next((figure for figure in self.figures if figure.name == name), None)


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
    waiting = run / f".{RESULT}.part"
    waiting.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    waiting.replace(run / RESULT)


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
    """The samples of a run, one after another."""
    yield from read_rows(run / TRANSCRIPTS, Transcript)


JOURNAL = "journal.jsonl"


class Finished(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sample: the dialogue with its scores, what judges wrote, and counts of calls, tokens and faults."""

    transcript: Transcript
    replies: dict[str, str] = {}  # by "judge/dimension"
    counts: dict[str, int] = {}


class Journal:
    """The finished samples of a run, in the order in which they finished."""

    def __init__(self, run: Path, settings: dict[str, Any], *, fresh: bool = False) -> None:
        self.path = run / JOURNAL
        self.settings = msgspec.to_builtins(settings)
        self.finished: dict[str, Finished] = {}
        run.mkdir(parents=True, exist_ok=True)
        self._file = self._open(fresh)

    def add(self, sample: Finished) -> None:
        """Keep a sample. It is in the file when this returns."""
        self.finished[sample.transcript.id] = sample
        self._write(sample)

    def close(self) -> None:
        self._file.close()

    def _open(self, fresh: bool) -> IO[bytes]:
        file = self.path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise UserError(
                f"Another process is writing to {self.path.parent}. Wait for it, or choose another --out."
            ) from None
        if fresh:
            file.truncate(0)
        file.seek(0)
        self._file = file
        lines = file.read().splitlines(keepends=True)
        if lines and not lines[-1].endswith(b"\n"):
            file.truncate(sum(map(len, lines[:-1])))
            lines.pop()
        if lines:
            self._read(lines)
        else:
            self._write({"settings": self.settings})
        return file

    def _read(self, lines: list[bytes]) -> None:
        try:
            before = msgspec.json.decode(lines[0])["settings"]
            for line in lines[1:]:
                sample = from_json(line, Finished)
                self.finished[sample.transcript.id] = sample
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise UserError(f"{self.path} cannot be read: {error}. Begin anew with --fresh, or elsewhere.") from None
        changed = sorted(
            name for name in before.keys() | self.settings.keys() if before.get(name) != self.settings.get(name)
        )
        if changed:
            told = "; ".join(f"{name} was {before.get(name)!r}, is {self.settings.get(name)!r}" for name in changed)
            raise UserError(
                f"{self.path.parent} holds a run with other settings ({told}). Choose another --out, or begin anew "
                "with --fresh."
            )

    def _write(self, row: Any) -> None:
        self._file.write(msgspec.json.encode(row) + b"\n")
        self._file.flush()
