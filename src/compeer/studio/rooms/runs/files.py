"""Which folders hold something to show.

A training run has a run.json with a kind and settings (`compeer.training.run`), an evaluation a result.json
(`compeer.evals.result`), a study of judges a run.json with sets and judges (`compeer.reward.evaluation.folder`);
a folder with nothing but a page is a report. Each gets a short id made of its path, and pages know it by that id
alone: an address in a browser never names a file.

Reading a file that grows, without reading anything twice.

A line counts when its end has been written, so one that is being written is simply not there yet. A file that became
shorter, or another file under the same name (a resumed run writes its logs anew), is read from the beginning.

metrics.jsonl as columns: for each name the steps and the values, eight bytes each.

Names that begin with eval_ are the validation part of the name behind it, as in the figure that training draws. Lines
that are no JSON objects are counted and passed over.

What the model wrote, at chosen steps.

samples.jsonl can be large, so only the places of its lines are kept, by step; the lines of the chosen steps are read
when they are shown. A sample's reasoning is read by `compeer.reasoning`, as everywhere.

Results of evaluations, read leniently: a figure without a value, or without an interval, is shown as such.

All runs, kept between requests: folders are looked for every few seconds, files are read on from where we were.
"""

from __future__ import annotations

import bisect
import hashlib
import math
import os
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from markupsafe import Markup

from compeer.evals.result import RESULT
from compeer.reasoning import LABELS, STEPS, parse
from compeer.reasoning.ontology import VOCABULARIES, Language
from compeer.studio.access.people import Refused
from compeer.typed import from_json, known

Kind = Literal["training", "evaluation", "judging", "report"]
REPORTS = ("report.html", "index.html")
_DEEP, _MOST = 6, 20_000
_INSIDE = {"checkpoints", "model", "model.part", "sets", "judgements", "node_modules", "site-packages"}


class Found(msgspec.Struct, frozen=True):
    """A folder with a run. `name` is its path below the folder that was given."""

    id: str
    name: str
    kind: Kind
    path: Path


class _Head(msgspec.Struct):
    """Enough of a run.json to tell one kind from another."""

    kind: str | None = None
    judges: list[msgspec.Raw] | None = None


def find(roots: Sequence[Path]) -> list[Found]:
    """Everything below the folders, each once."""
    found: dict[str, Found] = {}
    for root in roots:
        base = root.resolve()
        for path in _folders(base):
            kind = kind_of(path)
            if kind is None:
                continue
            inside = path.relative_to(base).as_posix()
            name = base.name if inside == "." else inside if len(roots) == 1 else f"{base.name}/{inside}"
            key = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
            found.setdefault(key, Found(key, _shown(name), kind, path))
    return list(found.values())


def kind_of(path: Path) -> Kind | None:
    """What a folder holds, if anything."""
    if (path / "run.json").is_file():
        try:
            head = from_json((path / "run.json").read_bytes(), _Head)
        except (OSError, msgspec.MsgspecError):
            return "training"  # damaged: it is shown, and says so
        if head.kind is not None:
            return "training"
        if head.judges is not None:
            return "judging"
    if (path / "result.json").is_file():
        return "evaluation"
    return "report" if (path / "report.html").is_file() else None


def report_of(path: Path) -> Path | None:
    """The HTML report of a run."""
    places = [path / name for name in REPORTS] + [path / "report" / name for name in REPORTS]
    return next((place for place in places if place.is_file()), None)


def _folders(base: Path) -> Iterator[Path]:
    for seen, (place, names, _) in enumerate(os.walk(base)):
        path = Path(place)
        yield path
        deep = len(path.relative_to(base).parts)
        names[:] = sorted(name for name in names if name not in _INSIDE and not name.startswith((".", "checkpoint-")))
        if deep >= _DEEP or seen >= _MOST:
            names.clear()


def _shown(name: str) -> str:
    """A file name may hold bytes that are no text."""
    return name.encode("utf-8", "replace").decode("utf-8")


_PIECE = 1 << 20


