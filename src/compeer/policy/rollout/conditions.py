"""What must hold so that outputs written by another program than the trainer's are outputs of the trained policy."""

from __future__ import annotations

import math
from typing import Any

from compeer.errors import UserError

#: settings that leave the distribution as it is
_PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}


def check(trainer: Any, who: str) -> None:
    """UserError when `who` would sample from another distribution than the one that is trained."""
    for name, plain in _PLAIN.items():
        value = getattr(trainer, name)
        if value != plain and (plain is not None or value not in (0, None)):
            raise UserError(
                f"{who}'s rollouts sample from the whole distribution, as the loss assumes; {name} is {value}. "
                f"Leave it at {plain}, or use rollout: transformers."
            )
    if trainer.args.generation_kwargs:
        raise UserError(f"generation_kwargs are for transformers; {who}'s rollouts do not know them. Leave them out.")
    if not math.isfinite(trainer.temperature) or trainer.temperature <= 0:
        raise UserError(f"Rollouts need a temperature above 0, not {trainer.temperature}.")
