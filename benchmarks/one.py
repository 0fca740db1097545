"""One benchmark in a process of its own: `python -m benchmarks.one NAME FILE` runs it and leaves what it found in FILE.

A process of its own, because threads, caches and memory that one benchmark leaves behind would be another's, and
because one that crashes must not take the rest along.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import msgspec

from benchmarks.measure import Missing, Ratio


def main() -> None:
    name, file = sys.argv[1:]
    found = importlib.import_module(f"benchmarks.{name}").run()
    ratios = [each for each in found if isinstance(each, Ratio)]
    missing = [each for each in found if isinstance(each, Missing)]
    Path(file).write_bytes(msgspec.json.encode({"ratios": ratios, "missing": missing}))


if __name__ == "__main__":
    main()
