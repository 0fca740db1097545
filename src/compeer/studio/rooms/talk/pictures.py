"""Pictures in a conversation: checked by what is in them, kept in memory, handed to the model as data.

No name of a file comes from the browser and none is made here, so there is nothing to be found on a disk afterwards.
"""

from __future__ import annotations

import base64
import hashlib

import msgspec

from compeer.studio.access.pictures import kind_of
from compeer.studio.rooms.talk.trouble import Trouble

#: bytes of one picture, and pictures of one conversation
LARGEST, MOST = 6 << 20, 6


class Picture(msgspec.Struct, frozen=True):
    """A picture in memory. `key` is what the page knows it by."""

    key: str
    kind: str
    data: bytes
    address: str  # the same as a data: address, which is how models take it


def picture(data: bytes) -> Picture:
    """The picture that some bytes are; Trouble when they are none, or too many."""
    if len(data) > LARGEST:
        raise Trouble("picture_large", 413, most=LARGEST >> 20)
    kind = kind_of(data)
    if kind is None:
        raise Trouble("picture_kind", 415)
    key = hashlib.sha256(data).hexdigest()[:24]
    return Picture(key, kind, data, f"data:{kind};base64,{base64.b64encode(data).decode()}")
