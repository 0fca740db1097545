"""JSON lines, streamed, plain or compressed (.gz, .bz2, .xz, .zst); "-" is standard input or output. Also JSON files.

Reading validates each line and names file, line number and record id when one is broken. Writing goes
to a temporary file that replaces the target only when every record is in it, so an interrupted write
never leaves half a corpus behind.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import msgspec
import zstandard

from compeer.dialogue.record import Dialogue
from compeer.errors import UserError
from compeer.typed import from_json, known

COMPRESSED = (".gz", ".bz2", ".xz", ".lzma", ".zst")
Row = TypeVar("Row")
Record = TypeVar("Record", bound=msgspec.Struct)


class RecordError(UserError, ValueError):
    """A record that cannot be used: which file, which line, which record, and why."""

    def __init__(self, path: str, line: int, reason: str, record: str | None = None) -> None:
        self.path, self.line, self.reason, self.record = path, line, reason, record
        named = f" (record {record})" if record else ""
        super().__init__(f"{path}, line {line}{named}: {reason}")


def read(path: str | Path) -> Iterator[Dialogue]:
    """Dialogues of a file, one at a time."""
    for file in data_files(path):
        yield from decode_rows(file, partial(decode_dialogue, source=file))


def decode_dialogue(line: bytes, source: str | Path) -> Dialogue:
    """A dialogue from a line of a file, its pictures as paths that can be opened from anywhere."""
    return with_full_image_paths(from_json(line, Dialogue), "utterances", Path(source).parent)


def with_full_image_paths(record: Record, said: str, folder: Path) -> Record:
    """A dialogue or an item with full paths of the pictures that lie in the folder; any other path stays as it is.

    `said` is the field that has the utterances or turns.
    """
    turns = getattr(record, said)
    if not any(one.images for one in turns):
        return record

    def full(path: str) -> str:
        found = (folder / path).absolute()
        try:
            return str(found) if found.is_file() else path
        except (OSError, ValueError):  # longer than a path can be: the picture itself, as a data address
            return path

    changed = tuple(msgspec.structs.replace(one, images=tuple(map(full, one.images))) for one in turns)
    return msgspec.structs.replace(record, **{said: changed})


def read_rows(path: str | Path, kind: type[Row]) -> Iterator[Row]:
    """Rows of any msgspec type (or `dict`) from a JSON lines file, validated and streamed."""
    return decode_rows(path, msgspec.json.Decoder(known(kind)).decode)


def decode_rows(path: str | Path, decode: Callable[[bytes], Row]) -> Iterator[Row]:
    """Rows that `decode` makes of the lines. Its errors are raised with file, line and record."""
    for file in data_files(path):
        number = 0
        try:
            with open_bytes(file, "rb") as lines:
                for number, line in enumerate(lines, start=1):
                    if line.strip():
                        try:
                            yield decode(line)
                        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
                            raise RecordError(str(file), number, str(problem), _record_id(line)) from None
        except (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as problem:
            if isinstance(problem, MissingFile) or (isinstance(problem, OSError) and problem.errno):
                raise  # no such file, no permission: the error names the file itself
            reason = f"the compressed file is damaged or cut off ({problem}); make or download it again"
            raise RecordError(str(file), number + 1, reason) from problem


def write_rows(path: str | Path, rows: Iterable[Any]) -> int:
    """Write rows of any msgspec type, atomically; returns how many."""
    encoder = msgspec.json.Encoder()
    count = 0
    if str(path) == "-":
        for row in rows:
            sys.stdout.buffer.write(encoder.encode(row) + b"\n")
            count += 1
        sys.stdout.buffer.flush()
        return count
    with replacing(path) as out:
        for row in rows:
            out.write(encoder.encode(row) + b"\n")
            count += 1
    return count


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` when the block ends without an error; compressed by its suffix.

    A reader, and whoever comes after a kill, sees the old file or the new one, never half of it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # the temporary name keeps the suffix, which chooses the compression
    temporary = target.with_name(f".{os.getpid()}.{target.name}")
    try:
        with open_bytes(temporary, "wb") as out:
            yield out
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: str | Path, value: Any) -> None:
    """Write a value of any msgspec type as indented JSON, replacing the file."""
    with replacing(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(value, enc_hook=str)) + b"\n")


def lock(file: IO[Any], refusal: str) -> None:
    """Lock an open file until it is closed; UserError(refusal) if another process holds the lock."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(refusal) from None


_SUFFIXES = re.compile(r"(\.jsonl|\.json|\.gz|\.bz2|\.xz|\.zst)+$")