class Tail:
    """Hands each whole line, with the place where it begins, to `take`; `begin` is called before the first."""

    def __init__(self, path: Path, begin: Callable[[], None], take: Callable[[int, bytes], None]) -> None:
        self.path, self._begin, self._take = path, begin, take
        self._file: tuple[int, int] | None = None
        self._read = 0
        self.changed = 0.0

    def catch_up(self) -> bool:
        """Read what has come since; whether anything has."""
        try:
            with self.path.open("rb") as file:
                about = os.fstat(file.fileno())
                if self._file != (about.st_dev, about.st_ino) or about.st_size < self._read:
                    self._file, self._read = (about.st_dev, about.st_ino), 0
                    self._begin()
                self.changed = about.st_mtime
                before = self._read
                file.seek(self._read)
                rest = b""
                while piece := file.read(_PIECE):
                    lines = (rest + piece).split(b"\n")
                    rest = lines.pop()
                    for line in lines:
                        if line:
                            self._take(self._read, line)
                        self._read += len(line) + 1
                return self._read > before
        except FileNotFoundError:
            if self._file is not None:
                self._file, self._read = None, 0
                self._begin()
            return False


#: said once at the end of training, or the same as the axis
LEFT_OUT = ("step", "epoch", "total_flos", "num_tokens", "train_loss")
_LEFT_OUT_ENDS = ("_runtime", "_per_second", "num_tokens")


class Column:
    """The values of one name."""

    def __init__(self) -> None:
        self.steps, self.values = array("d"), array("d")

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def last(self) -> float:
        return self.values[-1]

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values as they are now. Copies: while somebody looks at the numbers, more may be added."""
        steps, values = np.array(self.steps[:]), np.array(self.values[:])
        return steps[: len(values)], values[: len(steps)]


class Numbers:
    """The columns of one run. `columns[name][part]`, where part is "train" or "eval"."""

    def __init__(self, path: Path) -> None:
        self._tail = Tail(path, self._begin, self._take)
        self._decode = msgspec.json.Decoder(known(dict[str, Any])).decode
        self._lock = threading.Lock()
        self._begin()

    def catch_up(self) -> None:
        with self._lock:
            self._tail.catch_up()

    @property
    def changed(self) -> float:
        return self._tail.changed

    def column(self, name: str, part: str = "train") -> Column | None:
        return self.columns.get(name, {}).get(part)

    def _begin(self) -> None:
        self.columns: dict[str, dict[str, Column]] = {}
        self.step, self.lines, self.broken = 0, 0, 0

    def _take(self, _: int, line: bytes) -> None:
        try:
            row = self._decode(line)
        except (msgspec.MsgspecError, RecursionError):
            self.broken += 1
            return
        self.lines += 1
        given = row.get("step")
        step = given if isinstance(given, int | float) and math.isfinite(given) else self.lines
        self.step = max(self.step, int(step))
        for key, value in row.items():
            if type(value) not in (int, float) or key in LEFT_OUT or key.endswith(_LEFT_OUT_ENDS):
                continue
            part, name = ("eval", key[5:]) if key.startswith("eval_") else ("train", key)
            column = self.columns.setdefault(name, {}).setdefault(part, Column())
            try:
                value = float(value)
            except OverflowError:
                continue
            if math.isfinite(value):
                column.steps.append(step)
                column.values.append(value)


MOST = 8  # shown of one step


class Thought(msgspec.Struct, frozen=True):
    """One step of reasoning as a page shows it."""

    step: str
    text: str
    labels: dict[str, str]


class Sample(msgspec.Struct, frozen=True):
    """One output with what it earned."""

    id: str
    reply: str
    output: str
    thoughts: list[Thought]
    problems: list[str]
    parts: dict[str, float]
    reward: float | None
    failure: str | None


class _Step(msgspec.Struct):
    step: int = 0


class _Row(msgspec.Struct):
    """A line of samples.jsonl, as far as it is shown; a trainer of somebody else may leave out anything."""

    id: str = ""
    output: str = ""
    reply: str = ""
    problems: list[str] = []
    parts: dict[str, float] = {}
    reward: float | None = None
    failure: str | None = None


class Samples:
    steps: list[int]  # those that have samples

    def __init__(self, path: Path) -> None:
        self._path, self.steps = path, []
        self._tail = Tail(path, self._begin, self._take)
        self._decode = msgspec.json.Decoder(known(_Step)).decode
        self._lock = threading.Lock()
        self._begin()

    def catch_up(self) -> None:
        with self._lock:
            self._tail.catch_up()
            self.steps = sorted(self._places)

    def nearest(self, step: int) -> int:
        """The step with samples that is closest to this one."""
        place = bisect.bisect_left(self.steps, step)
        near = self.steps[max(0, place - 1) : place + 1]
        return min(near, key=lambda one: abs(one - step))

    def spread(self, count: int = 3) -> list[int]:
        """Steps to begin with: the first, the last, and between."""
        if len(self.steps) <= count:
            return list(self.steps)
        return [self.steps[round(index * (len(self.steps) - 1) / (count - 1))] for index in range(count)]

    def at(self, step: int, language: Language = "en") -> list[Sample]:
        """The samples of a step; labels are named in this language."""
        found = []
        try:
            with self._path.open("rb") as file:
                for start, length in self._places.get(step, [])[:MOST]:
                    file.seek(start)
                    found.append(_sample(file.read(length), language))
        except FileNotFoundError:
            return []
        return found

    def _begin(self) -> None:
        self._places: dict[int, list[tuple[int, int]]] = {}

    def _take(self, start: int, line: bytes) -> None:
        try:
            step = self._decode(line).step
        except (msgspec.MsgspecError, RecursionError):
            return
        self._places.setdefault(step, []).append((start, len(line)))


def _sample(line: bytes, language: Language) -> Sample:
    try:
        row = from_json(line, _Row)
    except (msgspec.MsgspecError, RecursionError):  # written over in this moment, or of another make: as it stands
        row = _Row(output=line.decode("utf-8", "replace"))
    read = parse(row.output)
    thoughts = [
        Thought(
            step,
            read.texts[step],
            {name: _named(name, read.labels[name], language) for name in LABELS[step] if name in read.labels},
        )
        for step in STEPS
        if read.texts.get(step)
    ]
    counted: dict[str, Any] = dict.fromkeys(row.problems)
    return Sample(
        id=row.id,
        reply=row.reply or read.response,
        output=row.output,
        thoughts=thoughts,
        problems=list(counted),
        parts=row.parts,
        reward=row.reward,
        failure=row.failure,
    )


def _named(label: str, value: str | int, language: Language) -> str:
    """A conclusion in the reader's language: values are identifiers inside."""
    return VOCABULARIES[label].get(str(value)).name(language) if label in VOCABULARIES else str(value)


