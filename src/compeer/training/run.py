"""A training run is a folder.

    run.json            what is trained, on what, by which code; sessions; results
    config.yaml         the settings as they were used; config.given.yaml as they were given
    metrics.jsonl       one line per logging step      samples.jsonl   outputs that a trainer saves
    alerts.jsonl        warnings in words; absent without any
    checkpoints/        to resume from; one counts only when it is whole
    model/              the result                     README.md, curves.png

Opening a folder that holds a run resumes it. It is refused, with the names of what differs, when settings, data, base
model or judge are not those of the record: nobody could say what such a model is. `force` resumes anyway and
records it, `fresh` starts again. Versions of packages and code may change between two sessions; each session records
its own. Several processes may open the same folder (torchrun, accelerate): only the first writes.

    run = open_run(folder, Record(kind="judge", config=…, data=…, base=…, seed=0))
    trainer.train(resume_from_checkpoint=run.resume_from)
    run.finish({"eval_loss": 0.3})
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import msgspec

import compeer
from compeer.config import dump_yaml
from compeer.dialogue import lock, write_json, write_rows
from compeer.errors import UserError
from compeer.pipeline.ledger import changes, measure
from compeer.typed import from_json

PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate")


class DataFile(msgspec.Struct, frozen=True):
    """A data file with its hash and number of rows."""

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
        """What differs from this earlier record, in words. Settings in `free` may change."""
        found = [] if self.kind == other.kind else [f"it trains a {self.kind}, not a {other.kind}"]
        settings = [
            {name: value for name, value in _flat(record.config).items() if name.split(".")[0] not in free}
            for record in (self, other)
        ]
        found += changes("", *settings)
        for role in {**self.data, **other.data}:
            before, now = (record.data.get(role, []) for record in (self, other))
            if [file.sha256 for file in before] != [file.sha256 for file in now]:
                found.append(f"the {role} data was {_listed(before)}, is {_listed(now)}")
        found += changes("the base model's ", _flat(self.base), _flat(other.base))
        found += changes("the judge's ", _flat(self.judge or {}), _flat(other.judge or {}))
        return found


def data_file(path: str | Path) -> DataFile:
    sha256, rows = measure(path)
    return DataFile(str(path), sha256, rows)


def versions() -> dict[str, str]:
    """Versions of the installed packages that training depends on."""
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
    """Nested settings as a flat dictionary with dotted names.

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


def _listed(files: Sequence[DataFile]) -> str:
    return ", ".join(f"{file.path} (sha256 {file.sha256[:12]}, {file.rows} rows)" for file in files) or "none"


MARK = "complete.json"  # in a checkpoint, written last: its files and their sizes
OWN = ("run.json", "config.yaml", "config.given.yaml", "metrics.jsonl", "samples.jsonl", "alerts.jsonl", "checkpoints",
       "model", "README.md", "curves.png", "model.part")  # fmt: skip


class Run:
    """An open run. Methods that write do nothing in processes other than the first."""

    def __init__(self, folder: Path, record: Record, resume_from: str | None, lock: IO[str] | None) -> None:
        self.folder, self.record, self.resume_from, self._lock = folder, record, resume_from, lock
        self.checkpoints, self.model = folder / "checkpoints", folder / "model"
        self.metrics_path, self.samples_path = folder / "metrics.jsonl", folder / "samples.jsonl"

    @property
    def main(self) -> bool:
        """Whether this process writes."""
        return is_main()

    @property
    def finished(self) -> bool:
        return self.record.finished is not None

    def log(self, values: Mapping[str, Any]) -> None:
        """Add a line to metrics.jsonl; give it a `step`, so that a resumed run can drop what it will do again."""
        self._append(self.metrics_path, values)

    def sample(self, values: Mapping[str, Any]) -> None:
        """Add a line to samples.jsonl, likewise with a `step`."""
        self._append(self.samples_path, values)

    def alert(self, values: Mapping[str, Any]) -> None:
        """Add a line to alerts.jsonl, likewise with a `step`."""
        self._append(self.folder / "alerts.jsonl", values)

    def alerts(self) -> list[dict[str, Any]]:
        return list(_lines(self.folder / "alerts.jsonl"))

    def metrics(self) -> list[dict[str, Any]]:
        return list(_lines(self.metrics_path))

    def mark(self, checkpoint: Path) -> None:
        """Mark a checkpoint as complete. All processes must have written their files before."""
        if self.main:
            files = [path for path in sorted(checkpoint.rglob("*")) if path.is_file() and path.name != MARK]
            sizes = {str(path.relative_to(checkpoint)): path.stat().st_size for path in files}
            write_json(checkpoint / MARK, sizes)

    def whole_checkpoints(self) -> list[Path]:
        """Complete checkpoints, oldest first."""
        return [path for path in _numbered(self.checkpoints) if _whole(path)]

    def prune(self, keep: int, best: str | None = None) -> None:
        """Remove all whole checkpoints but the last `keep` and the one named `best`."""
        if self.main:
            for path in self.whole_checkpoints()[:-keep]:
                if path.name != best:
                    _remove(path)

    def finish(self, results: Mapping[str, Any]) -> None:
        """Record the results of a finished run."""
        self.record.finished, self.record.results = now(), dict(results)
        if self.main:
            write_json(self.folder / "run.json", self.record)

    def close(self) -> None:
        if self._lock:
            self._lock.close()
            self._lock = None

    def _append(self, path: Path, values: Mapping[str, Any]) -> None:
        if self.main:
            with path.open("ab") as file:
                file.write(msgspec.json.encode(values, enc_hook=_plain) + b"\n")


