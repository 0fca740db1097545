"""metrics.jsonl as columns: for each name the steps and the values, eight bytes each.

Names that begin with eval_ are the validation part of the name behind it, as in the figure that training draws. Lines
that are no JSON objects are counted and passed over.
"""

from __future__ import annotations

import math
import threading
from array import array
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from compeer.studio.rooms.runs.tail import Tail
from compeer.typed import known

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
