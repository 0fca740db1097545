"""FSDP2 in two processes on CPUs, with validation data: the best checkpoint is chosen, and the result is one process's."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml
from tests.endpoints.process import ROOT, environment
from tests.policy.demonstrations import items

from compeer.dialogue import write_rows
from compeer.policy.sft import read_config, train

PLAN = {"length": "brief", "device": "cpu", "batch_size": 4, "micro_batch": 2, "epochs": 3, "learning_rate": 1e-3,
        "save_every": 1, "warmup": 0.0, "keep": 3}  # fmt: skip


def sharded(config: Path, folder: Path, **more: str) -> tuple[int, str, str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launch, "-m", "tests.training.sharded", "policy", "sft", str(config), "--out", str(folder), "--json"]
    running = subprocess.Popen(
        command, cwd=ROOT, env=environment() | {"OMP_NUM_THREADS": "1"} | more, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        stdout, stderr = running.communicate(timeout=200)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    return running.returncode, stdout, stderr


def test_two_processes_share_the_weights_and_choose_the_best_checkpoint(tiny_model_dir: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    write_rows(tmp_path / "items.jsonl", items())
    files = [str(tmp_path / "items.jsonl")]
    config = tmp_path / "sft.yaml"
    config.write_text(yaml.safe_dump(PLAN | {"out": "x", "model": str(tiny_model_dir), "data": files, "valid": files}))
    launcher = yaml.safe_load((ROOT / "configs/accelerate/fsdp2.yaml").read_text())["fsdp_config"]
    code, stdout, stderr = sharded(config, tmp_path / "two", STATE_DICT=launcher["fsdp_state_dict_type"])
    assert code == 0, stderr[-3000:]
    told = msgspec.json.decode(stdout)  # one process speaks
    held = {(int(local), int(whole)) for local, whole in re.findall(r"sharded: (\d+) of (\d+)\n", stderr)}
    assert held and all(local < 0.6 * whole for local, whole in held), "each process holds about half"
    alone = train(read_config(config, [f"out={tmp_path / 'one'}"]), quiet=True)
    assert told["best_step"] == alone["best_step"] == 3
    assert told["eval_loss"] == pytest.approx(alone["eval_loss"], abs=1e-4)
    one, two = (load_file(tmp_path / name / "model/model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys() and all(one[name].shape == two[name].shape for name in one)
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-3
