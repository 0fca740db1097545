"""What a trainer logs reaches the file, the terminal and the figure; a checkpoint is marked last."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compeer.dialogue import write_rows
from compeer.training import watch as watching
from compeer.training.metrics import MetricColumn
from compeer.training.run import Record, Run, open_run
from compeer.training.watch import draw


@pytest.fixture
def run(tmp_path: Path) -> Run:
    opened = open_run(tmp_path / "run", Record(kind="judge", config={}, data={}, base={}))
    opened.close()
    return opened


def state(step: int, best: str | None = None) -> Any:
    return SimpleNamespace(global_step=step, max_steps=10, best_model_checkpoint=best)


def settings(limit: int | None = None) -> Any:
    return SimpleNamespace(save_total_limit=limit)


class TestWatch:
    def test_every_scalar_is_written_and_nothing_else(self, run: Run) -> None:
        watch = watching.ProgressWatch(run, "policy", quiet=True)
        watch.on_log(settings(), state(4), None, {"reward": 1.5, "kl": 0, "table": [1], "note": "x"})
        assert run.metrics() == [{"step": 4, "reward": 1.5, "kl": 0}]

    def test_without_a_terminal_it_says_a_line_now_and_then(
        self, run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watching, "_EVERY", 0.0)
        watch = watching.ProgressWatch(run, "judge")
        watch.on_train_begin(settings(), state(2), None)
        watch.on_log(settings(), state(3), None, {"loss": 0.51234, "grad_norm": 2.0})
        watch.on_step_end(settings(), state(3), None)
        watch.on_train_end(settings(), state(10), None)
        told = capsys.readouterr().err
        assert "judge: resumes after step 2 of 10" in told
        assert "judge: 3 of 10 steps, loss 0.512" in told and "left" in told
        assert "judge: 10 steps in" in told and (run.folder / "curves.png").exists()

    def test_other_processes_are_quiet(
        self, run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RANK", "1")
        watch = watching.ProgressWatch(run, "judge")
        watch.on_log(settings(), state(3), None, {"loss": 0.5})
        watch.on_train_end(settings(), state(10), None)
        assert capsys.readouterr().err == "" and not (run.folder / "curves.png").exists()


class TestCheckpoints:
    def save(self, run: Run, callback: watching.Checkpoints, step: int, best: str | None = None) -> None:
        folder = run.checkpoints / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(b"w" * step)
        callback.on_save(settings(), state(step, best), None)

    def test_older_ones_go_when_the_new_one_is_whole(self, run: Run) -> None:
        callback = watching.Checkpoints(run, keep=1)
        for step in (1, 2, 3):
            self.save(run, callback, step, best=str(run.checkpoints / "checkpoint-1"))
        assert [path.name for path in run.whole_checkpoints()] == ["checkpoint-1", "checkpoint-3"]

    def test_a_trainer_that_deletes_by_itself_is_refused(self, run: Run) -> None:
        with pytest.raises(ValueError, match="save_total_limit"):
            watching.Checkpoints(run).on_train_begin(settings(limit=2), state(0), None)


class TestCurves:
    METRICS = (
        {"step": 1, "loss": 2.0, "epoch": 0.1, "zeta": 1.0, "num_tokens": 7},
        {"step": 2, "loss": float("nan"), "eval_loss": 1.5, "eval_runtime": 3.0, "note": "x"},
        {"step": 3, "loss": 1.0, "eval_loss": 1.2, "train_runtime": 3.0},
    )

    def written(self, folder: Path, *lines: dict[str, Any]) -> Path:
        path = folder / "metrics.jsonl"
        write_rows(path, lines)
        return path

    def test_one_panel_a_scalar_what_matters_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        shown: dict[str, dict[str, list[tuple[float, float]]]] = {}

        def panel(axes: Any, name: str, parts: dict[str, MetricColumn]) -> None:
            shown[name] = {part: list(zip(one.steps, one.values, strict=True)) for part, one in parts.items()}

        monkeypatch.setattr(watching, "_panel", panel)
        draw(self.written(tmp_path, *self.METRICS), tmp_path / "curves.png", "judge")
        assert list(shown) == ["loss", "zeta"]
        assert shown["loss"] == {"train": [(1, 2.0), (3, 1.0)], "eval": [(2, 1.5), (3, 1.2)]}
        shown.clear()
        draw(self.written(tmp_path, *self.METRICS), tmp_path / "curves.png", "judge", only=["eval_loss"])
        assert shown == {"loss": {"eval": [(2, 1.5), (3, 1.2)]}}

    def test_the_figure_is_drawn_or_there_is_nothing_to_draw(self, tmp_path: Path) -> None:
        assert draw(self.written(tmp_path, *self.METRICS), tmp_path / "curves.png", "judge")
        assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
        nothing = self.written(tmp_path, {"step": 1})
        assert not draw(nothing, tmp_path / "none.png", "judge") and not (tmp_path / "none.png").exists()
