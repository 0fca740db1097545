"""Reading a file that grows, without reading anything twice.

A line counts when its end has been written, so one that is being written is simply not there yet. A file that became
shorter, or another file under the same name (a resumed run writes its logs anew), is read from the beginning.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

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
