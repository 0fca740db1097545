"""What the model wrote, at chosen steps.

samples.jsonl can be large, so only the places of its lines are kept, by step; the lines of the chosen steps are read
when they are shown. A sample's reasoning is read by `compeer.reasoning`, as everywhere.
"""

from __future__ import annotations

import bisect
import threading
from pathlib import Path
from typing import Any

import msgspec

from compeer.reasoning import LABELS, STEPS, parse
from compeer.reasoning.ontology import VOCABULARIES, Language
from compeer.studio.rooms.runs.tail import Tail
from compeer.typed import from_json, known

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
