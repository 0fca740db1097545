"""Reading runs from their folders: which folders hold one, metrics, samples, results, transcripts; and people's notes.

A training run has a run.json with a kind and settings (`compeer.training.run`), an evaluation a result.json
(`compeer.evals.result`), a study of judges a run.json with sets and judges (`compeer.reward.evaluation.folder`); a
folder with nothing but a page is a report. Each gets a short id made from its path, and pages know it by that id alone:
an address in a browser never names a file.

Files may still be written while they are read (`compeer.training.metrics`). Samples can be large, so only the places of
their lines are kept; the lines of the chosen steps are read when they are shown. What cannot be read is left out.

`RunLibrary` keeps all of it between requests.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from compeer.dialogue.jsonl import replacing
from compeer.errors import UserError
from compeer.evals.result import RESULT, TRANSCRIPTS, Result, Transcript, load_transcripts
from compeer.reasoning import LABELS, STEPS, parse
from compeer.reasoning.ontology import VOCABULARIES, Language
from compeer.studio.access import RequestRefused
from compeer.training.metrics import GrowingFile, MetricLog
from compeer.training.run import Record
from compeer.typed import from_json, known

RunKind = Literal["training", "evaluation", "judging", "report"]
REPORTS = ("report.html", "index.html")
_DEEP, _MOST = 6, 20_000
_INSIDE = {"checkpoints", "model", "model.part", "sets", "judgements", "node_modules", "site-packages"}


class RunFolder(msgspec.Struct, frozen=True):
    """A folder with a run. `name` is its path below the folder that was given."""

    id: str
    name: str
    kind: RunKind
    path: Path


class _RecordHead(msgspec.Struct):
    """The part of a run.json that tells one kind from another."""

    kind: str | None = None
    judges: list[msgspec.Raw] | None = None


def find(roots: Sequence[Path]) -> list[RunFolder]:
    """Everything below the folders, each once."""
    found: dict[str, RunFolder] = {}
    for root in roots:
        base = root.resolve()
        for path in _folders(base):
            kind = kind_of(path)
            if kind is None:
                continue
            inside = path.relative_to(base).as_posix()
            name = base.name if inside == "." else inside if len(roots) == 1 else f"{base.name}/{inside}"
            key = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
            found.setdefault(key, RunFolder(key, _shown(name), kind, path))
    return list(found.values())


def kind_of(path: Path) -> RunKind | None:
    """The kind of run in a folder; None where there is none."""
    if (path / "run.json").is_file():
        try:
            head = from_json((path / "run.json").read_bytes(), _RecordHead)
        except (OSError, msgspec.MsgspecError):
            return "training"  # damaged: it is listed as such
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
    """A file name as text; bytes that are no text are replaced."""
    return name.encode("utf-8", "replace").decode("utf-8")


SAMPLES_SHOWN, SAMPLES_READ = 8, 40  # per step


class SampleStep(msgspec.Struct, frozen=True):
    """One step of reasoning as a page shows it."""

    step: str
    text: str
    labels: dict[str, str]


class PromptTurn(msgspec.Struct, frozen=True):
    """One turn of what an output answers."""

    speaker: str = ""
    text: str = ""


class Sample(msgspec.Struct):
    """One output with its reward and what it answers: a line of samples.jsonl, as far as it is shown.

    Another trainer may leave out anything. `held_out`: the prompt is the same at every step.
    """

    id: str = ""
    prompt_id: str = ""
    output: str = ""
    reply: str = ""
    problems: list[str] = []
    parts: dict[str, float] = {}
    reward: float | None = None
    failure: str | None = None
    prompt: list[PromptTurn] = []
    held_out: bool = False
    thoughts: list[SampleStep] = []  # read from the output


class SampledPrompt(msgspec.Struct, frozen=True):
    """One prompt with the outputs of each chosen step."""

    id: str
    prompt: list[PromptTurn]
    steps: list[tuple[int, list[Sample]]]


def by_prompt(columns: Sequence[tuple[int, list[Sample]]]) -> list[SampledPrompt]:
    """Samples of several steps by their prompt, so that one sees a model change; those of most steps come first."""
    ids = dict.fromkeys(one.prompt_id for _, samples in columns for one in samples)
    made = []
    for key in ids:
        steps = [(step, own) for step, samples in columns if (own := [one for one in samples if one.prompt_id == key])]
        prompt = next((one.prompt for _, own in steps for one in own if one.prompt), [])
        made.append(SampledPrompt(key, prompt, steps))
    return sorted(made, key=lambda one: (not one.steps[0][1][0].held_out, -len(one.steps)))


class _Step(msgspec.Struct):
    step: int = 0
    held_out: bool = False


class SampleLog:
    steps: list[int]  # those that have samples

    def __init__(self, path: Path) -> None:
        self._path, self.steps = path, []
        self._lines = GrowingFile(path, self._begin, self._take)
        self._decode = msgspec.json.Decoder(known(_Step)).decode
        self._lock = threading.Lock()
        self._begin()

    def catch_up(self) -> None:
        with self._lock:
            self._lines.catch_up()
            self.steps = sorted(self._places)

    def nearest(self, step: int) -> int:
        """The step with samples that is closest to this one."""
        return min(self.steps, key=lambda one: abs(one - step))

    def spread(self, count: int = 3) -> list[int]:
        """Steps to begin with: the first, the last, and between; where possible those that answer the same prompts."""
        steps = sorted(self._held) if len(self._held) > 1 else self.steps
        if len(steps) <= count:
            return list(steps)
        return [steps[round(index * (len(steps) - 1) / (count - 1))] for index in range(count)]

    def at(self, step: int, language: Language = "en") -> list[Sample]:
        """The samples of a step; labels are named in this language."""
        found = []
        try:
            with self._path.open("rb") as file:
                for start, length in self._places.get(step, []):
                    file.seek(start)
                    found.append(_sample(file.read(length), language))
                    if len(found) >= SAMPLES_READ:
                        break
        except FileNotFoundError:
            return []
        return sorted(found, key=lambda one: not one.held_out)[:SAMPLES_SHOWN]

    def _begin(self) -> None:
        self._places: dict[int, list[tuple[int, int]]] = {}
        self._held: set[int] = set()  # steps with answers to held-out prompts

    def _take(self, start: int, line: bytes) -> None:
        try:
            row = self._decode(line)
        except (msgspec.MsgspecError, RecursionError):
            return
        self._places.setdefault(row.step, []).append((start, len(line)))
        if row.held_out:
            self._held.add(row.step)


def _sample(line: bytes, language: Language) -> Sample:
    try:
        sample = from_json(line, Sample)
    except (msgspec.MsgspecError, RecursionError):  # overwritten right now, or in another format: shown as it is
        sample = Sample(output=line.decode("utf-8", "replace"))
    read = parse(sample.output)
    # older logs have no id of the prompt, but its place in the group behind the id
    sample.prompt_id = sample.prompt_id or re.sub(r"/\d+$", "", sample.id)
    sample.reply = sample.reply or read.response
    sample.problems = list(dict.fromkeys(sample.problems))
    sample.thoughts = [
        SampleStep(
            step,
            read.texts[step],
            {name: _named(name, read.labels[name], language) for name in LABELS[step] if name in read.labels},
        )
        for step in STEPS
        if read.texts.get(step)
    ]
    return sample


def _named(label: str, value: str | int, language: Language) -> str:
    """A label value in the reader's language."""
    return VOCABULARIES[label].get(str(value)).name(language) if label in VOCABULARIES else str(value)


