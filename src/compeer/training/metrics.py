"""metrics.jsonl of a training run as columns of numbers, also while it is being written.

`GrowingFile` reads each line once and counts it when its end has been written; a file that became shorter, or another
file under the same name (a resumed run writes its logs again), is read from the beginning.
"""

from __future__ import annotations

import math
import os
import threading
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from compeer.typed import known

_PIECE = 1 << 20


class GrowingFile:
    """Passes each complete line with its offset to `take`; calls `begin` before the first line."""

    def __init__(self, path: Path, begin: Callable[[], None], take: Callable[[int, bytes], None]) -> None:
        self.path, self._begin, self._take = path, begin, take
        self._file: tuple[int, int] | None = None
        self._read = 0
        self.changed = 0.0

    def catch_up(self) -> None:
        """Read what was added since."""
        try:
            with self.path.open("rb") as file:
                about = os.fstat(file.fileno())
                if self._file != (about.st_dev, about.st_ino) or about.st_size < self._read:
                    self._file, self._read = (about.st_dev, about.st_ino), 0
                    self._begin()
                self.changed = about.st_mtime
                file.seek(self._read)
                rest = b""
                while piece := file.read(_PIECE):
                    lines = (rest + piece).split(b"\n")
                    rest = lines.pop()
                    for line in lines:
                        if line:
                            self._take(self._read, line)
                        self._read += len(line) + 1
        except FileNotFoundError:
            if self._file is not None:
                self._file, self._read = None, 0
                self._begin()


#: logged once at the end of training, or the same as the axis
LEFT_OUT = ("step", "epoch", "total_flos", "num_tokens", "train_loss")
_LEFT_OUT_ENDS = ("_runtime", "_per_second", "num_tokens")


class MetricColumn:
    """The values of one name."""

    def __init__(self) -> None:
        self.steps, self.values = array("d"), array("d")

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def last(self) -> float:
        return self.values[-1]

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps and values as they are now, as copies: more may be added while they are drawn."""
        steps, values = np.array(self.steps[:]), np.array(self.values[:])
        return steps[: len(values)], values[: len(steps)]


class MetricLog:
    """metrics.jsonl of one run as columns: `columns[name][part]`, where part is "train" or "eval".

    A name that begins with eval_ is the validation part of the name behind it, as in the figure that training draws.
    """

    def __init__(self, path: Path) -> None:
        self._lines = GrowingFile(path, self._begin, self._take)
        self._decode = msgspec.json.Decoder(known(dict[str, Any])).decode
        self._lock = threading.Lock()
        self._begin()

    def catch_up(self) -> None:
        with self._lock:
            self._lines.catch_up()

    @property
    def changed(self) -> float:
        return self._lines.changed

    def column(self, name: str, part: str = "train") -> MetricColumn | None:
        return self.columns.get(name, {}).get(part)

    def _begin(self) -> None:
        self.columns: dict[str, dict[str, MetricColumn]] = {}
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
            try:
                value = float(value)
            except OverflowError:
                continue
            if math.isfinite(value):
                column = self.columns.setdefault(name, {}).setdefault(part, MetricColumn())
                column.steps.append(step)
                column.values.append(value)


def metric_words(name: str) -> str:
    """A logged name as a person reads it.

    >>> metric_words("diversity/distinct_2"), metric_words("kl")
    ('Diversity: distinct 2', 'Kl')
    """
    plain = name.replace("_", " ").replace("/", ": ")
    return plain[:1].upper() + plain[1:]
