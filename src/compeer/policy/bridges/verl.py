"""The reward for verl, which scores one output at a time (read against 0.9.1; see docs/policy.md for older ones).

Equation 5 needs the whole group. verl's advantage step sees numbers, not texts, so the group has to meet before it:

    compute_score        asynchronous. Outputs to one prompt wait for one another (`Meeting`), are scored together, and
                         each gets its own reward. verl must run one reward worker, or a group would be spread over
                         several: reward.num_workers=1. It spends its time waiting for the judge, so one is enough
    compute_scores       for the reward manager "batch" of verl 0.5 to 0.7, which hands over a whole batch
    compute_total        one output by itself: the total before equation 5, for any number of workers

All take what verl passes; the prompt's record comes in `extra_info`, with the size of its group.

    python -m compeer.policy.bridges.verl configs/policy/laptop.yaml train.parquet
    COMPEER_REWARD=reward.yaml python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo reward.num_workers=1 \\
        reward.custom_reward_function.path=.../bridges/verl.py reward.custom_reward_function.name=compute_score …
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.policy.bridges.environment import PATIENCE, Meeting, opened, reward_numbers, rows
from compeer.policy.composite import CompositeReward, Scored, read_record

Extra = Mapping[str, Any]
_meetings: dict[tuple[int, float, str | None], Meeting[str, Scored]] = {}


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Extra | None = None,
    *,
    config: str | None = None,
    patience: float = PATIENCE,
    **kwargs: Any,
) -> dict[str, float]:
    """verl's signature, with equation 5. `config` and `patience` can be given as reward_kwargs."""
    prompt_record, group = _record(extra_info)
    reward = opened(config)
    key = (id(asyncio.get_running_loop()), patience, config)
    if key not in _meetings:
        _meetings[key] = Meeting(lambda record, outputs: reward.score([(read_record(record), outputs)]), patience)
    return reward_numbers(await _meetings[key].join(prompt_record, group, solution_str))


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[Any],
    extra_infos: Sequence[Extra],
    *,
    config: str | None = None,
    **kwargs: Any,
) -> list[dict[str, float]]:
    """The signature of verl's batch reward manager: a whole batch, its groups in any order."""
    places: dict[str, list[int]] = {}
    sizes: dict[str, int] = {}
    for place, extra in enumerate(extra_infos):
        prompt_record, sizes[prompt_record] = _record(extra)
        places.setdefault(prompt_record, []).append(place)
    groups: list[tuple[str, list[int]]] = []
    for prompt_record, found in places.items():
        size = sizes[prompt_record] if len(found) % sizes[prompt_record] == 0 else len(found)
        groups += [(prompt_record, found[at : at + size]) for at in range(0, len(found), size)]
    rows = opened(config).score(
        [(read_record(prompt_record), [solution_strs[at] for at in found]) for prompt_record, found in groups]
    )
    order = [place for _, found in groups for place in found]
    by_place = {place: reward_numbers(row) for place, row in zip(order, rows, strict=True)}
    return [by_place[place] for place in range(len(solution_strs))]


def compute_total(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Extra | None = None,
    *,
    config: str | None = None,
    **kwargs: Any,
) -> dict[str, float]:
    """verl's signature for one output by itself: the total before equation 5."""
    prompt_record, _ = _record(extra_info)
    whole = opened(config)
    alone = CompositeReward(whole.judge, whole.embedder, msgspec.structs.replace(whole.settings, reweight=False))
    return reward_numbers(alone.score([(read_record(prompt_record), [solution_str])])[0])


def _record(extra: Extra | None) -> tuple[str, int]:
    if not extra or "prompt_record" not in extra:
        raise UserError(
            "A row has no `prompt_record` in its extra_info. Make the dataset with "
            "python -m compeer.policy.bridges.verl."
        )
    return str(extra["prompt_record"]), max(1, int(extra.get("group") or 1))


def main(words: Sequence[str]) -> None:
    """CONFIG OUT [GROUP]: the prompts of a GRPO configuration as a dataset of verl; GROUP 1 is for validation."""
    import pyarrow as pa
    from pyarrow import parquet

    from compeer.policy.grpo.config import read_config

    if len(words) not in (2, 3):
        raise SystemExit("python -m compeer.policy.bridges.verl CONFIG OUT.parquet [GROUP]")
    config = read_config(words[0])
    group = int(words[2]) if len(words) == 3 else config.group
    made = [
        {
            "data_source": "compeer",
            "prompt": row["messages"],
            "images": row["images"],
            "ability": "support",
            "reward_model": {"style": "rule", "ground_truth": read_record(row["prompt_record"]).reference},
            "extra_info": {"prompt_record": row["prompt_record"], "group": group, "index": index},
        }
        for index, row in enumerate(rows(config))
    ]
    parquet.write_table(pa.Table.from_pylist(made), words[1])
    print(f"{len(made):,} prompts in {words[1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
