"""A training that is killed ends, run again, in the very same weights as one that nobody disturbed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.endpoints.process import ROOT, environment
from tests.training.small import in_child, item, kill_me, small_model

from compeer.dialogue import write_rows
from compeer.reward.train import JudgeTraining, train
from compeer.training.model import Lora

ITEMS = [item(number) for number in range(14)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("resume")
    write_rows(folder / "train.jsonl", ITEMS)
    small_model(folder / "base", ITEMS)
    return folder


def config(home: Path, out: str, **changes: Any) -> JudgeTraining:
    """Seven micro-batches of two, in four steps an epoch: no boundary falls where another one does."""
    values: dict[str, Any] = {
        "out": str(home / out),
        "base": str(home / "base"),
        "train": (str(home / "train.jsonl"),),
        "batch_size": 4,
        "micro_batch": 2,
        "learning_rate": 3e-3,
        "epochs": 3,
        "save_every": 2,
        "log_every": 1,
    }
    return JudgeTraining(**values | changes)


@contextmanager
def killed(owner: type, method: str, step: int, before: bool = False) -> Iterator[None]:
    """The process that trains kills itself in a method of a callback, at a step."""
    usual: Callable[..., Any] = getattr(owner, method)

    def deadly(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        if before and state.global_step == step:
            kill_me()
        done = usual(self, args, state, control, **kwargs)
        if state.global_step == step:
            kill_me()
        return done

    setattr(owner, method, deadly)
    try:
        yield
    finally:
        setattr(owner, method, usual)


def weights(home: Path, out: str) -> bytes:
    model = home / out / "model"
    return next(model.glob("*model.safetensors")).read_bytes()


def losses(home: Path, out: str) -> list[tuple[int, float]]:
    lines = [msgspec.json.decode(line) for line in (home / out / "metrics.jsonl").read_bytes().splitlines()]
    return [(line["step"], line["loss"], line["num_tokens"]) for line in lines if "loss" in line]  # type: ignore[misc]


def checkpoints(home: Path, out: str) -> list[str]:
    return sorted(path.name for path in (home / out / "checkpoints").iterdir())


def test_killed_from_outside_in_the_middle_of_an_epoch(home: Path) -> None:
    undisturbed = config(home, "calm", epochs=8)
    train(undisturbed)
    file = home / "killed.yaml"
    file.write_text(yaml.safe_dump(msgspec.to_builtins(config(home, "killed", epochs=8))))
    command = [sys.executable, "-m", "compeer.cli", "reward", "train", str(file)]
    running = subprocess.Popen(
        command, cwd=ROOT, env=environment() | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.DEVNULL
    )
    metrics = home / "killed" / "metrics.jsonl"
    deadline = time.monotonic() + 300
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < 6:
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    assert not (home / "killed" / "model").exists() and checkpoints(home, "killed")
    train(config(home, "killed", epochs=8))
    assert weights(home, "killed") == weights(home, "calm")
    assert losses(home, "killed") == losses(home, "calm")
    sessions = msgspec.json.decode((home / "killed" / "run.json").read_bytes())["sessions"]
    assert len(sessions) == 2 and "checkpoint-" in sessions[1]["resumed_from"]


def test_an_adapter_with_dropout_killed_between_two_checkpoints(home: Path) -> None:
    from compeer.training.watch import ProgressWatch

    settings = {"kind": "prm", "lora": Lora(r=4, dropout=0.2), "limit": 5, "epochs": 2}
    train(config(home, "calm-prm", **settings))
    with killed(ProgressWatch, "on_step_end", 3):
        assert in_child(lambda: train(config(home, "killed-prm", **settings))) == -signal.SIGKILL  # type: ignore[arg-type, return-value]
    assert checkpoints(home, "killed-prm") == ["checkpoint-2"]
    train(config(home, "killed-prm", **settings))
    assert weights(home, "killed-prm") == weights(home, "calm-prm")
    assert losses(home, "killed-prm") == losses(home, "calm-prm")


class TestReplies:
    """The same for a judge of replies, whose base shares its first and last weights, at awkward moments."""

    @pytest.fixture(scope="class")
    def tied(self, home: Path) -> Path:
        import transformers

        # not from_pretrained(…, tie_word_embeddings=True): where both weights are in the file transformers does not tie
        base = transformers.AutoModelForCausalLM.from_pretrained(home / "base")
        base.config.tie_word_embeddings = True
        model = type(base)(base.config)
        model.model.load_state_dict(base.model.state_dict())
        assert model.lm_head.weight is model.model.embed_tokens.weight
        model.save_pretrained(home / "tied")
        transformers.AutoTokenizer.from_pretrained(home / "base").save_pretrained(home / "tied")
        return home

    def config(self, home: Path, out: str) -> JudgeTraining:
        return config(home, out, kind="orm", base=str(home / "tied"))

    @pytest.fixture(scope="class")
    def calm(self, tied: Path) -> bytes:
        train(self.config(tied, "calm-orm"))
        return weights(tied, "calm-orm")

    def test_killed_at_the_end_of_an_epoch(self, tied: Path, calm: bytes) -> None:
        from compeer.training.watch import Checkpoints

        with killed(Checkpoints, "on_save", 4):
            assert in_child(lambda: train(self.config(tied, "at-the-end"))) == -signal.SIGKILL  # type: ignore[arg-type, return-value]
        assert checkpoints(tied, "at-the-end") == ["checkpoint-2", "checkpoint-4"]
        train(self.config(tied, "at-the-end"))
        assert weights(tied, "at-the-end") == calm and losses(tied, "at-the-end") == losses(tied, "calm-orm")

    def test_killed_while_a_checkpoint_is_written(self, tied: Path, calm: bytes) -> None:
        import torch

        def half(value: Any, path: str) -> None:
            if "checkpoint-6" in path and path.endswith("optimizer.pt"):
                Path(path).write_bytes(b"PK\x03\x04 and then the light went out")
                kill_me()
            usual(value, path)

        usual, torch.save = torch.save, half  # type: ignore[assignment]
        try:
            assert in_child(lambda: train(self.config(tied, "half"))) == -signal.SIGKILL  # type: ignore[arg-type, return-value]
        finally:
            torch.save = usual
        assert (tied / "half" / "checkpoints" / "checkpoint-6" / "model.safetensors").exists()
        train(self.config(tied, "half"))
        sessions = msgspec.json.decode((tied / "half" / "run.json").read_bytes())["sessions"]
        assert sessions[1]["resumed_from"].endswith("checkpoint-4")
        assert weights(tied, "half") == calm

    def test_killed_after_the_last_step_before_the_result_is_saved(self, tied: Path, calm: bytes) -> None:
        from compeer.training.watch import ProgressWatch

        with killed(ProgressWatch, "on_train_end", 12, before=True):
            assert in_child(lambda: train(self.config(tied, "unsaved"))) == -signal.SIGKILL  # type: ignore[arg-type, return-value]
        assert not (tied / "unsaved" / "model").exists()
        train(self.config(tied, "unsaved"))
        assert weights(tied, "unsaved") == calm
