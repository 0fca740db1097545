"""Reading a safetensors file with numpy alone, bfloat16 included, which numpy does not have.

The file is a length (eight bytes), a header in JSON that says of every tensor its kind, shape and place, and the bytes.
A light installation has neither torch nor safetensors, and must read the adapters that come along.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec

from compeer.typed import from_json

_KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class Damaged(ValueError):
    """The file is not what it says it is."""


class _Entry(msgspec.Struct, frozen=True):
    """What the header says of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read_tensors(path: Path) -> dict[str, Any]:
    """All tensors of a file by name, as float32. OSError when it cannot be read, Damaged when it is torn."""
    import numpy as np

    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise Damaged(f"{path.name} ends before its header does")
    try:
        header = from_json(data[8 : 8 + length], dict[str, msgspec.Raw])
        header.pop("__metadata__", None)
        entries = {name: from_json(raw, _Entry) for name, raw in header.items()}
    except msgspec.MsgspecError as error:
        raise Damaged(f"{path.name} has no header that can be read ({error})") from None
    body = memoryview(data)[8 + length :]
    found: dict[str, Any] = {}
    for name, entry in entries.items():
        first, last = entry.data_offsets
        kind = _KINDS.get(entry.dtype)
        if kind is None:
            raise Damaged(f"{path.name}: {name} is of the kind {entry.dtype}, which is no adapter's")
        if not 0 <= first <= last <= len(body) or last - first != math.prod(entry.shape) * np.dtype(kind).itemsize:
            raise Damaged(f"{path.name}: {name} is not where the header says")
        values = np.frombuffer(body[first:last], dtype=kind)
        if entry.dtype == "BF16":  # the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        found[name] = values.astype(np.float32).reshape(entry.shape)
    return found
