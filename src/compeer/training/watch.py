"""Callbacks for trainers of transformers or TRL: metrics, progress, whole checkpoints, curves, NaN gradients.

    watch(trainer, run, "judge")

All scalars that the trainer logs go to metrics.jsonl; a terminal shows a bar with the last of them, anything else a
line every 20 seconds. A checkpoint is marked as whole after every process has written its part, and older ones are
removed only after that: a kill at any moment leaves one to resume from. At the end the curves are drawn, one panel per
scalar; without matplotlib there is no figure, and the numbers are in metrics.jsonl.

A single micro batch with a NaN gradient makes every weight NaN, because the norm by which gradients are clipped is NaN
then. Such a step changes no weight here and leaves an alert. When it happens several times in a row, the weights or the
settings are at fault, and the run stops at its last whole checkpoint.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from compeer.errors import UserError
from compeer.pipeline.stage import LiveLine, duration
from compeer.plotting import ACCENT, INK, WARM, drawing, frame
from compeer.training.metrics import MetricColumn, MetricLog
from compeer.training.run import Run, wait_for_all

#: what a reader looks for first; the rest follows in alphabetical order
_FIRST = ("loss", "reward", "mean_token_accuracy", "entropy", "grad_norm", "learning_rate")
_MOST = 12


def draw(metrics: Path, path: Path, title: str, only: Sequence[str] = ()) -> bool:
    """Draw the curves of a metrics.jsonl; False without numbers or without matplotlib.

    `only` has the logged names that are shown; without it all are.
    """
    log = MetricLog(metrics)
    log.catch_up()
    panels: dict[str, dict[str, MetricColumn]] = {}
    for name in sorted(log.columns, key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name)):
        for part, column in log.columns[name].items():
            if not only or (f"eval_{name}" if part == "eval" else name) in only:
                panels.setdefault(name, {})[part] = column
    if not panels:
        return False
    if importlib.util.find_spec("matplotlib") is None:
        print("No curves are drawn: matplotlib is not installed (pip install 'compeer-esc[data]').", file=sys.stderr)
        return False
    drawn = list(panels.items())[:_MOST]
    columns = min(3, len(drawn))
    rows = -(-len(drawn) // columns)
    with drawing(path, 3.8 * columns, 0.4 + 2.6 * rows, font_size=9) as figure:
        grid = list(figure.subplots(rows, columns, squeeze=False).flat)
        figure.suptitle(title, fontsize=12, color=INK, x=0.02, ha="left")
        for axes, (name, parts) in zip(grid, drawn, strict=False):
            _panel(axes, name, parts)
        for axes in grid[len(drawn) :]:
            axes.set_visible(False)
    return True


def _panel(axes: Any, name: str, parts: Mapping[str, MetricColumn]) -> None:
    frame(axes, name.replace("_", " ").replace("/", ": "), "step")
    for part, colour in (("train", ACCENT), ("eval", WARM)):
        if column := parts.get(part):
            mark = "o" if len(column) == 1 else "." if part == "eval" else None
            called = "validation" if part == "eval" else part
            axes.plot(*column.arrays(), color=colour, linewidth=1.4, marker=mark, label=called)
    if len(parts) > 1:
        axes.legend(frameon=False, fontsize=8)
    axes.locator_params(axis="x", nbins=6)


MOST = 3  # steps in a row


class GradientGuard(TrainerCallback):  # type: ignore[misc]
    """Checks the gradients before each optimiser step."""

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
                "Lower learning_rate or set dtype: float32; the same command resumes from the last checkpoint."
            )
        if self.run.main:
            text = "The gradients of this step are not numbers; it was left out and no weight was changed."
            self.run.alert({"step": step, "alert": text})
            print(f"{self.name}: step {step:,}. {text}", file=sys.stderr, flush=True)


def finite(gradients: Iterable[Any]) -> bool:
    """Whether all gradients are finite, in one check, because each check makes a GPU wait."""
    import torch

    sums = [gradient.detach().sum(dtype=torch.float32) for gradient in gradients]
    return not sums or bool(torch.isfinite(torch.stack([one.to(sums[0].device) for one in sums])).all())


_EVERY = 20.0  # seconds between two lines where there is no terminal
#: shown while training, in this order, as far as the trainer logs them
SHOWN = ("loss", "eval_loss", "reward", "reward_std", "entropy", "mean_token_accuracy", "learning_rate")


def watch(trainer: Any, run: Run, name: str, *, keep: int = 2, quiet: bool = False, panels: Sequence[str] = ()) -> None:
    """Attach the callbacks to a trainer. The last `keep` checkpoints are kept, and the best one if there is one.

    `panels` names the numbers that the figure shows, for a trainer that logs more than fit.
    """
    for ours in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(ours)
    trainer.add_callback(GradientGuard(run, name))
    trainer.add_callback(ProgressWatch(run, name, quiet=quiet, panels=panels))
    trainer.add_callback(Checkpoints(run, keep))


class ProgressWatch(TrainerCallback):  # type: ignore[misc]
    """Writes metrics to the run's file and progress to standard error."""

    def __init__(self, run: Run, name: str, *, quiet: bool = False, panels: Sequence[str] = ()) -> None:
        self.run, self.name, self.panels = run, name, panels
        self._line = LiveLine(quiet=quiet or not run.main, every=_EVERY, unit="steps")
        self._last: dict[str, float] = {}
        self._began, self._first = time.monotonic(), 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._began, self._first = time.monotonic(), state.global_step
        if state.global_step:
            self._line.say(f"{self.name}: resumes after step {state.global_step:,} of {state.max_steps:,}")
        self._line.begin(self.name, state.max_steps, state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        numbers = {key: value for key, value in (logs or {}).items() if isinstance(value, int | float)}
        self._last |= numbers
        self.run.log({"step": state.global_step, **numbers})

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._line.due() is not None:
            self._line.show(state.global_step, self._told(state))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._line.stop()
        self._line.say(f"{self.name}: {state.global_step:,} steps in {duration(time.monotonic() - self._began)}")
        if self.run.main:
            draw(self.run.metrics_path, self.run.folder / "curves.png", self.name, self.panels)

    def _told(self, state: Any) -> str:
        words = [f"{key.replace('_', ' ')} {self._last[key]:.3g}" for key in SHOWN if key in self._last]
        done = state.global_step - self._first
        if done and state.max_steps > state.global_step:
            left = (time.monotonic() - self._began) / done * (state.max_steps - state.global_step)
            words.append(f"{duration(left)} left")
        return ", ".join(words)


class Checkpoints(TrainerCallback):  # type: ignore[misc]
    """Marks a checkpoint as complete, then deletes older ones. The trainer's own rotation must be off."""

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
