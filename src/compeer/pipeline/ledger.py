"""The files of a run: what it is recognised by, how far it is, and how it goes on after it was killed.

While a stage runs, its rows lie in `OUT.part` and its rejects in `STEM.rejects.jsonl.part`, both in the order of the
input. `STEM.state.json` says, twice a second, how far they are good: so many input lines consumed, so many
bytes of each file. A run that was killed truncates both files to these offsets and goes on behind them; what was
finished but not yet noted is computed again, with answers from the request cache. Only when everything is written
do the files get their names and the manifest is put beside them.

Departure from the usual pipeline: nothing is keyed on a version or a timestamp. A fingerprint of what determines
the rows (input, prompts, models, parameters, seed) decides whether a run goes on, has nothing to do, or would mix
two kinds of rows and is refused.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import lzma
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import zstandard

import compeer
from compeer.dialogue.jsonl import COMPRESSED, data_files, lock, open_bytes, rejects_path, replacing, write_json
from compeer.errors import UserError
from compeer.typed import from_json


class Counts(msgspec.Struct):
    """Rows read, rows written, and rows rejected, by reason."""

    rows_in: int = 0
    rows_out: int = 0
    rejected: dict[str, int] = {}


class Spent(msgspec.Struct):
    """Requests to models and their tokens. Answers from the cache cost no tokens."""

    asked: int = 0
    from_cache: int = 0
    retried: int = 0  # sent again because the server failed
    asked_again: int = 0  # asked once more because the answer had the wrong shape
    tokens_read: int = 0
    tokens_written: int = 0

    def add(self, other: Spent) -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Fingerprint(msgspec.Struct, frozen=True):
    """What determines the rows of an output."""

    stage: str
    input: str  # SHA-256 of the file
    prompts: str  # SHA-256 of the prompts' text
    models: dict[str, str]  # names by role
    params: dict[str, Any]
    seed: int

    def differences(self, other: Fingerprint) -> list[str]:
        """What has changed since `self`, in words."""
        changed = [name for name in ("input", "prompts") if getattr(self, name) != getattr(other, name)]
        found = [f"the {name} changed" for name in changed]
        found += changes("", {"stage": self.stage, "seed": self.seed}, {"stage": other.stage, "seed": other.seed})
        return found + changes("model ", self.models, other.models) + changes("", self.params, other.params)


class Run(msgspec.Struct, kw_only=True):
    """The settings of a run and its results so far."""

    stage: str
    started: str
    seconds: float = 0.0  # at work, over all sessions
    sessions: int = 0  # how often it was started until it was done
    engine: str
    version: str
    input: str
    limit: int | None
    fingerprint: Fingerprint
    counts: Counts = msgspec.field(default_factory=Counts)
    spent: Spent = msgspec.field(default_factory=Spent)


class Manifest(Run, kw_only=True):
    """The record of a finished stage."""

    output: str
    rejects: str


class State(Run, kw_only=True):
    """How far a run has come."""

    lines: int = 0  # of the input, consumed
    output_bytes: int = 0
    rejects_bytes: int = 0
    complete: bool = False  # every row is written; only the names are missing

    def manifest(self, output: str, rejects: str) -> Manifest:
        known = {name: getattr(self, name) for name in Run.__struct_fields__}
        return Manifest(**known, output=output, rejects=rejects)


class Done(msgspec.Struct, frozen=True, array_like=True):
    """The result of one input line: rows and rejects, encoded as they will be written."""

    line: int
    output: bytes = b""
    rejects: bytes = b""
    rows: int = 0
    reasons: tuple[str, ...] = ()


def measure(path: str | Path) -> tuple[str, int]:
    """SHA-256 and number of lines of an input file, or of all files of a published folder."""
    digest, lines = hashlib.sha256(), 0
    try:
        for file in data_files(path):
            lines += _measure_file(file, digest)
    except (OSError, EOFError, lzma.LZMAError, zstandard.ZstdError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(f"The input {path} cannot be read: {reason}.") from None
    return digest.hexdigest(), lines


def _measure_file(path: Path, digest: hashlib._Hash) -> int:
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            lines += chunk.count(b"\n")
            last = chunk[-1:]
    if path.name.endswith(COMPRESSED):
        with open_bytes(path, "rb") as unpacked:
            return sum(1 for _ in unpacked)
    return lines + (last != b"\n")


def hashed(texts: Iterable[str]) -> str:
    return hashlib.sha256("\x00".join(texts).encode()).hexdigest()


def code_version(function: Callable[..., Any]) -> str:
    """The package's version and, since a stage is also what its function does today, a hash of that function's file."""
    file = inspect.getsourcefile(function)
    return compeer.__version__ + (f"+{hashed([Path(file).read_text()])[:12]}" if file and Path(file).exists() else "")


def changes(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two sets of settings, in words; `kind` stands before each name.

    >>> changes("model ", {"judge": "a", "seeker": "b"}, {"judge": "c", "seeker": "b"})
    ['model judge was a, is c']
    """

    def shown(values: Mapping[str, Any], name: str) -> str:
        return f"{values[name]!s:.80}" if name in values else "not set"

    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return [f"{kind}{name} was {shown(old, name)}, is {shown(new, name)}" for name in names]


