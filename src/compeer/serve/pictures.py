"""Pictures in a request: data URLs outside, files in memory inside.

Models take pictures as files. A conversation is never written to disk, so the files lie in shared memory where the
system has it, in a folder that only this user can open and that is gone with the answer. No address is fetched and no
file is opened because a request names it.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import tempfile
from pathlib import Path

from compeer.serve.refusal import bad

_DATA = re.compile(r"data:image/([a-z+]+);base64,", re.IGNORECASE)
#: how the files of each kind begin
_BEGINNINGS: dict[str, tuple[bytes, ...]] = {
    ".png": (b"\x89PNG\r\n\x1a\n",),
    ".jpg": (b"\xff\xd8\xff",),
    ".gif": (b"GIF87a", b"GIF89a"),
    ".webp": (b"RIFF",),
    ".bmp": (b"BM",),
}
_MEMORY = Path("/dev/shm")


class Album:
    """The pictures of one request. Close it when the answer is written."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._count = 0

    def add(self, url: object, param: str) -> str:
        """The path of the picture in a data URL."""
        head = _DATA.match(url) if isinstance(url, str) else None
        if head is None or not isinstance(url, str):
            raise bad("A picture is sent inside the request, as data:image/png;base64,…; none is fetched.", param)
        try:
            data = base64.b64decode(url[head.end() :], validate=True)
        except (binascii.Error, ValueError):
            raise bad("The picture's data is no base64.", param) from None
        suffix = next((name for name, begins in _BEGINNINGS.items() if data.startswith(begins)), None)
        if suffix is None:
            raise bad("The picture is no PNG, JPEG, GIF, WebP or BMP.", param)
        if self._folder is None:
            place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
            self._folder = tempfile.TemporaryDirectory(prefix="compeer-", dir=place)
        self._count += 1
        path = Path(self._folder.name) / f"{self._count}{suffix}"
        path.write_bytes(data)
        return str(path)

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
