"""Sending a picture that belongs to an item, and nothing else.

A page asks for "the second picture of this item"; the room looks the item up, makes sure that this person may see it,
and hands its list of names here. No name ever comes from the browser. What an item names must still lie below the
folder of pictures, really be a picture, and be one that cannot carry a script.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from starlette.responses import Response

from compeer.studio.access.refused import Refused

MOST = 32 << 20
_MARKS = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
          (b"GIF89a", "image/gif"))  # fmt: skip


def kind_of(data: bytes) -> str | None:
    """The media type, by the first bytes; None when it is no picture that we send.

    >>> kind_of(b"GIF89a..."), kind_of(b"<svg onload=alert(1)>")
    ('image/gif', None)
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _MARKS if data.startswith(mark)), None)


def picture(names: Sequence[str], index: int, folder: Path) -> Response:
    """The picture at `index` of an item's `names`, which are paths relative to `folder` (or absolute and inside it)."""
    if not 0 <= index < len(names):
        raise Refused(404, "missing", f"the item has no picture {index}")
    root = folder.resolve()
    path = (root / names[index]).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        raise Refused(404, "missing", "a picture that is not in the folder")
    if path.stat().st_size > MOST:
        raise Refused(404, "missing", "a picture that is too large")
    data = path.read_bytes()
    kind = kind_of(data)
    if kind is None:
        raise Refused(404, "missing", "a file that is no picture")
    headers = {"cache-control": "private, max-age=3600", "content-security-policy": "default-src 'none'; sandbox"}
    return Response(data, media_type=kind, headers=headers)
