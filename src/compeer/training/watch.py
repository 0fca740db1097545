"""Watching a trainer of transformers or TRL: numbers to files, progress to the terminal, whole checkpoints.

    watch(trainer, run, "judge")

Whatever scalars the trainer logs go to metrics.jsonl; on a terminal a bar shows the last of them, elsewhere a line
now and then does. A checkpoint is marked as whole after every process has written its part, and older ones go only
after that: a kill at any moment leaves one to resume from. At the end the curves are drawn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from compeer.cer.progress import duration
from compeer.training.curves import draw
from compeer.training.run import Run, wait_for_all
from compeer.training.sound import Sound

_EVERY = 20.0  # seconds between two lines where there is no terminal
#: shown while training, in this order, as far as the trainer logs them
SHOWN = ("loss", "eval_loss", "reward", "reward_std", "entropy", "mean_token_accuracy", "learning_rate")


def watch(trainer: Any, run: Run, name: str, *, keep: int = 2, quiet: bool = False, panels: Sequence[str] = ()) -> None:
    """Attach everything to a trainer; `keep` checkpoints stay, and the best where the trainer knows one.

    `panels` names the numbers that the figure shows, for a trainer that logs more than fit.
    """
    for ours in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(ours)
    trainer.add_callback(Sound(run, name))
    trainer.add_callback(Watch(run, name, quiet=quiet, panels=panels))
    trainer.add_callback(Checkpoints(run, keep))


class Watch(TrainerCallback):  # type: ignore[misc]
    """Metrics to the run's file, progress to standard error."""

    def __init__(self, run: Run, name: str, *, quiet: bool = False, panels: Sequence[str] = ()) -> None:
        self.run, self.name, self.panels = run, name, panels
        self._quiet = quiet or not run.main
        self._live = not self._quiet and sys.stderr.isatty()
        self._bar: Any = None
        self._last: dict[str, float] = {}
        self._began, self._first, self._next = time.monotonic(), 0, 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._began, self._first = time.monotonic(), state.global_step
        self._next = self._began + _EVERY
        if state.global_step:
            self._say(f"{self.name}: goes on after step {state.global_step:,} of {state.max_steps:,}")
        if self._live:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[told]}"),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), refresh_per_second=4)
            self._task = self._bar.add_task(self.name, total=state.max_steps, completed=state.global_step, told="")
            self._bar.start()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        numbers = {key: value for key, value in (logs or {}).items() if isinstance(value, int | float)}
        self._last |= numbers
        self.run.log({"step": state.global_step, **numbers})

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=state.global_step, told=self._told(state))
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + _EVERY
            self._say(f"{self.name}: step {state.global_step:,} of {state.max_steps:,}, {self._told(state)}")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._bar is not None:
            self._bar.update(self._task, completed=state.global_step, told=self._told(state))
            self._bar.stop()
            self._bar = None
        self._say(f"{self.name}: {state.global_step:,} steps in {duration(time.monotonic() - self._began)}")
        if self.run.main:
            lines = self.run.metrics()
            if self.panels:
                lines = [{key: line[key] for key in ("step", *self.panels) if key in line} for line in lines]
            draw(lines, self.run.folder / "curves.png", self.name)

    def _told(self, state: Any) -> str:
        words = [f"{key.replace('_', ' ')} {self._last[key]:.3g}" for key in SHOWN if key in self._last]
        done = state.global_step - self._first
        if done and state.max_steps > state.global_step:
            left = (time.monotonic() - self._began) / done * (state.max_steps - state.global_step)
            words.append(f"{duration(left)} left")
        return ", ".join(words)

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)


class Checkpoints(TrainerCallback):  # type: ignore[misc]
    """Marks a checkpoint as whole, then lets older ones go. The trainer's own rotation must be off."""

    def __init__(self, run: Run, keep: int = 2) -> None:
        self.run, self.keep = run, keep

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if args.save_total_limit is not None:
            raise ValueError("save_total_limit would delete checkpoints before the new one is whole; leave it unset")

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        wait_for_all()  # every process has written its random state, and its part of a sharded model
        self.run.mark(self.run.checkpoints / f"checkpoint-{state.global_step}")
        best = state.best_model_checkpoint
        self.run.prune(self.keep, Path(best).name if best else None)
