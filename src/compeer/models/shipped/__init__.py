"""The adapters in the package: supporters and a judge for the embedded models, as peft saves them.

    shipped/supporter-1.5b/    for the 1.5B base: how `embedded` thinks where the base is here
    shipped/replies-1.5b/      for the 1.5B base: how it replies without thinking
    shipped/reader-1.5b/       for the 1.5B base: how much danger an answer tells (`compeer.safety.reader`)
    shipped/supporter/         for the small model: `embedded:small`
    shipped/judge/             for the small model

Each folder holds adapter_model.safetensors (bfloat16), adapter_config.json, run.json, README.md (its card: data,
settings, seed, results, limits). A judge has judge.json too. They may not be used commercially where LICENSE.md or the
card says so, unlike the code.

An adapter belongs to one base, by the SHA-256 of its weights. Those in the package belong to the base in the list
above; one that was trained here says so in its base.json (name and sha256), which `compeer.training` writes.

Whether pins reach the words of a reply is measured by blind readers. The result is in steering.json beside the adapter,
and whoever offers pins shows it (`steering`).

Where an adapter does not lie here, the model is the plain one, and `compeer doctor` says so. The adapters fit the
published weights alone: with another file in $COMPEER_WEIGHTS they are left out. $COMPEER_ADAPTERS names a folder with
folders of these names to use in their place; what lies there is taken for whatever weights there are.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal, get_args

import msgspec

from compeer.models.weights import BASE, KNOWN, SMALL, Weights, published
from compeer.typed import from_json

Role = Literal["supporter", "replies", "reader", "judge"]
ROLES: tuple[Role, ...] = get_args(Role)
CONFIG, WEIGHTS, BASE_FILE = "adapter_config.json", "adapter_model.safetensors", "base.json"
STEERING_FILE = "steering.json"


class AdapterBase(msgspec.Struct, frozen=True):
    """The base of an adapter: how settings name it, and the hash of its weights where the adapter tells it."""

    name: str
    sha256: str | None = None


class Steering(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """In which share of tries (0 to 1) blind readers who see the reply alone name the strategy that was pinned. `low`
    and `high`: its 95 % interval. `n`: number of tries. `readers`: number of readers. `date`: such as 2026-11-18."""

    share: float
    low: float
    high: float
    n: int
    readers: int
    date: str


def steering(adapter: Path | None) -> Steering | None:
    """The measured steering of an adapter (folder or file); None if it was not measured."""
    folder = adapter if adapter is None or adapter.is_dir() else adapter.parent
    try:
        return from_json((folder / STEERING_FILE).read_bytes(), Steering) if folder else None
    except (OSError, msgspec.MsgspecError):
        return None


def adapter(role: Role, weights: Weights = SMALL) -> Path | None:
    """The folder of the adapter for this role and these weights; None if there is none."""
    chosen = os.environ.get("COMPEER_ADAPTERS")
    folder = Path(chosen) if chosen else Path(__file__).parent
    names = [f"{role}-1.5b" if weights == BASE else role]
    if not published():  # another file stands for every model, and one adapter with it
        names = [*names, role] if chosen else []
    return next((folder / name for name in names if is_adapter(folder / name)), None)


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter as peft saves it."""
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def base_of(folder: Path) -> AdapterBase:
    """What an adapter belongs to. Earlier versions wrote no base.json, and their `embedded` was the small model."""
    if folder.resolve().parent == Path(__file__).resolve().parent:
        weights = BASE if folder.name.endswith("-1.5b") else SMALL
        return AdapterBase(weights.spec.removesuffix(":plain"), weights.sha256)
    try:
        known = from_json((folder / BASE_FILE).read_bytes(), AdapterBase)
    except (OSError, msgspec.MsgspecError):
        known = None
    if known and (found := next((one for one in KNOWN if one.sha256 == known.sha256), None)):
        return AdapterBase(found.spec.removesuffix(":plain"), known.sha256)
    try:
        name = str(msgspec.json.decode((folder / CONFIG).read_bytes()).get("base_model_name_or_path"))
    except (OSError, msgspec.MsgspecError):
        name = ""
    if name == "embedded" and known is None:
        name = "embedded:small"
    return AdapterBase(name, known.sha256 if known else None)


def licence(folder: Path) -> str:
    """The licence of an adapter, as its card says."""
    card = (folder / "README.md").read_text(encoding="utf-8") if (folder / "README.md").is_file() else ""
    return next(
        (line.partition(":")[2].strip() for line in card.splitlines() if line.startswith("license:")), "unknown"
    )


def sha256(folder: Path) -> str:
    """A hash of an adapter: its matrices and settings."""
    whole = hashlib.sha256()
    for name in (CONFIG, WEIGHTS):
        whole.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return whole.hexdigest()
