"""GRPO under trouble: killed and resumed, a judge that dies and comes back, another judge, two processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.endpoints.letter_judge import LetterJudge
from tests.endpoints.process import ROOT, environment
from tests.policy import toy

from compeer.dialogue import write_rows
from compeer.errors import UserError
from compeer.policy.grpo.run import train

ENVIRONMENT = environment() | {"OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def judge() -> Iterator[str]:
    with LetterJudge() as service:
        yield service.url


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_killed_in_its_second_epoch_and_resumed_it_gives_the_same_weights(
    tiny_model_dir: Path, judge: str, tmp_path: Path
) -> None:
    """Four steps an epoch; checkpoints every third step, so it goes on in the middle of the second epoch."""
    more = {"steps": 10, "save_every": 3, "micro_batch": 6, "reward": {"soft": True}}
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    calm.mkdir(), killed.mkdir()
    train(toy.config(calm, tiny_model_dir, judge, **more), quiet=True)
    (killed / "config.json").write_text(json.dumps(toy.settings(killed, tiny_model_dir, judge, **more)))
    process = subprocess.Popen(
        [sys.executable, "-m", "compeer.cli", "policy", "grpo", str(killed / "config.json")],
        cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    metrics = killed / "run/metrics.jsonl"
    while process.poll() is None and not (metrics.is_file() and len(metrics.read_bytes().splitlines()) >= 7):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -9
    last = lines(killed / "run/metrics.jsonl")[-1]["step"]
    assert 7 <= last < 10
    with LetterJudge("o") as other, pytest.raises(UserError, match="the judge's letter was e, is o"):
        train(toy.config(killed, tiny_model_dir, other.url, **more), quiet=True)
    write_rows(killed / "other.jsonl", toy.items()[1:])
    with pytest.raises(UserError, match=r"the train data was .*items.jsonl .*12 rows.* is .*other.jsonl"):
        train(toy.config(killed, tiny_model_dir, judge, **more, data=[str(killed / "other.jsonl")]), quiet=True)

    train(toy.config(killed, tiny_model_dir, judge, **more), quiet=True)
    sessions = json.loads((killed / "run/run.json").read_text())["sessions"]
    assert sessions[-1]["resumed_from"].endswith(("checkpoint-6", "checkpoint-9"))
    one, two = weights(calm / "run/model"), weights(killed / "run/model")
    assert all(one[name].equal(two[name]) for name in one)
    for name in ("samples.jsonl", "metrics.jsonl"):
        rows = [[(row["step"], row.get("output"), row.get("reward")) for row in lines(folder / "run" / name)]
                for folder in (calm, killed)]  # fmt: skip
        assert rows[0] == rows[1], f"{name}: nothing is missing and nothing stands there twice"


def test_a_judge_that_dies_for_a_while_costs_a_few_marked_rows_and_not_the_run(
    tiny_model_dir: Path, tmp_path: Path
) -> None:
    service = LetterJudge(latency=0.05).start()
    try:
        config = toy.settings(tmp_path, tiny_model_dir, service.url, steps=30, max_completion=4, batch=2, micro_batch=8)
        config["judge"]["budget"] = 0.4
        metrics = tmp_path / "run/metrics.jsonl"

        def outage() -> None:
            until(lambda: metrics.is_file() and len(lines(metrics)) >= 4)
            service.kill()
            until(lambda: any(line.get("judge/unanswered") == 1.0 for line in lines(metrics)))
            service.start()

        trouble = threading.Thread(target=outage)
        trouble.start()
        result = train(toy.config_of(config), quiet=True)
        trouble.join()
    finally:
        service.kill()
    assert result["steps"] == 30
    unanswered = {line["step"]: line["judge/unanswered"] for line in lines(metrics) if "judge/unanswered" in line}
    assert len(unanswered) == 30 and {0.0, 1.0} <= set(unanswered.values())
    assert unanswered[1] == 0.0 and unanswered[30] == 0.0, "judged before, and again after"
    for row in lines(tmp_path / "run/samples.jsonl"):
        if unanswered[row["step"]] in (0.0, 1.0):
            assert bool(row.get("failure")) == bool(unanswered[row["step"]])
    out = next(step for step, share in unanswered.items() if share == 1.0)
    line = next(line for line in lines(metrics) if line["step"] == out)
    assert line["reward"] == 0.0 and line["grad_norm"] == 0.0, "a step without judgements teaches nothing"
    assert sum(value for name, value in line.items() if name.startswith("judge/failed/")) == 8


def until(true: Any, seconds: float = 60.0) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_two_processes_give_the_rewards_and_the_weights_of_one(
    tiny_model_dir: Path, judge: str, tmp_path: Path
) -> None:
    """Outputs are fixed, so that both runs reward the same ones: every number of every row must be the same."""
    one, two = tmp_path / "one", tmp_path / "two"
    more = {"steps": 2, "batch": 4, "micro_batch": 4, "reward": {"soft": True}, "max_completion": 16}
    for folder in (one, two):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(toy.settings(folder, tiny_model_dir, judge, **more)))
    train(toy.config(one, tiny_model_dir, judge, **more), quiet=True, rollout_func=toy.rollout)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=0", "--rdzv_backend=c10d",
              "--rdzv_endpoint=localhost:0", "-m", "tests.policy.toy", str(two / "config.json")]  # fmt: skip
    done = subprocess.run(
        launch, cwd=ROOT, env=ENVIRONMENT | {"ACCELERATE_USE_CPU": "true"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads((two / "run/run.json").read_text())["sessions"][0]["processes"] == 2

    def rows(folder: Path) -> dict[Any, Any]:
        return {(row["step"], row["id"], row["output"]): row for row in lines(folder / "run/samples.jsonl")}

    first, second = rows(one), rows(two)
    assert len(first) == 2 * 16 and first.keys() == second.keys()
    assert len({row["reward"] for row in first.values()}) > 6
    for key, row in first.items():
        assert row["parts"] == second[key]["parts"]
        for name in ("total", "reward", "s_in", "s_hi", "tau"):
            assert row[name] == pytest.approx(second[key][name], abs=1e-6)
    for mine, theirs in zip(lines(one / "run/metrics.jsonl"), lines(two / "run/metrics.jsonl"), strict=True):
        for name in ("reward", "part/preference", "diversity/distinct_2", "diversity/self_similarity", "judge/cases",
                     "groups/zero_variance", "length/reply_words", "redundancy/s_in"):  # fmt: skip
            if name in mine:
                assert mine[name] == pytest.approx(theirs[name], abs=1e-5), name
    alone, shared = weights(one / "run/model"), weights(two / "run/model")
    start = weights(tiny_model_dir)
    assert max(float((alone[name] - start[name]).abs().max()) for name in alone) > 1e-3, "it learnt something"
    # Adam takes a step of full size where a gradient is all but zero, whichever sign rounding gives it: few numbers differ
    apart = [float(((alone[name] - shared[name]).abs() > 1e-5).float().mean()) for name in alone]
    assert max(apart) < 0.01, apart


def test_a_split_group_is_refused_in_every_process(tiny_model_dir: Path, judge: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps(toy.settings(tmp_path, tiny_model_dir, judge)))
    command = [sys.executable, "-m", "compeer.cli", "policy", "grpo", str(tmp_path / "config.yaml"), "--set", "batch=5"]
    ranked = ENVIRONMENT | {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}
    done = subprocess.run(command, cwd=ROOT, env=ranked, capture_output=True, text=True)
    assert done.returncode == 1
    assert "5 prompts x 4 outputs = 20 outputs over 2 processes are 10 each" in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "run").exists()
    assert os.environ.get("WORLD_SIZE") is None