class EvaluationResult(Result, frozen=True):
    """The content of result.json; `problem` when it cannot be read."""

    problem: str | None = None


def _result(folder: Path, _: tuple[int, int]) -> EvaluationResult:
    """The result in a folder, kept while the state of its file is the same; so are the dialogues."""
    try:
        return from_json((folder / RESULT).read_bytes(), EvaluationResult)
    except (OSError, msgspec.MsgspecError, RecursionError) as error:
        return EvaluationResult(benchmark="", model="", comparable={}, figures=(), problem=str(error))


def _transcripts(folder: Path, _: tuple[int, int]) -> list[Transcript]:
    found: list[Transcript] = []
    with contextlib.suppress(UserError, OSError, EOFError):  # half written, or none
        found.extend(load_transcripts(folder))
    return found


RunState = Literal["finished", "writing", "resting", "damaged"]
RUNNING = 300.0  # seconds since the last line: the run goes on
_FRESH, _OPEN = 3.0, 300  # seconds until folders are searched again; runs whose metrics are kept


class TrainingAlert(msgspec.Struct, frozen=True):
    step: int | None = None
    alert: str = ""


class TrainingRun(msgspec.Struct, frozen=True):
    """A training run: its record, its state, its metrics and alerts."""

    found: RunFolder
    record: Record | None  # None: it cannot be read
    state: RunState
    changed: float
    metrics: MetricLog
    alerts: list[TrainingAlert]

    @property
    def what(self) -> str:
        return self.record.kind if self.record is not None else ""


