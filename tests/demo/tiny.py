"""A demo of the smallest size, for a process that a test kills: `python -m tests.demo.tiny BASE OUT`."""

from __future__ import annotations

import sys
from pathlib import Path

from compeer.demo.folder import Sizes
from compeer.demo.story import run_demo

SIZES = Sizes(
    dialogues=18,
    rounds=1,
    judge_items=4,
    sft_items=3,
    sft_batch=1,
    prompts=2,
    grpo_steps=2,
    group=2,
    completion=12,
    moments=2,
    pinned=2,
)

if __name__ == "__main__":
    run_demo(Path(sys.argv[2]), sizes=SIZES, base=sys.argv[1], browser=False)
