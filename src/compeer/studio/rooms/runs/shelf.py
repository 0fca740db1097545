"""All runs, kept between requests: folders are looked for every few seconds, files are read on from where we were."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer.studio.access.refused import Refused
from compeer.studio.rooms.runs.evaluation import Outcome, outcome
from compeer.studio.rooms.runs.find import Found, find
from compeer.studio.rooms.runs.numbers import Numbers
from compeer.studio.rooms.runs.samples import Samples
from compeer.typed import from_json

State = Literal["finished", "writing", "resting", "damaged"]
WRITING = 300.0  # seconds since the last line: someone is at work
_FRESH, _OPEN = 3.0, 300  # seconds for which the folders are known; runs whose numbers are kept


class Alert(msgspec.Struct, frozen=True):
    step: int | None = None
    alert: str = ""


class Book(msgspec.Struct, frozen=True):
    """A training run: its record and where it stands."""

    found: Found
    record: dict[str, Any]
    state: State
    changed: float
    numbers: Numbers
    alerts: list[Alert]

    @property
    def what(self) -> str:
        return str(self.record.get("kind", ""))


class Shelf:
    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = tuple(roots)
        self._lock = threading.Lock()
        self._found: tuple[float, dict[str, Found]] | None = None
        self._numbers: OrderedDict[Path, Numbers] = OrderedDict()
        self._samples: OrderedDict[Path, Samples] = OrderedDict()
        self._outcomes: dict[Path, tuple[tuple[int, int], Outcome]] = {}

    def all(self) -> dict[str, Found]:
        """Everything there is, by id."""
        with self._lock:
            now = time.monotonic()
            if self._found is None or now - self._found[0] > _FRESH:
                self._found = (now, {one.id: one for one in find(self.roots)})
            return self._found[1]

    def get(self, key: str) -> Found:
        found = self.all().get(key)
        if found is None:
            raise Refused(404, "missing", "no such run")
        return found

    def book(self, found: Found) -> Book:
        numbers: Numbers = self._kept(self._numbers, found.path / "metrics.jsonl", Numbers)
        numbers.catch_up()
        record = _object(found.path / "run.json")
        changed = max(numbers.changed, changed_at(found))
        state: State = "resting"
        if record is None:
            state = "damaged"
        elif record.get("finished"):
            state = "finished"
        elif time.time() - changed < WRITING:
            state = "writing"
        return Book(found, record or {}, state, changed, numbers, _alerts(found.path / "alerts.jsonl"))

    def samples(self, found: Found) -> Samples:
        samples: Samples = self._kept(self._samples, found.path / "samples.jsonl", Samples)
        samples.catch_up()
        return samples

    def outcome(self, found: Found) -> Outcome:
        about = _stat(found.path / "result.json")
        kept = self._outcomes.get(found.path)
        if kept is None or kept[0] != about:
            kept = self._outcomes[found.path] = (about, outcome(found.path))
        return kept[1]

    def outcomes_of(self, found: Found) -> list[tuple[Found, Outcome]]:
        """Evaluations of a training run: below its folder, or of a model that lies in it."""
        inside = f"{found.path}/"
        return [
            (one, self.outcome(one))
            for one in self.all().values()
            if one.kind == "evaluation"
            and (one.path.is_relative_to(found.path) or inside in f"{self.outcome(one).model}/")
        ]

    def _kept(self, shelf: OrderedDict[Path, Any], path: Path, make: Any) -> Any:
        with self._lock:
            if path not in shelf:
                shelf[path] = make(path)
                while len(shelf) > _OPEN:
                    shelf.popitem(last=False)
            shelf.move_to_end(path)
            return shelf[path]


def changed_at(found: Found) -> float:
    """When something was last written that this folder is known by."""
    names = ("metrics.jsonl", "run.json", "result.json", "report.json", "report.html")
    return max(_stat(found.path / name)[0] for name in names) / 1e9


def _stat(path: Path) -> tuple[int, int]:
    try:
        about = path.stat()
    except OSError:
        return (0, 0)
    return (about.st_mtime_ns, about.st_size)


def _object(path: Path) -> dict[str, Any] | None:
    try:
        return from_json(path.read_bytes(), dict[str, Any])
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None


def _alerts(path: Path) -> list[Alert]:
    found = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    for line in lines[-200:]:
        try:
            found.append(from_json(line, Alert))
        except (msgspec.MsgspecError, RecursionError):
            continue  # being written
    return found
