"""What a benchmark reports, and on what it was measured."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import msgspec


class Ratio(msgspec.Struct, frozen=True, kw_only=True):
    """Ours against theirs, in the same unit, measured in the same run."""

    what: str
    ours: float
    theirs: float
    against: str
    unit: str
    wanted: float | None = None
    at_least: bool = True  # else: at most

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    def as_dict(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self) | {"ratio": self.ratio}


def machine() -> str:
    """The machine, in words."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    return f"{os.cpu_count()} cores of {cpu}, Python {platform.python_version()}"
