"""Where a policy starts from: a model, an adapter on one, or the run of an SFT.

A LoRA adapter is not merged but trained on, so that the result is again one adapter on the same base: it opens like the
one it began with, and llama.cpp can take it for rollouts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.models.shipped import is_adapter
from compeer.policy.grpo.config import Config
from compeer.training.adapter import open_with, shape_of, start_identity
from compeer.training.model import Lora, Settings, Trainable


class Start(msgspec.Struct, frozen=True):
    """The base, and the adapter that lies on it already."""

    base: str
    adapter: Path | None
    lora: Lora | None

    def identity(self) -> dict[str, Any]:
        """What tells this start from every other."""
        return start_identity(self.base, self.adapter)


def find_start(config: Config) -> Start:
    """What `model` names. An adapter brings its own shape; settings that contradict it are refused."""
    given = Path(config.model)
    if (given / "run.json").is_file() and not is_adapter(given):
        given = given / "model"
        if not given.is_dir():
            raise UserError(
                f"The run {config.model} has no result yet. Finish it first, or give one of its checkpoints."
            )
    shape = given / "adapter_config.json"
    if not shape.is_file():
        return Start(str(given) if given.is_dir() else config.model, None, config.lora)
    known = msgspec.json.decode(shape.read_bytes())
    return Start(str(known["base_model_name_or_path"]), given, shape_of(given, config.lora))


def open_start(start: Start, settings: Settings, seed: int) -> Trainable:
    """The model, ready to be trained, with the adapter's weights where there is one."""
    return open_with(start.adapter, settings, seed)
