"""`compeer studio` as a process of its own, which a test may kill and start again.

What it logs goes to a file: it logs much, and a full pipe would hold it up.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType

from tests.cli.command import COMPEER, environment


class Studio:
    """The command with these words. `said` is the first line that it printed, `address` where it is."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.command, self.log = [COMPEER, "studio", "--data", str(folder / "data"), *words], folder / "log"
        self.said = ""

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, env=environment(), stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()

    @property
    def address(self) -> str:
        return self.said.split()[-1]

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __enter__(self) -> Studio:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.kill()
