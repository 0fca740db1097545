"""The reward as a plugin for ms-swift (read against 4.6.0; written for the interface of 3.x and 4.x).

ms-swift calls a reward with the texts of this process's outputs and every column of the dataset as a list, as TRL does,
so all of equation 5 happens here. Groups lie together, and a process must hold whole ones: `num_generations` outputs a
prompt. Where ms-swift tells that number (in its arguments), a batch that cuts a group is refused.

    python -m compeer.policy.bridges.ms_swift configs/policy/laptop.yaml prompts.jsonl       # in our environment
    COMPEER_REWARD=reward.yaml swift rlhf --rlhf_type grpo --dataset prompts.jsonl \\
        --external_plugins .../compeer/policy/bridges/ms_swift.py --reward_funcs compeer …   # in theirs
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from compeer.errors import UserError
from compeer.policy.bridges.environment import opened, rows
from compeer.policy.composite import grouped


class CompeerReward:
    """An outcome reward model in ms-swift's sense. Opened with the first batch, in the process that scores."""

    def __init__(self, args: Any = None, config: str | None = None, **kwargs: Any) -> None:
        self.config = config
        sizes = (getattr(args, name, None) for name in ("num_generations", "num_generations_eval"))
        self.sizes = tuple(dict.fromkeys(size for size in sizes if size))

    def __call__(self, completions: Sequence[str], prompt_record: Sequence[str] = (), **kwargs: Any) -> list[float]:
        """One reward for each output, in their order."""
        if len(prompt_record) != len(completions):
            raise UserError(
                f"{len(completions)} outputs came with {len(prompt_record)} rows of the column `prompt_record`. "
                "Make the dataset with python -m compeer.policy.bridges.ms_swift."
            )
        scored = opened(self.config).score(grouped(completions, prompt_record, self.sizes))
        return [row.reward for row in scored]


def register() -> bool:
    """Enter the plugin under the name `compeer`; False where there is no ms-swift."""
    try:
        from swift.rewards import orms  # type: ignore[import-not-found]  # 4.x
    except ImportError:
        try:
            from swift.plugin import orms  # type: ignore[import-not-found]  # 3.x
        except ImportError:
            return False
    orms["compeer"] = CompeerReward
    return True


def main(words: Sequence[str]) -> None:
    """CONFIG OUT: the prompts of a GRPO configuration as a dataset of ms-swift."""
    from compeer.dialogue import write_rows
    from compeer.policy.grpo.config import read_config

    if len(words) != 2:
        raise SystemExit("python -m compeer.policy.bridges.ms_swift CONFIG OUT.jsonl")
    print(f"{write_rows(words[1], rows(read_config(words[0]))):,} prompts in {words[1]}")


register()
if __name__ == "__main__":
    main(sys.argv[1:])
