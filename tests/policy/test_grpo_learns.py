"""GRPO raises the reward of a toy judge behind HTTP, whatever the seed."""

from __future__ import annotations

import json
import math
from pathlib import Path

from tests.endpoints.letter_judge import LetterJudge
from tests.policy import toy

from compeer.policy.grpo.run import train


def test_the_mean_reward_rises_over_five_seeds(tiny_model_dir: Path, tmp_path: Path) -> None:
    gains = []
    with LetterJudge() as judge:
        for seed in range(5):
            folder = tmp_path / str(seed)
            folder.mkdir()
            more = {
                "group": 6,
                "micro_batch": 18,
                "max_completion": 6,
                "learning_rate": 1e-2,
                "steps": 16,
                "seed": seed,
            }
            train(toy.config(folder, tiny_model_dir, judge.url, **more), quiet=True)
            logged = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
            rewards = [line["reward"] for line in logged if "reward" in line]
            assert len(rewards) == 16
            gains.append(sum(rewards[-4:]) / 4 - sum(rewards[:4]) / 4)
    mean = sum(gains) / 5
    error = math.sqrt(sum((gain - mean) ** 2 for gain in gains) / 4 / 5)
    assert mean / error > 3.75, f"one-sided t test at 1 %, four degrees of freedom: {gains}"
    assert mean > 0.3, gains
    print(f"gains {gains}, t = {mean / error:.1f}")
