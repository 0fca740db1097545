"""A step whose gradients are not numbers changes nothing; several in a row end the run with words."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainingArguments

from compeer.errors import UserError
from compeer.training.watch import MOST, GradientGuard


class Line(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.slope = torch.nn.Parameter(torch.ones(2))

    def forward(self, x: Any) -> dict[str, Any]:
        return {"loss": (self.slope * x).sum()}


class Folder:
    """What the callback needs of a run."""

    def __init__(self, path: Path) -> None:
        self.path, self.main = path, True

    def alert(self, line: dict[str, Any]) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def trained(tmp_path: Path, rows: list[float], *, guarded: bool) -> Line:
    """One step a row: a row of NaN has a gradient of NaN."""
    model = Line()
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=1,
        num_train_epochs=1,
        learning_rate=0.1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        max_grad_norm=1.0,
    )
    data = [{"x": torch.tensor([row, 1.0])} for row in rows]
    trainer = Trainer(model=model, args=arguments, train_dataset=data)
    if guarded:
        trainer.add_callback(GradientGuard(Folder(tmp_path / "alerts.jsonl"), "line"))  # type: ignore[arg-type]
    trainer.train()
    return model


def test_one_bad_step_is_left_out_and_told(tmp_path: Path) -> None:
    spoilt = trained(tmp_path, [1.0, float("nan"), 1.0, 1.0], guarded=False)
    assert not torch.isfinite(spoilt.slope).any()  # what would have become of it
    model = trained(tmp_path, [1.0, float("nan"), 1.0, 1.0], guarded=True)
    assert torch.isfinite(model.slope).all() and (model.slope < 1).all()
    told = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert len(told) == 1 and "left out" in told[0]["alert"]


def test_several_in_a_row_stop_the_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"not numbers.*learning_rate"):
        trained(tmp_path, [float("nan")] * (MOST + 1), guarded=True)
    assert len((tmp_path / "alerts.jsonl").read_text().splitlines()) == MOST - 1


def test_bad_steps_that_do_not_follow_each_other_are_counted_apart(tmp_path: Path) -> None:
    guard, model = GradientGuard(Folder(tmp_path / "alerts.jsonl"), "line"), Line()  # type: ignore[arg-type]
    for number in range(2 * MOST):
        model.slope.grad = torch.full((2,), float("inf") if number % 2 else 1.0)
        guard.on_pre_optimizer_step(None, SimpleNamespace(global_step=number), None, model=model)
        assert (model.slope.grad is None) == bool(number % 2)
