"""The adapters in the package: a supporter and a judge for the embedded model, as peft saves them.

    shipped/supporter/    adapter_model.safetensors (bfloat16), adapter_config.json, README.md, run.json
    shipped/judge/        the same, and judge.json

`embedded` means the embedded model with these, `embedded:plain` the model without. Each folder's README.md is its card:
data, settings, seed, results, limits. They may not be used commercially (LICENSE.md), unlike the code.

Where an adapter does not lie here, `embedded` is the plain model, and `compeer doctor` says so. The adapters fit the
published weights alone: with another file in $COMPEER_WEIGHTS they are left out. $COMPEER_ADAPTERS names a folder with
`supporter` and `judge` to use in their place; what lies there is taken for whatever weights there are.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal, get_args

from compeer.models.weights import published

Role = Literal["supporter", "judge"]
ROLES: tuple[Role, ...] = get_args(Role)
CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def adapter(role: Role) -> Path | None:
    """The folder of the adapter that `embedded` takes in this role; None where that is the plain model."""
    chosen = os.environ.get("COMPEER_ADAPTERS")
    folder = (Path(chosen) if chosen else Path(__file__).parent) / role
    if not is_adapter(folder):
        return None
    return folder if chosen or published() else None


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter as peft saves it."""
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def sha256(folder: Path) -> str:
    """What tells an adapter from every other: its matrices and how they are scaled."""
    whole = hashlib.sha256()
    for name in (CONFIG, WEIGHTS):
        whole.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return whole.hexdigest()
