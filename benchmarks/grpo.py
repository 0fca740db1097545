"""What the reward costs of a GRPO step: the embedded model, 2 prompts x 4 outputs x 128 tokens, everything in one run.

The judge is a real HTTP service with a trivial rule, and its time is left out: what a real one takes is its own matter.
The step is timed by TRL, the parts by the reward itself, so all of them come from the same steps of the same run.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from tests.endpoints.letter_judge import LetterJudge

from benchmarks.measure import Ratio
from compeer.cer import gold
from compeer.dialogue import write_rows
from compeer.policy.grpo.config import config_of
from compeer.policy.grpo.run import GrpoSession


def run(steps: int = 2, tokens: int = 128) -> list[Ratio]:
    with tempfile.TemporaryDirectory() as folder, LetterJudge() as judge:
        lines = _measured(Path(folder), judge.url, steps, tokens)
    whole = _mean(lines, "step_time")
    own = _mean(lines, "seconds/other") + _mean(lines, "seconds/watching")
    shares = (("reward without judge and embedder", own, 0.02), ("embedder", _mean(lines, "seconds/embedder"), 0.05))
    return [
        Ratio(what=what, ours=ours, theirs=whole, against="a GRPO step", unit="s", wanted=wanted, at_least=False)
        for what, ours, wanted in shares
    ]


def _measured(folder: Path, judge: str, steps: int, tokens: int) -> list[dict[str, Any]]:
    english = [item for item in gold.load() if item.language == "en"]
    short = sorted(
        english, key=lambda item: sum(len(turn.text) for turn in item.history)
    )  # the hardest case: fast steps
    write_rows(folder / "items.jsonl", short[: 2 * steps])
    config = config_of(
        {
            "out": str(folder / "run"), "model": "embedded:small", "lora": {}, "data": [str(folder / "items.jsonl")],
            "judge": {"spec": judge}, "length": "brief", "max_prompt": 768, "max_completion": tokens, "batch": 2,
            "steps": steps, "save_every": 1000, "device": "cpu",
        }
    )  # fmt: skip
    session = GrpoSession(config, quiet=True)
    opened = session.open()
    try:
        trainer, _, _ = session.trainer(opened)
        session.reward.embedder("en")(["It is loaded once, not in every step."])
        session.reward.embedder.seconds = 0.0
        trainer.train()
        watching = trainer.reward_funcs[0].seconds / steps  # a step logs what the one before it took
        return [line | {"seconds/watching": watching} for line in opened.metrics() if "step_time" in line]
    finally:
        opened.close()
        session.close()


def _mean(lines: list[dict[str, Any]], name: str) -> float:
    return statistics.fmean(float(line[name]) for line in lines)
