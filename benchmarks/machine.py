"""On which machine and at which revision something was measured. Without both a figure cannot be compared."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
#: what a benchmark writes itself; it must not make the revision another one
OWN = (":!benchmarks/results.json", ":!docs/performance.md")


class Machine(msgspec.Struct, frozen=True):
    """The machine, as far as speed hangs on it."""

    cores: int
    cpu: str
    memory_gb: int
    python: str

    def __str__(self) -> str:
        return f"{self.cores} cores of {self.cpu}, {self.memory_gb} GB, Python {self.python}"


def machine() -> Machine:
    cpu = _line("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()
    memory = _line("/proc/meminfo", "MemTotal").split(" ")[0]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(cores, cpu, round(int(memory or 0) / 2**20), platform.python_version())


def load() -> float:
    """How many programs wanted a core over the last minute, before the benchmark began."""
    return round(os.getloadavg()[0], 1)


def revision() -> str:
    """The commit; where files differ from it, with a mark that hangs on the differences."""
    commit = _git("rev-parse", "--short", "HEAD").strip()
    if not commit:
        return "unknown"
    changed = _git("diff", "HEAD", "--", ".", *OWN)
    new = _git("ls-files", "--others", "--exclude-standard", "--", "src", "benchmarks", "tests", *OWN)
    for name in new.splitlines():
        changed += name + hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
    return f"{commit}+{hashlib.sha256(changed.encode()).hexdigest()[:6]}" if changed else commit


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def _line(path: str, begins: str) -> str:
    file = Path(path)
    lines = file.read_text().splitlines() if file.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(begins)), "")