def rejects_path(out: str | Path) -> Path | None:
    """The default file for rejected records: beside the output, None for standard output.

    >>> str(rejects_path("data/esconv.jsonl.gz"))
    'data/esconv.rejects.jsonl'
    """
    if str(out) == "-":
        return None
    target = Path(out)
    return target.with_name(_SUFFIXES.sub("", target.name) + ".rejects.jsonl")


def data_files(path: str | Path, split: str | None = None) -> list[Path]:
    """The JSON lines files of a path: the file itself, or those in the folder of a published dataset.

    A published folder has `jsonl/train.jsonl` and so on; a folder that `compeer cer build` made has it in `dataset`.
    `split` chooses one file of a folder and says nothing about a single file. `open-cer/train`, `open-cer/valid` and
    `open-cer/test` are the labelled items that come with the package.
    """
    given = packaged(path)
    if str(path) == "-" or not given.is_dir():
        if given.suffix == ".parquet":
            beside = given.parent.parent / "jsonl" / f"{given.stem}.jsonl"
            raise UserError(f"{path} is a Parquet file. Give the same rows as JSON lines: {beside}.")
        return [given]
    names = [split] if split else ["train", "valid", "test"]
    for home in (given / "jsonl", given / "dataset" / "jsonl", given):
        if found := [home / f"{name}.jsonl" for name in names if (home / f"{name}.jsonl").is_file()]:
            return found
    wanted = f"jsonl/{split}.jsonl" if split else "jsonl/train.jsonl, valid.jsonl or test.jsonl"
    raise MissingFile(f"{path} is a folder without {wanted}. Give a JSON lines file, or a published dataset's folder.")


def packaged(path: str | Path) -> Path:
    """The file that a name like `open-cer/train` stands for, where no such file lies here; else the path itself."""
    corpus, _, part = str(path).partition("/")
    if corpus != "open-cer" or part not in ("train", "valid", "test") or Path(path).exists():
        return Path(path)
    return Path(str(files("compeer"))) / "corpora" / "open_cer" / f"items-{part}.jsonl.gz"


class MissingFile(UserError, FileNotFoundError):
    """A file to read does not exist."""


@contextmanager
def open_bytes(path: str | Path, mode: str) -> Iterator[IO[bytes]]:
    """The file as bytes, (de)compressed by its suffix."""
    name = str(path)
    if name == "-":
        yield sys.stdin.buffer if mode == "rb" else sys.stdout.buffer
        return
    if mode == "rb" and not Path(name).is_file():
        kind = "it is a folder" if Path(name).is_dir() else "there is no such file"
        raise MissingFile(f"{name} cannot be read: {kind}.")
    file: IO[bytes]
    if name.endswith(".gz"):
        file = cast(IO[bytes], gzip.open(name, mode) if mode == "rb" else _GzipWriter(name, mode))
    elif name.endswith(".bz2"):
        file = cast(IO[bytes], bz2.open(name, mode))
    elif name.endswith((".xz", ".lzma")):
        file = cast(IO[bytes], lzma.open(name, mode))
    elif name.endswith(".zst"):
        reading = mode == "rb"
        file = cast(IO[bytes], io.BufferedReader(_ZstdReader(name)) if reading else zstandard.open(name, mode))
    else:
        file = cast(IO[bytes], open(name, mode))
    with file:
        yield file


class _GzipWriter(gzip.GzipFile):
    """A .gz file without name and time in its header, so that equal rows give equal files and hashes."""

    def __init__(self, name: str, mode: str) -> None:
        self._under = Path(name).open(mode)
        super().__init__("", mode, fileobj=cast(IO[bytes], self._under), mtime=0)

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._under.close()


class _ZstdReader(io.RawIOBase):
    """A .zst file as bytes. zstandard's own reader takes a file that was cut off for a shorter one; this does not."""

    def __init__(self, name: str) -> None:
        self._file = Path(name).open("rb")
        self._frame: Any = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            finished = self._frame is None or self._frame.eof
            data = (self._frame.unused_data if self._frame and finished else b"") or self._file.read(4096)
            if not data and not finished:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            if not data:
                return 0
            if finished:  # one frame after another, as pzstd and cat leave them
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._ready = memoryview(self._frame.decompress(data))
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def _record_id(line: bytes) -> str | None:
    """The record's id, for the message, even where the rest of the line is broken."""
    found = re.search(rb'"id"\s*:\s*"([^"]{1,80})"', line)
    return found.group(1).decode("utf-8", "replace") if found else None
