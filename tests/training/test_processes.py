"""Two processes train one judge on rows with and without pictures; one of them writes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import yaml
from tests.endpoints.process import ROOT, environment
from tests.training.small import item

from compeer.dialogue import write_rows
from compeer.training.run import MARK


def test_two_processes_train_on_mixed_rows_and_one_writes(tmp_path: Path, tiny_vision_dir: Path) -> None:
    from PIL import Image

    Image.effect_noise((60, 80), 80).convert("RGB").save(tmp_path / "a.png")
    items = [item(number, images=("a.png",) if number % 4 == 0 else ()) for number in range(7)]
    write_rows(tmp_path / "train.jsonl", items)
    config = {
        "out": str(tmp_path / "run"),
        "base": str(tiny_vision_dir),
        "train": [str(tmp_path / "train.jsonl")],
        "kind": "orm",
        "batch_size": 2,
        "epochs": 2,
        "learning_rate": 1e-2,
        "save_every": 2,
        "device": "cpu",
    }
    (tmp_path / "judge.yaml").write_text(yaml.safe_dump(config))
    launch = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "compeer.cli",
    ]
    command = [*launch, "reward", "train", str(tmp_path / "judge.yaml"), "--json"]
    running = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment() | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        stdout, stderr = running.communicate(timeout=200)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)  # a process that waits for the other would wait for ever
    assert running.returncode == 0, stderr[-3000:]
    told = msgspec.json.decode(stdout)  # one process speaks
    assert told["results"]["steps"] == 2 * 4, "two rows with pictures; five without, filled up to six"
    run = msgspec.json.decode((tmp_path / "run" / "run.json").read_bytes())
    assert run["sessions"][0]["processes"] == 2 and len(run["sessions"]) == 1
    for path in (tmp_path / "run" / "checkpoints").glob("checkpoint-*"):
        whole = msgspec.json.decode((path / MARK).read_bytes())
        assert {"rng_state_0.pth", "rng_state_1.pth", "optimizer.pt"} <= set(whole)
    lines = [msgspec.json.decode(line) for line in (tmp_path / "run" / "metrics.jsonl").read_bytes().splitlines()]
    steps = [line["step"] for line in lines if "loss" in line]
    assert len(steps) == len(set(steps))
