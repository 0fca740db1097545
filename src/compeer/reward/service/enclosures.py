"""Pictures on their way to the service and back: data URLs outside, files inside.

A service never opens a file because a request names it. A picture comes inside the request, or lies below the one
folder that the operator allowed; everything else is refused, and nothing is fetched from an address.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from compeer.cer.item import Said
from compeer.errors import UserError
from compeer.reward.case import Case

_SUFFIXES = {"png": ".png", "jpeg": ".jpg", "jpg": ".jpg", "webp": ".webp", "gif": ".gif", "bmp": ".bmp"}
_DATA = re.compile(r"data:image/([a-z]+);base64,", re.IGNORECASE)


class PictureRefused(UserError):
    """A picture that cannot be used."""


def enclosed(case: Case) -> Case:
    """The case with its pictures inside it, as data URLs."""
    return _with_pictures(case, _as_data)


def unpacked(cases: Sequence[Case], folder: Callable[[], Path], allowed: Path | None) -> list[Case]:
    """The cases with pictures as files: enclosed ones are written into `folder()`, others must lie in `allowed`."""

    def as_file(said: str) -> str:
        if said[:5].lower() == "data:":
            return _written(said, folder())
        return _allowed(said, allowed)

    return [_with_pictures(case, as_file) for case in cases]


def _with_pictures(case: Case, change: Callable[[str], str]) -> Case:
    if not any(turn.images for turn in case.history):
        return case
    history = [Said(turn.speaker, turn.text, tuple(map(change, turn.images))) for turn in case.history]
    return msgspec.structs.replace(case, history=tuple(history))


def _as_data(path: str) -> str:
    if _DATA.match(path):
        return path
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PictureRefused(f"The image {path:.200} cannot be read: {reason}.") from None
    suffix = Path(path).suffix.lower()
    kind = next((name for name, ending in _SUFFIXES.items() if ending == suffix), "png")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _written(url: str, folder: Path) -> str:
    head = _DATA.match(url)
    if head is None or head.group(1).lower() not in _SUFFIXES:
        kinds = ", ".join(sorted(_SUFFIXES))
        raise PictureRefused(f"A picture begins data:image/KIND;base64, with KIND one of {kinds}; not {url[:40]!r}.")
    try:
        data = base64.b64decode(url[head.end() :], validate=True)
    except (binascii.Error, ValueError):
        raise PictureRefused("A picture's data is no base64.") from None
    path = folder / (hashlib.sha256(data).hexdigest()[:32] + _SUFFIXES[head.group(1).lower()])
    if not path.exists():
        path.write_bytes(data)
    return str(path)


def _allowed(said: str, allowed: Path | None) -> str:
    if allowed is None:
        raise PictureRefused("This service opens no files; send pictures as data:image/…;base64,… inside the request.")
    try:
        path = (allowed / said).resolve()
        inside = path.is_relative_to(allowed.resolve()) and path.is_file()
    except (OSError, ValueError):
        inside = False
    if not inside:  # whether the file exists elsewhere is nobody's business
        raise PictureRefused(f"There is no picture {said[:200]!r} in the folder that this service may read.")
    return str(path)
