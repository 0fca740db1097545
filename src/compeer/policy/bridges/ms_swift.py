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
from itertools import groupby
from typing import Any

from compeer.errors import UserError
from compeer.policy.bridges.files import opened
from compeer.policy.composite import PromptRecord, read_record


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
        scored = opened(self.config).score(self._groups(completions, prompt_record))
        return [row.reward for row in scored]

    def _groups(self, completions: Sequence[str], prompt_record: Sequence[str]) -> list[tuple[PromptRecord, list[str]]]:
        groups: list[tuple[PromptRecord, list[str]]] = []
        for record, rows in groupby(zip(prompt_record, completions, strict=True), lambda row: row[0]):
            outputs = [output for _, output in rows]
            what = read_record(record)
            size = next((size for size in self.sizes if len(outputs) % size == 0), None)
            if self.sizes and size is None:
                wanted = " or ".join(map(str, self.sizes))
                raise UserError(
                    f"{len(outputs)} outputs for {what.id} are in this process, and groups have {wanted}: a group "
                    "was split. Choose per_device_train_batch_size x steps_per_generation that num_generations divides."
                )
            step = size or len(outputs)
            groups += [(what, outputs[at : at + step]) for at in range(0, len(outputs), step)]
        return groups


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
    from compeer.policy.bridges.files import rows
    from compeer.policy.grpo.config import read_config

    if len(words) != 2:
        raise SystemExit("python -m compeer.policy.bridges.ms_swift CONFIG OUT.jsonl")
    made = (
        {"messages": row.messages, "images": row.images, "prompt_record": row.prompt_record}
        for row in rows(read_config(words[0]))
    )
    print(f"{write_rows(words[1], made):,} prompts in {words[1]}")


register()
if __name__ == "__main__":
    main(sys.argv[1:])
