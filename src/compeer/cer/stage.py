"""What a stage is: a plain async function, a row in, a row (or several) or a rejection out.

The function knows nothing of files, resuming, progress or clusters; that is the runner's. It gets its
tools: the models it may ask, a seed that depends only on the row, and options from the configuration.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from compeer.models.request import Model


class Reject(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row that goes no further: a short reason for counting, and a sentence for reading."""

    id: str
    reason: str
    detail: str = ""
    row: Any = None  # the row itself, so that nothing is lost


class Tools(msgspec.Struct):
    """What a stage function may use."""

    models: dict[str, Model] = {}  # by role, e.g. "judge", "generator"
    seed: int = 0
    options: dict[str, Any] = {}

    def rng(self, *parts: object) -> random.Random:
        """A random stream for one row: the same whatever was drawn before, on whichever worker."""
        text = "\x1f".join(map(str, (self.seed, *parts)))
        return random.Random(hashlib.sha256(text.encode()).digest())


StageFunction = Callable[[Any, Tools], Awaitable[Any]]


class Stage(msgspec.Struct, frozen=True):
    """A named stage: its function, what it reads and writes, the roles it needs, the prompts it uses."""

    name: str
    function: StageFunction  # importable by name, so that a cluster's workers find it
    reads: type
    writes: type
    roles: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()  # their text; hashed into the manifest
    calls_per_row: float = 0.0  # for the estimate before spending
    tokens_per_call: tuple[int, int] = (0, 0)  # read, written; likewise
    options: type | None = None  # the shape of tools.options; checked once, before the run