class Shown(msgspec.Struct, frozen=True):
    """One figure. `compeer.statistics.Figure`, where the value of an empty sample is missing."""

    name: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0


class Outcome(msgspec.Struct, frozen=True):
    """What result.json says; `problem` when it cannot be read."""

    benchmark: str = ""
    model: str = ""
    comparable: dict[str, Any] = {}
    figures: list[Shown] = []
    setup: dict[str, Any] = {}
    notes: list[str] = []
    problem: str | None = None

    def whiskers(self) -> dict[str, Markup]:
        """For each figure its interval on one common axis from zero, as a drawing; empty where there is none."""
        axis = whisker_axis(figure.high for figure in self.figures if figure.high is not None)
        return {figure.name: _whisker(figure, axis) for figure in self.figures}


def whisker_axis(highs: Iterable[float]) -> float:
    """Where the axis ends: 1 and 100 for shares and percents, else the highest."""
    high = max((abs(one) for one in highs), default=0.0)
    return next((end for end in (1.0, 100.0) if high <= end), high)


def _whisker(figure: Shown, axis: float) -> Markup:
    if figure.value is None or figure.low is None or figure.high is None or not axis or figure.low < 0:
        return Markup("")
    low, value, high = (f"{200 * one / axis:.1f}" for one in (figure.low, figure.value, figure.high))
    return Markup(
        '<svg class="whisker" viewBox="-5 0 210 16"><line class="axis" x1="0" x2="200" y1="8" y2="8"/>'
        '<line x1="{}" x2="{}" y1="8" y2="8"/><circle cx="{}" cy="8" r="4"/></svg>'
    ).format(low, high, value)


def outcome(folder: Path) -> Outcome:
    try:
        return from_json((folder / RESULT).read_bytes(), Outcome)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        return Outcome(problem=str(error))


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
