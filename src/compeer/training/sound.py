"""A step whose gradients are not numbers is left out.

One micro batch whose gradient is NaN, in hours of training in half precision, makes every weight NaN: the norm by which
gradients are clipped is NaN then, and the run goes on to its end with nothing in it. Here such a step changes no weight
and leaves an alert. When it happens several times in a row, the weights or the settings are at fault, and the run stops
at its last whole checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from transformers import TrainerCallback

from compeer.errors import UserError
from compeer.training.run import Run

MOST = 3  # steps in a row


class Sound(TrainerCallback):  # type: ignore[misc]
    """Looks at the gradients before the optimiser does."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self.name = run, name
        self._bad = 0  # steps in a row

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        learning = [weight for weight in model.parameters() if weight.grad is not None]
        if finite(weight.grad for weight in learning):
            self._bad = 0
            return
        for weight in learning:
            weight.grad = None
        self._bad += 1
        step = state.global_step + 1
        if self._bad >= MOST:
            raise UserError(
                f"{self.name}: the gradients of {MOST} steps in a row, the last of them {step:,}, are not numbers. "
                "Lower learning_rate or set dtype: float32; the same command goes on from the last checkpoint."
            )
        if self.run.main:
            text = "The gradients of this step are not numbers; it was left out and no weight was changed."
            self.run.alert({"step": step, "alert": text})
            print(f"{self.name}: step {step:,}. {text}", file=sys.stderr, flush=True)


def finite(gradients: Iterable[Any]) -> bool:
    """Whether all of them are numbers; asked once, because every answer makes a GPU wait."""
    import torch

    sums = [gradient.detach().sum(dtype=torch.float32) for gradient in gradients]
    return not sums or bool(torch.isfinite(torch.stack([one.to(sums[0].device) for one in sums])).all())
