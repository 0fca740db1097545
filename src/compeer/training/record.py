"""What identifies a training run, written beside its results, and how two runs differ, in words.

A run may only go on with the settings, data, base model and judge that it began with: anything else would give a model
of which nobody could say what it is. Versions of packages and code may change between two sessions of a run; each
session notes its own.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

import compeer
from compeer.cer.manifest import measure

PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate")


class DataFile(msgspec.Struct, frozen=True):
    """A file that was read, and what was in it."""

    path: str
    sha256: str
    rows: int


class Revision(msgspec.Struct, frozen=True, omit_defaults=True):
    """The code: the package's version and, in a checkout, its commit; `dirty` when files differ from that commit."""

    version: str
    commit: str | None = None
    dirty: bool = False

    def __str__(self) -> str:
        at = f" at {self.commit[:12]}{' with changes' if self.dirty else ''}" if self.commit else ""
        return f"compeer {self.version}{at}"


class Session(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One start of the program on this run."""

    started: str
    revision: Revision
    versions: dict[str, str]
    processes: int = 1
    resumed_from: str | None = None  # a checkpoint
    differences: tuple[str, ...] = ()  # what was not as before, and was forced


class Record(msgspec.Struct, kw_only=True):
    """A run. The first five fields decide whether it may be resumed."""

    kind: str  # what is trained, for example "judge" or "policy"
    config: dict[str, Any]
    data: dict[str, list[DataFile]]  # by role: train, valid, …
    base: dict[str, Any]
    judge: dict[str, Any] | None = None
    seed: int = 0
    sessions: list[Session] = []
    finished: str | None = None
    results: dict[str, Any] = {}

    def differences(self, other: Record, free: Sequence[str] = ()) -> list[str]:
        """What is not as it was, in words; `self` is how it was. Settings in `free` may change."""
        found = [] if self.kind == other.kind else [f"it trains a {self.kind}, not a {other.kind}"]
        found += _changes("", _flat(self.config), _flat(other.config), free)
        for role in {**self.data, **other.data}:
            before, now = (record.data.get(role, []) for record in (self, other))
            if [file.sha256 for file in before] != [file.sha256 for file in now]:
                found.append(f"the {role} data was {_listed(before)}, is {_listed(now)}")
        found += _changes("the base model's ", _flat(self.base), _flat(other.base), ())
        found += _changes("the judge's ", _flat(self.judge or {}), _flat(other.judge or {}), ())
        return found


def session(processes: int = 1, resumed_from: str | None = None, differences: Sequence[str] = ()) -> Session:
    return Session(
        started=now(),
        revision=revision(),
        versions=versions(),
        processes=processes,
        resumed_from=resumed_from,
        differences=tuple(differences),
    )


def data_file(path: str | Path) -> DataFile:
    sha256, rows = measure(path)
    return DataFile(str(path), sha256, rows)


def versions() -> dict[str, str]:
    """The packages that training stands on, as far as they are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def revision() -> Revision:
    """The code that runs. A commit is named when the package itself is tracked there, or by $COMPEER_REVISION where a
    copy without its history runs."""
    home = Path(compeer.__file__).parent
    if _git(home, "ls-files", "--error-unmatch", "__init__.py") is None:
        return Revision(compeer.__version__, os.environ.get("COMPEER_REVISION") or None)
    commit, changes = _git(home, "rev-parse", "HEAD"), _git(home, "status", "--porcelain", "--", ".")
    return Revision(compeer.__version__, commit, bool(changes))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _git(home: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(home), *words], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names.

    >>> _flat({"lora": {"r": 16}, "seed": 0})
    {'lora.r': 16, 'seed': 0}
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{above}{name}.")
        else:
            flat[above + name] = value
    return flat


def _changes(kind: str, old: Mapping[str, Any], new: Mapping[str, Any], free: Sequence[str]) -> list[str]:
    names = [name for name in {**old, **new} if old.get(name) != new.get(name) and name.split(".")[0] not in free]
    return [f"{kind}{name} was {_brief(old, name)}, is {_brief(new, name)}" for name in names]


def _brief(values: Mapping[str, Any], name: str) -> str:
    return f"{values[name]!s:.60}" if name in values else "not set"


def _listed(files: Sequence[DataFile]) -> str:
    return ", ".join(f"{file.path} (sha256 {file.sha256[:12]}, {file.rows} rows)" for file in files) or "none"
