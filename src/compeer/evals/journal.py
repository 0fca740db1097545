"""What a run has finished, kept so that nothing is done twice.

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
from pathlib import Path
from typing import IO, Any

import msgspec

from compeer.errors import UserError
from compeer.evals.result import Transcript
from compeer.typed import from_json

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
