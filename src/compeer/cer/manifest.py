"""What a run is and what came of it: the record beside every output, and what it is recognised by.

Nothing is keyed on a version or a timestamp. A fingerprint of what determines the rows (input, prompts, models,
parameters, seed) decides whether a run goes on, has nothing to do, or would mix two kinds of rows and is refused.
How the files are written meanwhile is `compeer.cer.ledger`.
"""

from __future__ import annotations

import hashlib
import inspect
import lzma
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import zstandard

import compeer
from compeer.dialogue.jsonl import open_bytes
from compeer.errors import UserError

COMPRESSED = (".gz", ".bz2", ".xz", ".lzma", ".zst")


class Counts(msgspec.Struct):
    """Rows read, rows written, and how many went no further, by reason."""

    rows_in: int = 0
    rows_out: int = 0
    rejected: dict[str, int] = {}


class Spent(msgspec.Struct):
    """What the models were asked. Tokens are those of new answers; one from the cache costs nothing."""

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
        """What is not as it was, in words; `self` is how it was."""
        changed = [name for name in ("input", "prompts") if getattr(self, name) != getattr(other, name)]
        found = [f"the {name} changed" for name in changed]
        found += _changes("", {"stage": self.stage, "seed": self.seed}, {"stage": other.stage, "seed": other.seed})
        return found + _changes("model ", self.models, other.models) + _changes("", self.params, other.params)


class Run(msgspec.Struct, kw_only=True):
    """What a run is and what it has come to."""

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


class Done(msgspec.Struct, frozen=True, array_like=True):
    """What became of one input line: rows and rejects as they will stand in the files."""

    line: int
    output: bytes = b""
    rejects: bytes = b""
    rows: int = 0
    reasons: tuple[str, ...] = ()


def measure(path: str | Path) -> tuple[str, int]:
    """SHA-256 and number of lines of an input, in one reading."""
    digest, lines, last = hashlib.sha256(), 0, b"\n"
    packed = str(path).endswith(COMPRESSED)
    try:
        with Path(path).open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
                lines += chunk.count(b"\n")
                last = chunk[-1:]
        if packed:
            with open_bytes(path, "rb") as unpacked:
                lines, last = sum(1 for _ in unpacked), b"\n"
    except (OSError, EOFError, lzma.LZMAError, zstandard.ZstdError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UserError(f"The input {path} cannot be read: {reason}.") from None
    return digest.hexdigest(), lines + (last != b"\n")


def hashed(texts: Iterable[str]) -> str:
    return hashlib.sha256("\x00".join(texts).encode()).hexdigest()


def code_version(function: Callable[..., Any]) -> str:
    """The package's version and, since a stage is also what its function does today, a hash of that function's file."""
    file = inspect.getsourcefile(function)
    return compeer.__version__ + (f"+{hashed([Path(file).read_text()])[:12]}" if file and Path(file).exists() else "")


def _changes(kind: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return [f"{kind}{name} was {_brief(old, name)}, is {_brief(new, name)}" for name in names]


def _brief(values: Mapping[str, Any], name: str) -> str:
    return f"{values[name]!s:.80}" if name in values else "not set"