def open_run(
    folder: str | Path,
    record: Record,
    *,
    given: str | None = None,
    free: Sequence[str] = (),
    force: bool = False,
    fresh: bool = False,
) -> Run:
    """Start a run in this folder, or resume the one that is there.

    `given` is the text of the configuration as it was given; settings named in `free` may differ when it is resumed.
    """
    home = Path(folder)
    lock = None
    if is_main():
        lock = _locked(home)
        _prepare(home, record, given, free, force, fresh)
    wait_for_all()
    known = from_json((home / "run.json").read_bytes(), Record)
    return Run(home, known, known.sessions[-1].resumed_from, lock)


def is_main() -> bool:
    """Whether this is the first of the processes that torchrun or accelerate started."""
    return int(os.environ.get("RANK", "0")) == 0


def processes() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def wait_for_all() -> None:
    """Wait until all processes have arrived."""
    if processes() > 1:
        import accelerate  # type: ignore[import-untyped]

        accelerate.PartialState().wait_for_everyone()


def _prepare(home: Path, record: Record, given: str | None, free: Sequence[str], force: bool, fresh: bool) -> None:
    """The first process's work: compare with the existing run, clean up after a kill, record this session."""
    existing = home / "run.json"
    record = from_json(msgspec.json.encode(record), Record)  # as it will be read back
    cleared = fresh and existing.is_file()
    for name in OWN if cleared else ():
        _remove(home / name)
    if existing.is_file():
        known = _known(existing)
        differences = known.differences(record, free)
        if differences and not force:
            raise UserError(
                f"{home} holds another run: " + "; ".join(differences) + ". Give another folder, "
                "or --fresh to start again, or --force to resume anyway."
            )
        if known.finished and not differences:
            return
        record.sessions = known.sessions
    elif not cleared and any(path.name != ".lock" for path in home.iterdir()):
        raise UserError(f"{home} is not empty and holds no run. Give another folder.")
    else:
        differences = []
    (home / "checkpoints").mkdir(exist_ok=True)
    found = []
    for path in _numbered(home / "checkpoints"):
        if _whole(path):
            found.append(path)
        else:
            _remove(path)
    last = found[-1] if found else None
    for name in ("metrics.jsonl", "samples.jsonl", "alerts.jsonl"):
        _keep_until(home / name, _step(last) if last else 0)
    started = Session(
        started=now(),
        revision=revision(),
        versions=versions(),
        processes=processes(),
        resumed_from=str(last) if last else None,
        differences=tuple(differences),
    )
    record.sessions = [*record.sessions, started]
    write_json(home / "run.json", record)
    (home / "config.yaml").write_text(dump_yaml(record.config), encoding="utf-8")
    if given is not None:
        (home / "config.given.yaml").write_text(given, encoding="utf-8")


def _known(path: Path) -> Record:
    try:
        return from_json(path.read_bytes(), Record)
    except msgspec.MsgspecError as error:
        raise UserError(f"{path} is damaged: {error}. --fresh starts again.") from None


def _locked(home: Path) -> IO[str]:
    """Lock the folder until the process ends: two trainings in one folder would destroy each other's checkpoints."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        file = (home / ".lock").open("w")
    except OSError as error:
        raise UserError(f"A run cannot be kept in {home}: {error.strerror}.") from None
    lock(file, f"Another process is training in {home}. Wait for it, or give another folder.")
    return file


def _whole(checkpoint: Path) -> bool:
    """Whether all files have the size that they had when the checkpoint was marked."""
    try:
        sizes = from_json((checkpoint / MARK).read_bytes(), dict[str, int])
        return all((checkpoint / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, msgspec.MsgspecError):
        return False


def _numbered(checkpoints: Path) -> list[Path]:
    found = checkpoints.glob("checkpoint-*") if checkpoints.is_dir() else ()
    return sorted((path for path in found if re.fullmatch(r"checkpoint-\d+", path.name)), key=_step)


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _remove(path: Path) -> None:
    """Delete a file or folder. A checkpoint's mark goes first, so that half a checkpoint never looks complete."""
    if path.is_dir():
        (path / MARK).unlink(missing_ok=True)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Lines of a log, without one that a kill cut off."""
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            yield from_json(line, dict[str, Any])
        except msgspec.MsgspecError:
            print(f"{path}: a line was cut off and is left out.", file=sys.stderr)


def _keep_until(path: Path, step: int) -> None:
    """Keep the lines up to a step; the resumed run logs the others again."""
    if path.is_file():
        write_rows(path, [line for line in _lines(path) if step and int(line.get("step") or 0) <= step])


def _plain(value: Any) -> Any:
    """Numbers of numpy and torch as Python numbers."""
    return value.item() if hasattr(value, "item") else str(value)
