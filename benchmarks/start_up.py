"""`compeer --help` against `python -c "import typer"`: processor time of the fastest of several runs, interleaved."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Ratio


def run(times: int = 9) -> list[Ratio]:
    command = [str(Path(sys.executable).with_name("compeer")), "--help"]
    plain = [sys.executable, "-c", "import typer"]
    ours, theirs = [], []
    for _ in range(times):
        ours.append(_seconds(command))
        theirs.append(_seconds(plain))
    return [
        Ratio(
            what="start-up of compeer --help",
            ours=min(ours),
            theirs=min(theirs),
            against="python -c 'import typer'",
            unit="s CPU",
            wanted=3.0,
            at_least=False,
        )
    ]


def _seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=os.environ | {"COLUMNS": "80"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
