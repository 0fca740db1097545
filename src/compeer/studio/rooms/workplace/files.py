"""Files that a coordinator brings, by upload or by name, and those that they take away.

By name everything may be read where whoever asks sits at this machine. Behind a public address only what lies in the
folders that the studio was given with --items, links followed; and pictures only from there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from starlette.datastructures import UploadFile

from compeer.errors import UserError
from compeer.studio.settings import Settings
from compeer.studio.words import Say


def allowed(settings: Settings, say: Say, path: str) -> Path:
    """The file or folder of this name, if it may be read from here."""
    try:
        found = Path(path).expanduser().resolve()
    except (OSError, ValueError, RuntimeError):
        raise UserError(say("workplace.new.no_file", path=path)) from None
    if settings.guarded and not any(found.is_relative_to(folder.resolve()) for folder in settings.items):
        folders = ", ".join(map(str, settings.items)) or say("workplace.new.no_folder")
        raise UserError(say("workplace.new.outside", folders=folders))
    return found


def file_named(settings: Settings, say: Say, path: str) -> Path:
    """The same, when it is a file."""
    found = allowed(settings, say, path)
    if not found.is_file():
        raise UserError(say("workplace.new.no_file", path=path))
    return found


def folder_named(settings: Settings, say: Say, path: str, otherwise: Path | None = None) -> Path | None:
    """The folder of pictures, where one is named."""
    return allowed(settings, say, path) if path else otherwise


@contextmanager
def received(*uploads: UploadFile) -> Iterator[Sequence[Path]]:
    """What came with a form, as files for as long as they are read.

    What is wrong with one is told under the name that the coordinator knows, not under that of our copy.
    """
    with tempfile.TemporaryDirectory() as home:
        copies = [Path(home) / f"{number}.jsonl" for number in range(len(uploads))]
        for upload, copy in zip(uploads, copies, strict=True):
            copy.write_bytes(upload.file.read())
        try:
            yield copies
        except UserError as error:
            told = str(error)
            for upload, copy in zip(uploads, copies, strict=True):
                told = told.replace(str(copy), upload.filename or "file")
            raise UserError(told) from None


def disposition(name: str) -> str:
    """A file name in any script, as browsers read it, without a way out of the header.

    >>> disposition('pi"lot\\n一.jsonl')
    'attachment; filename="pi_lot__.jsonl"; filename*=UTF-8\\'\\'pi_lot_%E4%B8%80.jsonl'
    """
    clean = "".join(one if one.isalnum() or one in "-_. " else "_" for one in name)
    plain = "".join(one if one.isascii() else "_" for one in clean)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(clean)}"
