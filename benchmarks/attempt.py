"""One benchmark, tried: started in a process of its own, watched, ended when it takes too long, its reason kept.

Whatever happens to it becomes an entry, so that the others go on and the table can say what was not measured and why.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks.catalogue import Benchmark
from benchmarks.machine import ROOT, load, machine, revision
from benchmarks.measure import Missing, Ratio
from benchmarks.results import Entry


class Left(msgspec.Struct):
    """What the process leaves."""

    ratios: tuple[Ratio, ...]
    missing: tuple[Missing, ...]


def attempt(benchmark: Benchmark, timeout: float) -> Entry:
    """Measure, or say why not."""
    at, began, busy = datetime.now(UTC), time.monotonic(), load()
    left = Left((), ())
    failed = lacking(benchmark)
    if failed is None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            failed = _watched(benchmark, folder, timeout)
            if failed is None:
                left = msgspec.json.decode((folder / "found.json").read_bytes(), type=Left)
                failed = None if left.ratios else "; ".join(one.reason for one in left.missing) or "it gave no ratio"
    return Entry(
        measured=at.strftime("%Y-%m-%d %H:%M"),
        seconds=round(time.monotonic() - began, 1),
        revision=revision(),
        machine=machine(),
        load=busy,
        ratios=left.ratios,
        missing=left.missing,
        failed=failed,
    )


def lacking(benchmark: Benchmark) -> str | None:
    """What it cannot do without and does not find here."""
    for package, extra in benchmark.packages.items():
        if importlib.util.find_spec(package) is None:
            return f"the package {package} is not installed: pip install {extra}"
    for program in benchmark.programs:
        if shutil.which(program) is None:
            return f"the program {program} is not installed"
    return None


def _watched(benchmark: Benchmark, folder: Path, timeout: float) -> str | None:
    """Run it to its end; None when it ended well, else the reason."""
    log = folder / "log"
    command = [sys.executable, "-m", "benchmarks.one", benchmark.name, str(folder / "found.json")]
    paths = [os.environ.get("PYTHONPATH", ""), str(ROOT), str(ROOT / "src")]
    surroundings = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=surroundings, stdout=output, stderr=output, start_new_session=True
        )
    began, line = time.monotonic(), Clock(benchmark)
    try:
        while process.poll() is None:
            spent = time.monotonic() - began
            if spent > timeout:
                return f"not done after {timeout:.0f} s"
            line.show(spent, log)
            time.sleep(0.5)  # seldom: what is watched is being timed
    finally:
        line.clear()
        _end(process)
    if process.returncode:
        return _reason(log) or f"it ended with status {process.returncode}"
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """It and all that it started: they are one group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last(log: Path) -> str:
    """The last line that says something, of the last few kilobytes."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _reason(log: Path) -> str:
    """The last line of a traceback says what happened; a few hundred characters of it are enough for a table."""
    return _last(log)[:300]


class Clock:
    """Elapsed time and the benchmark's latest words: one line that changes on a terminal, a line a minute elsewhere."""

    def __init__(self, benchmark: Benchmark) -> None:
        self.benchmark, self.live, self.told = benchmark, sys.stderr.isatty(), 0.0

    def show(self, spent: float, log: Path) -> None:
        if spent < self.told + (2 if self.live else 60):
            return
        self.told = spent
        text = f"  {spent:4.0f} s of about {self.benchmark.minutes * 60:.0f}   {_last(log)}"
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\033[2K{text[:width]}" if self.live else text, end="" if self.live else "\n", file=sys.stderr)
        sys.stderr.flush()

    def clear(self) -> None:
        if self.live:
            print("\r\033[2K", end="", file=sys.stderr, flush=True)
