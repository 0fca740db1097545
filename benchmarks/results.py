"""results.json: what each benchmark found the last time, on which machine, when, at which revision.

A run replaces the entries of the benchmarks it has measured, one by one as they end, and leaves the others as they are.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from benchmarks.machine import Machine
from benchmarks.measure import Missing, Ratio

FILE = Path(__file__).with_name("results.json")


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One benchmark, measured once. With `failed` there is no ratio."""

    measured: str  # date and time, UTC
    seconds: float
    revision: str
    machine: Machine
    load: float  # before it began
    ratios: tuple[Ratio, ...] = ()
    missing: tuple[Missing, ...] = ()
    failed: str | None = None

    def current(self, revision: str, machine: Machine) -> bool:
        """Was it measured on this machine at this revision, so that it need not be measured again?"""
        return self.failed is None and revision != "unknown" and (self.revision, self.machine) == (revision, machine)


def read(file: Path = FILE) -> dict[str, Entry]:
    """The entries by the benchmark's name."""
    return msgspec.json.decode(file.read_bytes(), type=dict[str, Entry]) if file.exists() else {}


def merge(name: str, entry: Entry, file: Path = FILE) -> dict[str, Entry]:
    """Put an entry in its place. The file is written whole or not at all."""
    entries = read(file) | {name: entry}
    rows = {key: _plain(value) for key, value in sorted(entries.items())}
    part = file.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
    part.replace(file)
    return entries


def _plain(entry: Entry) -> dict[str, object]:
    """As it stands in the file: every ratio is written out for those who read it without this program."""
    plain: dict[str, object] = msgspec.to_builtins(entry)
    return plain | ({"ratios": [ratio.as_dict() for ratio in entry.ratios]} if entry.ratios else {})
