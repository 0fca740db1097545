"""An adapter to go on from: its shape, its identity, its matrices in the model that is trained.

A LoRA adapter is not merged but trained on, so that the result is again one adapter on the same base: it opens like
the one it began with, and llama.cpp can take it for rollouts. `shipped` names the one that comes along with the package
for the embedded model (`compeer.models.shipped`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.models.shipped import CONFIG, Role, adapter, is_adapter
from compeer.training.model import Lora, Settings, Trainable, base_identity, open_model

SHIPPED = "shipped"


def find_adapter(given: str | None, role: Role) -> Path | None:
    """The folder that a setting names; None when it names none."""
    if given is None:
        return None
    if given == SHIPPED:
        folder = adapter(role)
        if folder is None:
            raise UserError(f"adapter: {SHIPPED} means the {role} that comes along, and there is none here.")
        return folder
    if not is_adapter(Path(given)):
        raise UserError(f"There is no adapter in {given}. Give a folder that peft has saved, or {SHIPPED}.")
    return Path(given)


def shape_of(folder: Path, wanted: Lora | None = None) -> Lora:
    """An adapter brings its own shape; settings that contradict it are refused."""
    known = msgspec.json.decode((folder / CONFIG).read_bytes())
    found = Lora(
        r=known["r"],
        alpha=known["lora_alpha"],
        dropout=known.get("lora_dropout", 0.0),
        targets=tuple(sorted(known["target_modules"])),
    )
    if wanted is not None and (wanted.r, wanted.alpha) != (found.r, found.alpha):
        raise UserError(
            f"The adapter {folder} has r {found.r} and alpha {found.alpha}; lora asks for r {wanted.r} and alpha "
            f"{wanted.alpha}. Leave lora out: training goes on with the adapter as it is."
        )
    return found


def start_identity(base: str, folder: Path | None) -> dict[str, Any]:
    """What tells a base with this adapter on it from every other start."""
    found = base_identity(base)
    return found if folder is None else found | {"adapter": base_identity(str(folder))["sha256"]}


def open_with(folder: Path | None, settings: Settings, seed: int) -> Trainable:
    """The model, ready to be trained, with the adapter's matrices where there is one."""
    opened = open_model(settings, seed)
    if folder is not None:
        import peft

        weights = peft.load_peft_weights(str(folder), device="cpu")
        missing = peft.set_peft_model_state_dict(opened.model, weights).unexpected_keys
        if missing:
            raise UserError(f"The adapter {folder} does not fit {settings.base}: {missing[0]} has no place there.")
    return opened
