"""TRL's GRPOTrainer with its own order of prompts, a second judge, and callbacks.

Departures from TRL 1.16, each for a reason:
- **Order.** TRL shuffles with a generator that a resumed run begins anew, so its second epoch would repeat the first.
  Here the order depends only on the seed and the epoch: a resumed run is exact to the bit at any step.
- **Pictures.** A generation batch with and without pictures crashes in these versions although it is documented, and
  sharded training would wait forever where one process passes the vision tower and another does not. So all prompts
  of a step are of one kind; each kind is filled up from its own prompts to whole steps.
- **Evaluation** uses the same random numbers every time and leaves those of the training alone, so that the run is the
  same with and without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from transformers import TrainerCallback

from compeer.models.embedding import Embedder
from compeer.policy.grpo.alerts import Alerts, HeldOut
from compeer.policy.grpo.watch import WatchedReward
from compeer.training.run import Run


class StepOrder:
    """A sampler for torch: prompts in steps of `batch` of one kind, each `group` times, each step `repeats` times."""

    def __init__(
        self,
        pictured: Sequence[bool],
        batch: int,
        group: int = 1,
        repeats: int = 1,
        seed: int = 0,
        epoch: Callable[[], int] | None = None,
    ) -> None:
        self.pictured, self.batch, self.group, self.repeats = pictured, batch, group, repeats
        self.seed, self.epoch = seed, epoch  # without `epoch` the prompts keep their order
        self.steps = sum(-(-count // batch) for count in (sum(pictured), len(pictured) - sum(pictured)))

    def __iter__(self) -> Iterator[int]:
        for chunk in self.chunks():
            for _ in range(self.repeats):
                for place in chunk:
                    yield from [place] * self.group

    def __len__(self) -> int:
        return self.steps * self.batch * self.group * self.repeats

    def chunks(self) -> list[list[int]]:
        """The prompts of each step."""
        rng = Random(f"{self.seed} {self.epoch()}") if self.epoch else None
        found = []
        for kind in (False, True):
            places = [place for place, pictured in enumerate(self.pictured) if pictured is kind]
            if rng:
                rng.shuffle(places)
            whole = -(-len(places) // self.batch) * self.batch
            filled = [places[number % len(places)] for number in range(whole)]
            found += [filled[start : start + self.batch] for start in range(0, whole, self.batch)]
        if rng:
            rng.shuffle(found)
        return found


def trainer_class() -> Callable[..., Any]:
    """GRPOTrainer as above. Importing TRL takes seconds, so the class is made when it is needed."""
    import torch
    from trl import GRPOTrainer

    class Trainer(GRPOTrainer):  # type: ignore[misc]
        """Set `order` before training, and `held_out` with `held_order` where there is a second judge."""

        order: StepOrder
        held_order: StepOrder
        held_out: HeldOut | None = None
        on_compared: Callable[[dict[str, float]], None]

        def _get_train_sampler(self, dataset: Any = None) -> StepOrder:
            return self.order

        def _get_eval_sampler(self, eval_dataset: Any) -> StepOrder:
            return self.held_order

        def create_model_card(self, *args: Any, **kwargs: Any) -> None:
            """Ours is written at the end, beside the model."""

        def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
            assert self.held_out is not None
            self.held_out.begin()
            watched: WatchedReward = self.reward_funcs[0]
            devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
            with torch.random.fork_rng(devices=devices), watched.held(self.held_out):
                torch.manual_seed(Random(f"held out {self.args.seed} {self.accelerator.process_index}").getrandbits(32))
                metrics: dict[str, float] = super().evaluate(*args, **kwargs)
            found = self.held_out.compare(watched.gather)
            self.log({f"eval_{name}": value for name, value in found.items()})
            self.on_compared(found)
            return metrics

    return Trainer


class VectorMemory(TrainerCallback):  # type: ignore[misc]
    """Saves the reward's remembered vectors with a checkpoint (`Embedder.save`). Add it before `watch`."""

    def __init__(self, embedder: Embedder, run: Run) -> None:
        self.embedder, self.run = embedder, run

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        saved = self._path(state.global_step)
        if self.run.resume_from and saved.is_file():
            self.embedder.load(saved)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.embedder.save(self._path(state.global_step))

    def _path(self, step: int) -> Path:
        return self.run.checkpoints / f"checkpoint-{step}" / f"vectors-{os.environ.get('RANK', '0')}.npz"


class AlertCallback(TrainerCallback):  # type: ignore[misc]
    """Writes alerts, and evaluates once more at the end."""

    def __init__(self, run: Run, alerts: Alerts, *, evaluates: bool = False, quiet: bool = False) -> None:
        self.run, self.alerts, self.evaluates = run, alerts, evaluates
        self.quiet = quiet or not run.main
        for line in run.metrics() if run.main else []:  # what a resumed run has seen before
            alerts.see(int(line.get("step", 0)), line)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if self.run.main:
            self.tell(state.global_step, self.alerts.see(state.global_step, logs or {}))

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.evaluates and state.global_step >= state.max_steps:
            control.should_evaluate = True

    def compared(self, trainer: Any, found: dict[str, float]) -> None:
        """What the second judge found."""
        if self.run.main:
            self.tell(trainer.state.global_step, trainer.held_out.see(trainer.state.global_step, found))

    def tell(self, step: int, words: Sequence[str]) -> None:
        """Write alerts to the run's folder and print them."""
        for text in words:
            self.run.alert({"step": step, "alert": text})
            if not self.quiet:
                print(f"Alert at step {step}: {text}", file=sys.stderr, flush=True)
