"""Everything this package says to people, and to models about people, as readable data in both languages."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any


def said(*keys: str, time: int = 0) -> str:
    """The text at a place of `words/said.json`; of several the one whose turn it is.

    >>> said("why", "empty", "en")
    'it was empty'
    """
    found: Any = _texts()
    for key in keys:
        found = found[key]
    return str(found[time % len(found)] if isinstance(found, list) else found)


@cache
def _texts() -> Any:
    return json.loads((resources.files("compeer.safety") / "words" / "said.json").read_text(encoding="utf-8"))
