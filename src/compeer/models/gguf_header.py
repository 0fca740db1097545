"""The header of a GGUF file, read only as far as it must be: behind the sizes come the words, and those take longer.

fields(path, {"general.architecture"})      some values by name
control_tokens(path)                        the tokens that end a turn, open one, …
"""

from __future__ import annotations

import struct
from collections.abc import Set
from pathlib import Path
from typing import Any, BinaryIO

from compeer.models.request import ModelError

_FORMS = "BbHhIif?  Qqd"  # of a number, by its kind; 8 is a string, 9 a list
_CONTROL, _OWN = 3, 4  # kinds of a token: control, added by whoever made the model


def fields(path: Path, wanted: Set[str]) -> dict[str, Any]:
    """The values of these names that the file has. Lists are passed over, unless they are asked for."""
    found: dict[str, Any] = {}
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ModelError(f"{path} is not a GGUF file.")
            _, _, entries = struct.unpack("<IQQ", file.read(20))
            while len(found) < len(wanted) and entries:
                name = _string(file).decode("utf-8", "replace")
                value = _value(file, _number(file, "I"), name in wanted)
                found |= {name: value} if name in wanted else {}
                entries -= 1
    except (struct.error, IndexError, MemoryError):
        raise ModelError(f"{path} is not a whole GGUF file: its header cannot be read.") from None
    return {name: _text(value) if isinstance(value, bytes) else value for name, value in found.items()}


def control_tokens(path: Path) -> set[str]:
    """The tokens that a model takes for control, as text; single characters and bytes aside."""
    names = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
    found = fields(path, set(names))
    tokens, kinds = (found.get(name) or [] for name in names)
    control = (_text(token) for token, kind in zip(tokens, kinds, strict=False) if kind in (_CONTROL, _OWN))
    return {token for token in control if len(token) > 1 and not token.isspace()}


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int, keep: bool) -> Any:
    if kind == 8:
        return _string(file)
    if kind != 9:
        return _number(file, _FORMS[kind])
    of, length = struct.unpack("<IQ", file.read(12))
    if of == 8:
        found = [_string(file) for _ in range(length)]
        return found if keep else None
    if of == 9:
        return [_value(file, of, keep) for _ in range(length)]
    data = file.read(length * struct.calcsize(f"<{_FORMS[of]}"))
    return list(struct.unpack(f"<{length}{_FORMS[of]}", data)) if keep else None


def _string(file: BinaryIO) -> bytes:
    return file.read(_number(file, "Q"))


def _number(file: BinaryIO, form: str) -> Any:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]
