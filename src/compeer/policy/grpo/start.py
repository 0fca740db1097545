"""Where a policy starts from: a model, an adapter on one, or the run of an SFT.

A LoRA adapter is not merged but trained on, so that the result is again one adapter on the same base: it opens like the
one it began with, and llama.cpp can take it for rollouts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.policy.grpo.config import Config
from compeer.training.model import Lora, Settings, Trainable, base_identity, open_model


class Start(msgspec.Struct, frozen=True):
    """The base, and the adapter that lies on it already."""

    base: str
    adapter: Path | None
    lora: Lora | None

    def identity(self) -> dict[str, Any]:
        """What tells this start from every other."""
        found = base_identity(self.base)
        return found if self.adapter is None else found | {"adapter": base_identity(str(self.adapter))["sha256"]}


def find_start(config: Config) -> Start:
    """What `model` names. An adapter brings its own shape; settings that contradict it are refused."""
    given = Path(config.model)
    if (given / "run.json").is_file():
        given = given / "model"
        if not given.is_dir():
            raise UserError(
                f"The run {config.model} has no result yet. Finish it first, or give one of its checkpoints."
            )
    shape = given / "adapter_config.json"
    if not shape.is_file():
        return Start(str(given) if given.is_dir() else config.model, None, config.lora)
    known = msgspec.json.decode(shape.read_bytes())
    lora = Lora(
        r=known["r"],
        alpha=known["lora_alpha"],
        dropout=known.get("lora_dropout", 0.0),
        targets=tuple(sorted(known["target_modules"])),
    )
    if config.lora is not None and (config.lora.r, config.lora.alpha) != (lora.r, lora.alpha):
        raise UserError(
            f"The adapter {given} has r {lora.r} and alpha {lora.alpha}; lora asks for r {config.lora.r} and alpha "
            f"{config.lora.alpha}. Leave lora out: training goes on with the adapter as it is."
        )
    return Start(str(known["base_model_name_or_path"]), given, lora)


def open_start(start: Start, settings: Settings, seed: int) -> Trainable:
    """The model, ready to be trained, with the adapter's weights where there is one."""
    opened = open_model(settings, seed)
    if start.adapter is not None:
        import peft

        weights = peft.load_peft_weights(str(start.adapter), device="cpu")
        missing = peft.set_peft_model_state_dict(opened.model, weights).unexpected_keys
        if missing:
            raise UserError(f"The adapter {start.adapter} does not fit {start.base}: {missing[0]} has no place there.")
    return opened
