"""JSON and plain values into types, in any thread.

msgspec works out how a type is read when it is first asked to, and lets other threads see what it has before it is
whole (0.22, and as far as its code shows all before). Two threads that read their first item at the same moment can so
end the whole process. Here a type is worked out by one thread while the others wait, once; then msgspec is as safe as
it is fast.

    item = from_json(line, Item)
    options = from_plain({"rounds": 3}, Options)
    decoder = msgspec.json.Decoder(known(Item))
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")
_known: set[Any] = set()
_lock = threading.RLock()


@overload
def known(kind: type[T]) -> type[T]: ...
@overload
def known(kind: Any) -> Any: ...
def known(kind: Any) -> Any:
    """The type itself, once msgspec knows all of it."""
    if kind not in _known:
        with _lock:
            msgspec.json.Decoder(kind)
            _known.add(kind)
    return kind


@overload
def from_json(data: bytes | str, kind: type[T]) -> T: ...
@overload
def from_json(data: bytes | str, kind: Any) -> Any: ...
def from_json(data: bytes | str, kind: Any) -> Any:
    """A value of this type from JSON; msgspec.MsgspecError tells what is wrong.

    >>> from_json(b"[1, 2]", tuple[int, int])
    (1, 2)
    """
    return msgspec.json.decode(data, type=known(kind))


@overload
def from_plain(value: Any, kind: type[T], *, strict: bool = True) -> T: ...
@overload
def from_plain(value: Any, kind: Any, *, strict: bool = True) -> Any: ...
def from_plain(value: Any, kind: Any, *, strict: bool = True) -> Any:
    """A value of this type from dictionaries, lists, texts and numbers; without `strict` a text may be a number."""
    return msgspec.convert(value, known(kind), strict=strict)
