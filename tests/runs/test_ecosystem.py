"""The jobs of one GPU session, without the GPU: every command is one of ours, every configuration is read, no job stops another."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from runs.supporter import ecosystem

from compeer.policy.grpo.config import read_config as read_grpo
from compeer.policy.sft import read_config as read_sft


@pytest.fixture
def lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, path in {
        "LENT": tmp_path, "ECO": tmp_path / "eco", "FILES": tmp_path / "files" / "eco",
        "PACKAGES": tmp_path / "eco" / "site-packages", "DEEP": tmp_path / "eco" / "zero3" / "site-packages",
    }.items():  # fmt: skip
        monkeypatch.setattr(ecosystem, name, path)
    return tmp_path


ARMS = [{"name": "danger"}, {"name": "judge"}]


def test_steps_name_each_other_and_known_jobs() -> None:
    steps = ecosystem.steps({"arms": ARMS, "ecosystem": {"judge": "judge", "steps": 30}})
    names = {one["name"] for one in steps} | {"gguf", "base", "wheels", "danger", "judge"}
    assert len(names) == len(steps) + 5
    assert all(other in names for one in steps for other in [*one.get("after", []), *one.get("once_over", [])])
    jobs = [one for one in steps if "job" in one]
    assert {one["job"]["do"] for one in jobs} == set(ecosystem.JOBS)
    assert all(one["tries"] == 1 and one["seconds"] <= 600 and one["gib"] for one in jobs), "none may hold the machine"
    for one in jobs:  # what is large waits for the trainings, what is small runs beside them
        assert {"danger", "judge"} <= set(one["once_over"]) if one["gib"] > 20 else sum(
            other["gib"] for other in jobs if other["gib"] <= 20) < 45  # fmt: skip


def test_one_job_can_have_the_gpu_alone() -> None:
    steps = ecosystem.steps({"ecosystem": {"only": ["server"]}})
    assert [one["name"] for one in steps] == ["eco-wheels", "eco-env", "eco-server"] and not steps[-1]["once_over"]
    with pytest.raises(SystemExit, match="colocated is none of fsdp2, zero3"):
        ecosystem.steps({"ecosystem": {"only": ["colocated"]}})


def test_an_adapter_of_rank_32_is_the_same_adapter(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    (tmp_path / "narrow").mkdir()
    (tmp_path / "narrow" / "adapter_config.json").write_text('{"r": 8, "lora_alpha": 16, "peft_type": "LORA"}')
    narrow = {"q.lora_A.weight": torch.randn(8, 12), "q.lora_B.weight": torch.randn(20, 8)}
    save_file(narrow, tmp_path / "narrow" / "adapter_model.safetensors")
    ecosystem.widen(str(tmp_path / "narrow"), str(tmp_path / "wide"))
    shape = json.loads((tmp_path / "wide" / "adapter_config.json").read_text())
    wide = load_file(tmp_path / "wide" / "adapter_model.safetensors")
    assert shape["r"] == 32 and wide["q.lora_A.weight"].shape == (32, 12)
    change = [factor * one["q.lora_B.weight"] @ one["q.lora_A.weight"]
              for factor, one in ((16 / 8, narrow), (shape["lora_alpha"] / 32, wide))]  # fmt: skip
    assert torch.allclose(*change)


@pytest.mark.parametrize("name", [one["name"] for one in ecosystem.steps({}) if "job" in one])
def test_commands_and_configurations_are_read(name: str, lent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[list[str]] = []

    def start(job: Any, part: str, words: list[str], **more: str) -> Any:
        said.append(words)
        job.started.append(subprocess.Popen([sys.executable, "-c", ""], start_new_session=True))
        (lent / "eco" / "logs" / f"{job.name}-{part}.log").touch()
        return job.started[-1]

    monkeypatch.setattr(ecosystem.Job, "start", start)
    monkeypatch.setattr(ecosystem, "up", lambda *_: True)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    step = next(one for one in ecosystem.steps({}) if one["name"] == name)
    path = lent / "steps" / f"{name}.job"
    path.parent.mkdir()
    path.write_text(json.dumps(step["job"] | {"seconds": 100}))
    if name == "eco-lora":  # nobody answers here
        with pytest.raises(SystemExit):
            ecosystem.run(path)
    else:
        ecosystem.run(path)
    asked = [words for words in said if "policy" in words or "reward" in words]
    for words in asked:
        at = words.index("policy") if "policy" in words else words.index("reward")
        kind, config = words[at + 1], words[at + 2]
        if kind == "grpo":
            read = read_grpo(config)
            assert read.rollout in ("transformers", "vllm-server", "vllm-colocate") and read.steps
            if name == "eco-vision" and read.rollout == "vllm-colocate":
                assert read.vllm.engine["mm_processor_cache_gb"] == 0, "transformers 5.23 and vLLM 0.24 fail otherwise"
        elif kind == "sft":
            assert read_sft(config).batch_size
        else:
            assert json.loads(Path(config).read_text())["train"]
    assert asked or name == "eco-lora"
    rows = [json.loads(line) for line in (lent / "results" / f"ecosystem-{name[4:]}.jsonl").read_text().splitlines()]
    assert {"set", "id"} <= set(rows[-1]) and rows[-1]["id"] == "summary"
    json.loads((lent / "results" / f"ecosystem-{name[4:]}.json").read_text())


def test_a_job_that_is_late_is_ended_with_its_children(lent: Path) -> None:
    job = ecosystem.Job("late", {"do": "colocate", "seconds": 10})
    child = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True); time.sleep(60)"
    process = job.start("part", ["-c", child])
    until = time.time() + 20
    while len(ecosystem.members(process.pid)) < 2 and time.time() < until:
        time.sleep(0.1)
    known = ecosystem.members(process.pid)
    assert len(known) == 2
    assert job.wait("part", process, most=0.1) == 124
    assert not [one for one in known if one in ecosystem.members(process.pid)]
    assert job.told["parts"]["part"]["code"] == 124


def test_what_runs_beside_another_is_timed_from_its_own_start(lent: Path) -> None:
    job = ecosystem.Job("beside", {"do": "vision", "seconds": 60})
    first, second = (job.start(part, ["-c", "import time; time.sleep(2.5)"]) for part in ("first", "second"))
    assert job.wait("first", first) == 0 and job.wait("second", second) == 0
    assert job.told["parts"]["second"]["seconds"] >= 2.5, "it was not begun when the first had ended"


def test_packages_are_joined_and_deepspeed_lies_apart(lent: Path) -> None:
    for folder, name, text in (
        ("overlay", "a/x.py", "old"),
        ("eco-overlay", "a/x.py", "new"),
        ("eco-overlay", "deepspeed/y.py", "d"),
    ):
        path = lent / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    ecosystem.env()
    assert (ecosystem.PACKAGES / "a/x.py").read_text() == "new" and (lent / "overlay/a/x.py").read_text() == "old"
    assert (ecosystem.DEEP / "deepspeed/y.py").exists() and not (ecosystem.PACKAGES / "deepspeed").exists()
    assert (ecosystem.PACKAGES / "done").exists()


def test_a_job_that_has_ended_leaves_no_watch_behind(lent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch ends the whole process. One that outlived its job ended the test process minutes later."""
    monkeypatch.setitem(ecosystem.JOBS, "colocate", lambda job: True)
    path = lent / "eco-colocate.job"
    path.write_text(json.dumps({"do": "colocate", "seconds": 100}))
    before = set(threading.enumerate())
    ecosystem.run(path)
    left = [one for one in set(threading.enumerate()) - before if isinstance(one, threading.Timer)]
    for one in left:
        one.join(5)  # a cancelled timer ends at once
    assert not [one for one in left if one.is_alive()]
