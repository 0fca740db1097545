"""The cases and replies of a new arena: uploaded files, or files on this machine by their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from starlette.datastructures import UploadFile

from compeer.arena.cases import Case, read_cases
from compeer.arena.replies import Reply, read_replies
from compeer.errors import UserError
from compeer.studio.rooms.workplace.files import allowed, file_named, folder_named, received
from compeer.studio.settings import Settings
from compeer.studio.words import Say


class Source(msgspec.Struct, frozen=True):
    """What an arena is made from; `images` is the folder its pictures may come from."""

    cases: list[Case]
    replies: list[Reply]
    images: Path | None


def named(settings: Settings, say: Say, cases: str, replies: str, images: str) -> Source:
    """Files on this machine: the cases, and replies, one file or folder a line."""
    if not cases:
        raise UserError(say("workplace.new.nothing"))
    file = file_named(settings, say, cases)
    found: list[Path] = []
    for line in filter(None, map(str.strip, replies.splitlines())):
        path = allowed(settings, say, line)
        found += sorted(path.glob("*.jsonl")) if path.is_dir() else [file_named(settings, say, line)]
    if not found:
        raise UserError(say("arena.new.no_replies"))
    folder = folder_named(settings, say, images, file.parent)
    # what stands beside the replies of a folder, such as what failed, has a longer ending
    plain = [path for path in found if path.name.count(".jsonl") == 1 and ".rejects" not in path.name]
    return Source(read_cases(file), read_replies(plain), folder)


def uploaded(settings: Settings, say: Say, cases: UploadFile, replies: Sequence[UploadFile], images: str) -> Source:
    """Files that came with the form."""
    folder = folder_named(settings, say, images)
    sent = [one for one in replies if one.filename]
    if not sent:
        raise UserError(say("arena.new.no_replies"))
    with received(cases, *sent) as (first, *others):
        return Source(read_cases(first), read_replies(others), folder)