class RunNotes:
    """What people wrote about runs: a text file for each in the studio's data folder; run folders are only read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, found: RunFolder) -> str:
        try:
            return (self.folder / f"{found.id}.md").read_text(encoding="utf-8")
        except OSError:
            return ""

    def write(self, found: RunFolder, text: str) -> None:
        """Keep a note; an empty one removes it."""
        file = self.folder / f"{found.id}.md"
        if not text.strip():
            file.unlink(missing_ok=True)
            return
        with replacing(file) as out:
            out.write(f"{text.strip()}\n".encode())


class RunLibrary:
    def __init__(self, roots: Sequence[Path], notes: Path) -> None:
        self.roots, self.notes = tuple(roots), RunNotes(notes)
        self._lock = threading.Lock()
        self._found: tuple[float, dict[str, RunFolder]] | None = None
        self._metrics, self._samples = lru_cache(_OPEN)(MetricLog), lru_cache(_OPEN)(SampleLog)
        self._results, self._transcripts = lru_cache(_OPEN)(_result), lru_cache(1)(_transcripts)

    def all(self) -> dict[str, RunFolder]:
        """Everything there is, by id."""
        with self._lock:
            now = time.monotonic()
            if self._found is None or now - self._found[0] > _FRESH:
                self._found = (now, {one.id: one for one in find(self.roots)})
            return self._found[1]

    def get(self, key: str) -> RunFolder:
        found = self.all().get(key)
        if found is None:
            raise RequestRefused(404, "missing", "no such run")
        return found

    def training_run(self, found: RunFolder) -> TrainingRun:
        metrics = self._metrics(found.path / "metrics.jsonl")
        metrics.catch_up()
        record: Record | None = None
        with contextlib.suppress(OSError, msgspec.MsgspecError, RecursionError):
            record = from_json((found.path / "run.json").read_bytes(), Record)
        changed = max(metrics.changed, changed_at(found))
        state: RunState = "resting"
        if record is None:
            state = "damaged"
        elif record.finished:
            state = "finished"
        elif time.time() - changed < RUNNING:
            state = "writing"
        return TrainingRun(found, record, state, changed, metrics, _alerts(found.path / "alerts.jsonl"))

    def samples(self, found: RunFolder) -> SampleLog:
        samples = self._samples(found.path / "samples.jsonl")
        samples.catch_up()
        return samples

    def result(self, found: RunFolder) -> EvaluationResult:
        return self._results(found.path, _stat(found.path / RESULT))

    def transcripts(self, found: RunFolder) -> list[Transcript]:
        """The dialogues of an evaluation, as far as they can be read; the last one looked at is kept."""
        return self._transcripts(found.path, _stat(found.path / TRANSCRIPTS))

    def results_of(self, found: RunFolder) -> list[tuple[RunFolder, EvaluationResult]]:
        """Evaluations of a training run: below its folder, or of a model that lies in it."""
        inside = f"{found.path}/"
        return [
            (one, self.result(one))
            for one in self.all().values()
            if one.kind == "evaluation"
            and (one.path.is_relative_to(found.path) or inside in f"{self.result(one).model}/")
        ]


_FILES = ("metrics.jsonl", "run.json", "result.json", "report.json", "report.html", TRANSCRIPTS)


def files_state(found: RunFolder) -> tuple[tuple[int, int], ...]:
    """Times and sizes of the files that make this folder a run: they tell whether something changed."""
    return tuple(_stat(found.path / name) for name in _FILES)


def changed_at(found: RunFolder) -> float:
    """When one of these files was last written."""
    return max(time for time, _ in files_state(found)) / 1e9


def _stat(path: Path) -> tuple[int, int]:
    try:
        about = path.stat()
    except OSError:
        return (0, 0)
    return (about.st_mtime_ns, about.st_size)


def _alerts(path: Path) -> list[TrainingAlert]:
    found = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    for line in lines[-200:]:
        try:
            found.append(from_json(line, TrainingAlert))
        except (msgspec.MsgspecError, RecursionError):
            continue  # being written
    return found
