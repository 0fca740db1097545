"""A piece of work, the note it leaves, and the runner that repeats nothing.

A piece is small enough for a short session. When it has ended well it leaves OUT/notes/STAGE.NAME.json: its settings,
the seed, hashes of the data it read, the code's revision, the time it took and what came out. A piece with a note is
finished. One whose settings are no longer those of its note is refused, because later pieces stand on it.

A piece that was cut off begins again; trainings inside it go on from their last checkpoint.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.training.run import data_file, now, revision, versions
from runs.miniature.settings import MiniatureSettings


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Where everything lies. `data`: a folder with a folder for each corpus; None: the bundled corpus alone."""

    settings: MiniatureSettings
    out: Path
    data: Path | None
    base: str
    tiny: bool
    results: Path
    docs: Path

    def path(self, *parts: str) -> Path:
        return self.out.joinpath(*parts)

    def items(self, name: str) -> Path:
        """A file of items that the data stage wrote."""
        return self.path("data", f"{name}.jsonl.gz")

    def run(self, *parts: str) -> Path:
        return self.path("runs", *parts)

    def note(self, piece: str) -> Note:
        """The note of a piece that must be finished."""
        found = read_note(self, piece)
        if found is None:
            raise UserError(f"{piece} has not been run in {self.out}; run its stage first.")
        return found

    def result(self, piece: str) -> dict[str, Any]:
        """What a finished piece came to."""
        return self.note(piece).results


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """`name` is STAGE/NAME; `reads` are files under OUT whose hashes the note keeps."""

    name: str
    work: Callable[[Work], dict[str, Any]]
    settings: dict[str, Any] = {}
    seed: int = 0
    needs: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    minutes: float = 1.0
    again: bool = False  # cheap, and made anew each time of whatever is there: the tables
    early: bool = False  # may be made of what is there so far, and is made anew when more of its needs are

    @property
    def stage(self) -> str:
        return self.name.partition("/")[0]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a finished piece leaves."""

    piece: str
    settings: dict[str, Any]
    seed: int
    base: str
    tiny: bool
    data: dict[str, str]  # SHA-256 by file
    revision: str
    versions: dict[str, str]
    machine: str
    finished: str
    seconds: float
    results: dict[str, Any]


def note_path(work: Work, name: str) -> Path:
    return work.path("notes", name.replace("/", ".") + ".json")


def read_note(work: Work, name: str) -> Note | None:
    path = note_path(work, name)
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Note)
    except msgspec.MsgspecError as error:
        raise UserError(f"{path} cannot be read: {error}. Remove it to have the piece run again.") from None


def finished(work: Work, piece: Piece) -> bool:
    """Whether the piece is done; UserError when it was done with other settings."""
    note = None if piece.again else read_note(work, piece.name)
    if note is None:
        return False
    if piece.early and not all(one and one.finished <= note.finished for one in _needed(work, piece)):
        return False
    now_used = msgspec.json.decode(msgspec.json.encode(piece.settings))
    differing = [name for name in {**note.settings, **now_used} if note.settings.get(name) != now_used.get(name)]
    differing += [name for name in ("base", "tiny") if getattr(note, name) != getattr(work, name)]
    if differing:
        raise UserError(
            f"{piece.name} was finished with other settings ({', '.join(sorted(differing))}) in {work.out}. "
            f"Give another --out, or remove {note_path(work, piece.name)} and what was made from it."
        )
    return True


def _needed(work: Work, piece: Piece) -> list[Note | None]:
    return [read_note(work, name) for name in piece.needs]


def do(work: Work, piece: Piece) -> Note:
    """Run one piece and leave its note."""
    missing = [name for name, note in zip(piece.needs, _needed(work, piece), strict=True) if note is None]
    if missing and not piece.again and not piece.early:
        raise UserError(f"{piece.name} needs {missing[0]}, which is not finished; run its stage first.")
    began = time.monotonic()
    results = piece.work(work)
    note = Note(
        piece=piece.name,
        settings=piece.settings,
        seed=piece.seed,
        base=work.base,
        tiny=work.tiny,
        data={name: data_file(work.path(name)).sha256 for name in piece.reads if work.path(name).is_file()},
        revision=os.environ.get("COMPEER_REVISION") or str(revision()),
        versions=versions(),
        machine=machine(),
        finished=now(),
        seconds=round(time.monotonic() - began, 1),
        results=results,
    )
    path = note_path(work, piece.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(note), indent=1) + b"\n")
    part.replace(path)
    return note


def machine() -> str:
    """The device in words."""
    if "torch" in sys.modules:
        import torch

        if torch.cuda.is_available():
            return str(torch.cuda.get_device_name())
    return f"CPU, {os.cpu_count()} cores"


def run(
    work: Work,
    pieces: Sequence[Piece],
    *,
    parallel: int = 1,
    minutes: float | None = None,
    command: Callable[[str], list[str]] | None = None,
) -> list[str]:
    """Run what is not finished, in order, and tell the names of what was run.

    With `parallel` above 1 pieces whose needs are met run side by side, each in a process of its own started by
    `command`. With `minutes` no piece begins that is not expected to fit.
    """
    began = time.monotonic()
    left = [piece for piece in pieces if not finished(work, piece)]

    def fits(piece: Piece) -> bool:
        return minutes is None or (time.monotonic() - began) / 60 + piece.minutes <= minutes

    if parallel > 1 and command is not None:
        return _side_by_side(work, left, parallel, fits, command)
    made = []
    for piece in left:
        if not fits(piece):
            say(f"{piece.name}: does not fit into what is left of {minutes:g} minutes; run the same command again")
            break
        say(f"{piece.name}: begins, about {piece.minutes:g} min on a GPU")
        say(f"{piece.name}: done in {do(work, piece).seconds:g} s")
        made.append(piece.name)
    return made


def _side_by_side(
    work: Work,
    left: list[Piece],
    parallel: int,
    fits: Callable[[Piece], bool],
    command: Callable[[str], list[str]],
) -> list[str]:
    _remind()
    running: dict[str, subprocess.Popen[bytes]] = {}
    made: list[str] = []
    failed: list[str] = []
    work.path("logs").mkdir(parents=True, exist_ok=True)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        while left or running:
            waiting = {piece.name for piece in left} | set(running)
            ready = [piece for piece in left if not (waiting | set(failed)) & set(piece.needs)]
            for piece in ready[: max(0, parallel - len(running))]:
                left.remove(piece)
                if not fits(piece):
                    say(f"{piece.name}: does not fit any more; run the same command again")
                    failed.append(piece.name)
                    continue
                say(f"{piece.name}: begins")
                with work.path("logs", piece.name.replace("/", ".") + ".log").open("ab") as log:
                    running[piece.name] = subprocess.Popen(command(piece.name), stdout=log, stderr=log)
            ended = {name: code for name, process in running.items() if (code := process.poll()) is not None}
            for name, code in ended.items():
                del running[name]
                say(f"{name}: " + ("done" if code == 0 else f"failed ({code}), see {work.path('logs')}"))
                (made if code == 0 else failed).append(name)
            if not running and not ready and not ended:  # what is left stands on something that failed
                break
            time.sleep(0.2)
    finally:  # interrupted: no training may go on behind the next start's back
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
        signal.signal(signal.SIGTERM, before)
    return made


def _remind() -> None:
    """Processes take turns on a GPU unless NVIDIA's MPS lets them in together."""
    pipe = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control")
    if shutil.which("nvidia-cuda-mps-control") and not pipe.exists():
        say("MPS is not running, so pieces take turns on the GPU; nvidia-cuda-mps-control -d starts it")


def _end(*_: object) -> None:
    raise SystemExit(143)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