_EVERY = 0.5  # seconds between two notes of the state


class NoAnswers(UserError):
    """The models stopped answering."""


class Ledger:
    """The files of one run: rows go in in input order, and a kill at any moment loses nothing."""

    def __init__(self, out: str | Path, state: State, *, give_up_after: int = 0, every: float = _EVERY) -> None:
        rejects = rejects_path(out)
        if rejects is None:
            raise UserError("A stage writes several files; give --out a file name, not the standard output.")
        self.out, self.rejects = Path(out), rejects
        stem = rejects.name.removesuffix(".rejects.jsonl")
        self.manifest_path = rejects.with_name(f"{stem}.manifest.json")
        self.state_path = rejects.with_name(f"{stem}.state.json")
        self.state, self.give_up_after, self.every = state, give_up_after, every
        self._parts = [_part(self.out), _part(self.rejects)]
        self._files: list[IO[bytes]] = []
        self._noted = self._began = time.monotonic()
        self._before: State | None = None  # the state before rows without an answer began to follow each other
        self._unanswered = 0

    def open(self, *, fresh: bool = False) -> Manifest | str:
        """Open the files to write. Returns the manifest if nothing is left to do, else how the run starts."""
        told = "" if fresh else self._standing()
        if isinstance(told, Manifest):
            return told
        self.out.parent.mkdir(parents=True, exist_ok=True)
        for path, size in zip(self._parts, (self.state.output_bytes, self.state.rejects_bytes), strict=True):
            path.touch()
            file = path.open("r+b")
            self._files.append(file)
            lock(file, f"Another run is writing {self.out} at this moment. Wait for it, or choose another --out.")
            file.truncate(size)
            file.seek(size)
        self.state.sessions += 1
        self._began = time.monotonic() - self.state.seconds
        self.note()
        return told

    def take(self, done: Done) -> None:
        """The next line's rows and rejects."""
        if "no-answer" in done.reasons and self.give_up_after:
            self._before = self._before or copy.deepcopy(self.state)
            self._unanswered += 1
        else:
            self._before, self._unanswered = None, 0
        state, counts = self.state, self.state.counts
        self._files[0].write(done.output)
        if done.rejects:
            self._files[1].write(done.rejects)
        state.lines = done.line
        state.output_bytes += len(done.output)
        state.rejects_bytes += len(done.rejects)
        counts.rows_in += 1
        counts.rows_out += done.rows
        for reason in done.reasons:
            counts.rejected[reason] = counts.rejected.get(reason, 0) + 1
        if self._before and self._unanswered >= self.give_up_after:
            raise NoAnswers(self._silence(done))
        if time.monotonic() - self._noted > self.every:
            self.note()

    def note(self) -> None:
        """Save how far the files are complete. Rows at the end without an answer do not count: they are asked again."""
        for file in self._files:
            file.flush()
        self._noted = time.monotonic()
        self.state.seconds = self._noted - self._began
        with replacing(self.state_path) as file:
            file.write(msgspec.json.encode(self._before or self.state))

    def finish(self) -> Manifest:
        """Give the files their names and write the manifest. It may be killed at any point and repeated."""
        self._before = None
        self.state.complete = True
        self.note()
        return self._name(self.state)

    def _name(self, state: State) -> Manifest:
        _put(self._parts[0], self.out)
        _put(self._parts[1], self.rejects)
        manifest = state.manifest(str(self.out), str(self.rejects))
        write_json(self.manifest_path, manifest)
        self.state_path.unlink()
        return manifest

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._files = []

    def _standing(self) -> Manifest | str:
        """Look at what is at OUT already: nothing, a run to continue (its state becomes `state`), or a finished run."""
        limit = self.state.limit
        old: State | None = _read(self.state_path, State)
        if old is not None and old.complete:
            self._name(old)
        elif old is not None:
            self._same(old.fingerprint, "started")
            if limit is not None and old.counts.rows_in > limit:
                raise UserError(f"{self.out} was started and already has more than {limit:,} rows. {_WAYS_OUT}")
            sizes = [path.stat().st_size if path.exists() else 0 for path in self._parts]
            if sizes[0] < old.output_bytes or sizes[1] < old.rejects_bytes:
                return "The files of the earlier run are gone; starting again, known answers come from the cache."
            old.limit, old.engine, old.version = limit, self.state.engine, self.state.version
            self.state = old
            return f"Continuing after {old.counts.rows_in:,} rows."
        done: Manifest | None = _read(self.manifest_path, Manifest)
        if done is None or not self.out.exists() or not self.rejects.exists():
            if self.out.exists():
                raise UserError(f"{self.out} exists, but no manifest says where it comes from. {_WAYS_OUT}")
            return ""
        self._same(done.fingerprint, "made")
        unanswered = done.counts.rejected.get("no-answer")
        if unanswered:
            return f"{unanswered:,} rows got no answer before; asking again, known answers come from the cache."
        whole = done.limit is None or done.counts.rows_in < done.limit
        if limit == done.limit or (whole and (limit is None or limit >= done.counts.rows_in)):
            return done
        if not whole and (limit is None or limit > done.counts.rows_in):
            return f"The earlier run was limited to {done.limit:,} rows; its answers come from the cache."
        raise UserError(f"{self.out} holds the results of {done.counts.rows_in:,} rows. {_WAYS_OUT}")

    def _same(self, old: Fingerprint, verb: Literal["started", "made"]) -> None:
        different = old.differences(self.state.fingerprint)
        if different:
            raise UserError(f"{self.out} was {verb} with other settings: {'; '.join(different)}. {_WAYS_OUT}")

    def _silence(self, done: Done) -> str:
        detail = msgspec.json.decode(done.rejects.splitlines()[-1]).get("detail", "")
        return (
            f"Stopped: {self._unanswered} rows in a row got no answer. The last time: {detail}\n"
            "These rows are not counted as rejected. When the server is back, run the same command again to continue."
        )


_WAYS_OUT = (
    "To replace it, run again with --fresh (requests that were answered before come from the cache); "
    "to keep it, choose another --out."
)


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _read(path: Path, kind: type[Any]) -> Any:
    try:
        return from_json(path.read_bytes(), kind)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError as problem:
        raise UserError(f"{path} was not written by a stage ({problem}). Move it away, or run with --fresh.") from None


def _put(part: Path, target: Path) -> None:
    """Give a finished part its name, compressed where the name says so."""
    if not part.exists():
        return  # done before, by a run that was killed just then
    if target.name.endswith(COMPRESSED):
        with part.open("rb") as plain, replacing(target) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)
        part.unlink()
    else:
        part.replace(target)
