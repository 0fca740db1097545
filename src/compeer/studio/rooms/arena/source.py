"""The cases and replies of a new arena: uploaded files, or files on this machine by their names.

By name everything may be read where whoever asks sits at this machine; behind a public address only what lies in the
folders that the studio was given with --items, links followed; and pictures only from there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from starlette.datastructures import UploadFile

from compeer.arena.cases import Case, read_cases
from compeer.arena.replies import Reply, read_replies
from compeer.errors import UserError
from compeer.studio.settings import Settings
from compeer.studio.words import Say


class Source(msgspec.Struct, frozen=True):
    """What an arena is made from; `images` is the folder its pictures may come from."""

    cases: list[Case]
    replies: list[Reply]
    images: Path | None


def named(settings: Settings, say: Say, cases: str, replies: str, images: str) -> Source:
    """Files on this machine: the cases, and replies, one file or folder a line."""
    file = _file(settings, say, cases)
    wanted = [line.strip() for line in replies.splitlines() if line.strip()]
    found: list[Path] = []
    for line in wanted:
        path = allowed(settings, say, line)
        found += sorted(path.glob("*.jsonl")) if path.is_dir() else [_file(settings, say, line)]
    if not found:
        raise UserError(say("arena.new.no_replies"))
    folder = allowed(settings, say, images) if images else file.parent
    # what stands beside the replies of a folder, such as what failed, has a longer ending
    plain = [path for path in found if path.name.count(".jsonl") == 1 and ".rejects" not in path.name]
    return Source(read_cases(file), read_replies(plain), folder)


def uploaded(settings: Settings, say: Say, cases: UploadFile, replies: Sequence[UploadFile], images: str) -> Source:
    """Files that came with the form."""
    folder = allowed(settings, say, images) if images else None
    sent = [one for one in replies if one.filename]
    if not sent:
        raise UserError(say("arena.new.no_replies"))
    with tempfile.TemporaryDirectory() as home:
        names = {}
        for number, one in enumerate((cases, *sent)):
            path = Path(home) / f"{number}.jsonl"
            path.write_bytes(one.file.read())
            names[str(path)] = one.filename or "file"
        first, *others = names
        try:
            return Source(read_cases(first), read_replies(others), folder)
        except UserError as error:  # under the names that the coordinator knows
            told = str(error)
            for path_name, name in names.items():
                told = told.replace(path_name, name)
            raise UserError(told) from None


def allowed(settings: Settings, say: Say, path: str) -> Path:
    """The path, if it may be read from here."""
    try:
        found = Path(path).expanduser().resolve()
    except (OSError, ValueError, RuntimeError):
        raise UserError(say("label.new.no_file", path=path)) from None
    if settings.guarded and not any(found.is_relative_to(folder.resolve()) for folder in settings.items):
        folders = ", ".join(map(str, settings.items)) or say("label.new.no_folder")
        raise UserError(say("label.new.outside", folders=folders))
    return found


def _file(settings: Settings, say: Say, path: str) -> Path:
    found = allowed(settings, say, path)
    if not found.is_file():
        raise UserError(say("label.new.no_file", path=path))
    return found
