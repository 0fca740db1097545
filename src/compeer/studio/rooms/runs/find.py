"""Which folders hold something to show.

A training run has a run.json with a kind and settings (`compeer.training.run`), an evaluation a result.json
(`compeer.evals.result`), a study of judges a run.json with sets and judges (`compeer.reward.evaluation.folder`);
a folder with nothing but a page is a report. Each gets a short id made of its path, and pages know it by that id
alone: an address in a browser never names a file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from compeer.typed import from_json

Kind = Literal["training", "evaluation", "judging", "report"]
REPORTS = ("report.html", "index.html")
_DEEP, _MOST = 6, 20_000
_INSIDE = {"checkpoints", "model", "model.part", "sets", "judgements", "node_modules", "site-packages"}


class Found(msgspec.Struct, frozen=True):
    """A folder with a run. `name` is its path below the folder that was given."""

    id: str
    name: str
    kind: Kind
    path: Path


class _Head(msgspec.Struct):
    """Enough of a run.json to tell one kind from another."""

    kind: str | None = None
    judges: list[msgspec.Raw] | None = None


def find(roots: Sequence[Path]) -> list[Found]:
    """Everything below the folders, each once."""
    found: dict[str, Found] = {}
    for root in roots:
        base = root.resolve()
        for path in _folders(base):
            kind = kind_of(path)
            if kind is None:
                continue
            inside = path.relative_to(base).as_posix()
            name = base.name if inside == "." else inside if len(roots) == 1 else f"{base.name}/{inside}"
            key = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
            found.setdefault(key, Found(key, _shown(name), kind, path))
    return list(found.values())


def kind_of(path: Path) -> Kind | None:
    """What a folder holds, if anything."""
    if (path / "run.json").is_file():
        try:
            head = from_json((path / "run.json").read_bytes(), _Head)
        except (OSError, msgspec.MsgspecError):
            return "training"  # damaged: it is shown, and says so
        if head.kind is not None:
            return "training"
        if head.judges is not None:
            return "judging"
    if (path / "result.json").is_file():
        return "evaluation"
    return "report" if (path / "report.html").is_file() else None


def report_of(path: Path) -> Path | None:
    """The HTML report of a run."""
    places = [path / name for name in REPORTS] + [path / "report" / name for name in REPORTS]
    return next((place for place in places if place.is_file()), None)


def _folders(base: Path) -> Iterator[Path]:
    for seen, (place, names, _) in enumerate(os.walk(base)):
        path = Path(place)
        yield path
        deep = len(path.relative_to(base).parts)
        names[:] = sorted(name for name in names if name not in _INSIDE and not name.startswith((".", "checkpoint-")))
        if deep >= _DEEP or seen >= _MOST:
            names.clear()


def _shown(name: str) -> str:
    """A file name may hold bytes that are no text."""
    return name.encode("utf-8", "replace").decode("utf-8")
