"""Where a demo lies: settings, a note for each finished stage, and one demo at a time.

    demo.json      the settings it was begun with; another start must have the same
    notes/         STAGE.json when a stage has ended well: how long it took, what came out
    cer/ data/     the dataset, and the few rows of it that are used
    judge/ sft/ policy/    training runs, as `compeer.training.run` keeps them
    answers/ results/ report/

A stage without a note is run again. What it calls goes on by itself where it was cut off, so a kill costs little.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from compeer import __version__
from compeer.demo.sizes import Sizes
from compeer.errors import UserError
from compeer.models import shipped
from compeer.typed import from_json

OWN = ("notes", "cer", "data", "judge", "sft", "policy", "answers", "results", "report", "demo.json")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a demo is made with. `adapters`: hashes of those that come along, by role; none on another base."""

    sizes: Sizes
    base: str
    adapters: dict[str, str]
    version: str = __version__


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a finished stage leaves."""

    seconds: float
    told: str
    results: dict[str, Any] = {}


class Folder:
    """An open demo."""

    def __init__(self, home: Path, settings: Settings) -> None:
        self.home, self.settings, self.sizes, self.base = home, settings, settings.sizes, settings.base

    def path(self, *parts: str) -> Path:
        return self.home.joinpath(*parts)

    def rows(self, name: str) -> Path:
        """A file of the data stage."""
        return self.path("data", f"{name}.jsonl")

    def note(self, stage: str) -> Note | None:
        """What a stage left when it was finished."""
        try:
            return from_json(self.path("notes", f"{stage}.json").read_bytes(), Note)
        except (OSError, msgspec.MsgspecError):  # a note is written in one go; what cannot be read was none
            return None

    def keep(self, stage: str, note: Note) -> None:
        write(self.path("notes", f"{stage}.json"), note)


@contextmanager
def opened(home: Path, sizes: Sizes, base: str, *, fresh: bool = False) -> Iterator[Folder]:
    """The demo in this folder, begun or gone on with. UserError when it cannot go on."""
    adapters: dict[str, str] = {}
    if base == "embedded":
        adapters = {role: shipped.sha256(found) for role in shipped.ROLES if (found := shipped.adapter(role))}
    settings = Settings(sizes=sizes, base=base, adapters=adapters)
    marker = home / "demo.json"
    try:
        if home.is_dir() and not marker.is_file() and any(path.name != ".lock" for path in home.iterdir()):
            raise UserError(f"{home} is not empty and holds no demo. Give another folder with --out.")
        home.mkdir(parents=True, exist_ok=True)
        with (home / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"Another demo is at work in {home}. Wait for it, or give --out.") from None
            if fresh:
                clear(home)
            if not marker.is_file():
                write(marker, settings)
            elif differing := _differences(marker, settings):
                raise UserError(
                    f"The demo in {home} was begun with other settings ({', '.join(differing)}). "
                    "--fresh begins anew; --out takes another folder."
                )
            yield Folder(home, settings)
    except OSError as error:
        raise UserError(f"The demo cannot be kept in {home}: {error.strerror or error}.") from error


def clear(home: Path) -> None:
    """Remove what a demo has left here, and nothing else; the settings last."""
    for name in OWN:
        path = home / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def write(path: Path, content: Any) -> None:
    """As JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    part.replace(path)


def _differences(marker: Path, settings: Settings) -> list[str]:
    try:
        before = msgspec.json.decode(marker.read_bytes())
    except msgspec.MsgspecError:
        return ["demo.json cannot be read"]
    now = msgspec.to_builtins(settings)
    return sorted(name for name in {**before, **now} if before.get(name) != now.get(name))
