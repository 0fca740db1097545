"""All runs of the demonstration, then the report."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from benchmarks.collapse import world
from benchmarks.collapse.judge import Served
from compeer.dialogue import write_rows
from compeer.models.embedding import Embedder
from compeer.policy import sft
from compeer.policy.composite import RewardSettings
from compeer.policy.grpo.config import GrpoConfig, JudgeConfig

#: the arms: equation 5 off, as printed, and sign-aware
ARMS: dict[str, dict[str, Any]] = {
    "none": {"reweight": False},
    "paper": {"variant": "paper"},
    "sign_aware": {"variant": "sign_aware"},
}
SETTINGS: dict[str, Any] = {
    "batch": 8, "group": 4, "micro_batch": 32, "steps": 100, "learning_rate": 1e-3, "max_prompt": 128, "samples": 32,
    "max_completion": 24, "length": "brief", "device": "cpu", "rollout": "transformers", "save_every": 50,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/out/collapse"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE over a setting, for a trial")
    parser.add_argument("--picture", type=Path, help="where the picture goes; default: beside the runs")
    given = parser.parse_args()
    changed = {name: json.loads(value) for name, _, value in (one.partition("=") for one in given.set)}
    arms, embedder = given.arms.split(","), Embedder()  # one for all: they say the same things
    with Served() as judge:
        for seed in range(given.seeds):
            start = taught(given.out, seed)
            for arm in arms:
                run(given.out, arm, seed, start, judge, changed, embedder)
    from benchmarks.collapse.report import report

    print(report(given.out, arms, given.seeds, given.picture or given.out / "collapse.png"))


def taught(out: Path, seed: int) -> Path:
    """The model of this seed, from nothing to one that answers in the contract, in many ways."""
    home = out / f"seed-{seed}"
    if not (home / "base" / "config.json").exists():
        world.build(home / "base", seed)
        write_rows(home / "demonstrations.jsonl", world.demonstrations(36, seed))
        write_rows(home / "moments.jsonl", world.moments())
    config = sft.SftConfig(
        out=str(home / "sft"), model=str(home / "base"), data=(str(home / "demonstrations.jsonl"),), length="brief",
        max_prompt=128, device="cpu", learning_rate=6e-3, batch_size=16, micro_batch=16, epochs=20, seed=seed,
        save_every=10_000, log_every=20,
    )  # fmt: skip
    sft.train(config, quiet=True)
    return home / "sft"


def run(out: Path, arm: str, seed: int, start: Path, judge: str, changed: dict[str, Any], embedder: Embedder) -> None:
    """One arm with one seed, as `compeer policy grpo` runs it."""
    from compeer.policy.grpo.run import GrpoSession

    home = out / f"seed-{seed}"
    settings = {**SETTINGS, **{name: value for name, value in changed.items() if "." not in name}}
    reward = {name.partition(".")[2]: value for name, value in changed.items() if name.startswith("reward.")}
    config = GrpoConfig(
        out=str(home / arm), model=str(start), data=(str(home / "moments.jsonl"),), name=f"{arm}, seed {seed}",
        reward=RewardSettings(soft=True, **{**ARMS[arm], **reward}), judge=JudgeConfig(spec=judge), seed=seed,
        **settings,
    )  # fmt: skip
    session = GrpoSession(config, quiet=True)
    session.reward.embedder = embedder
    opened = session.open()
    try:
        if not opened.finished:
            opened.finish(session.train(opened))
    finally:
        opened.close()
        session.close()


if __name__ == "__main__":
    main()
