"""How much of everything. On two cores a training reads about a hundred tokens a second, so there is little of it."""

from __future__ import annotations

import msgspec


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a demo. The defaults take five to seven minutes on two calm cores."""

    dialogues: int | None = None  # of the bundled corpus; None: all English ones
    rounds: int = 2  # that equation 1 draws of each
    judge_items: int = 6  # what the judge learns from, in steps of `judge_batch`
    judge_batch: int = 2
    sft_items: int = 8
    sft_batch: int = 2
    prompts: int = 6  # that GRPO may ask
    grpo_steps: int = 3
    grpo_batch: int = 1  # prompts a step
    group: int = 4  # outputs a prompt, as in the paper
    completion: int = 256  # tokens of an output at most
    moments: int = 6  # that both models answer
    pinned: int = 6  # outputs asked for to see whether pins are kept: a free one, the stages, some strategies
    longest: int = 90  # words of a history: short ones, because reading is what takes the time
    seed: int = 0
