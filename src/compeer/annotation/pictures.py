"""Pictures of what people judge: asked for by number, read only from the folder of the project, links followed.

A page asks for "the second picture of this item", so a name never comes from outside. What is refused is noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from compeer.annotation.people import Person
from compeer.annotation.refusal import Refused, refuse
from compeer.annotation.store.database import Store
from compeer.errors import UserError


class Album(NamedTuple):
    """The pictures of one item or case, by its name, and the folder that they may lie in."""

    of: str
    paths: Sequence[str]
    folder: str | None


def picture_in(store: Store, person: Person, album: Album | None, number: int, otherwise: Refused) -> Path:
    """The file of a picture (0 is the first). `otherwise` is raised when this person has no album to look into."""
    try:
        if album is None:
            raise otherwise
        if not 0 <= number < len(album.paths) or album.folder is None:
            raise refuse(person, "path", "There is no such picture.", f"picture {number} of {album.of}")
        try:
            return inside(Path(album.folder), album.paths[number], album.of)
        except UserError as error:
            raise refuse(person, "path", "There is no such picture.", str(error)) from error
    except Refused as refusal:
        store.log(refusal)
        raise


def inside(folder: Path | None, path: str, of: str) -> Path:
    """The picture's file, which must lie in the project's folder, links followed."""
    if folder is None:
        raise UserError(f"The item {of} has pictures; say in which folder they lie with --images.")
    root = folder.resolve()
    try:
        file = (root / path).resolve()
    except (OSError, ValueError, RuntimeError):
        file = Path("/")
    if not file.is_relative_to(root):
        raise UserError(f"The picture {path[:200]!r} of item {of} lies outside {root}; pictures must lie inside it.")
    return file
