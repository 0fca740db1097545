"""A GRPO step of the embedded model on a CPU: rollouts by llama.cpp against plain TRL, which generates by itself.

2 prompts x 4 outputs x 128 tokens, LoRA of rank 16 on all linear layers, a reward that costs nothing. Both arms run in
this process and take turns, and both ignore the end of a turn, so that they do the same work. A step is everything from
the prompts to the changed adapter: with llama.cpp also writing the adapter and starting it. Short prompts: with
the contract's instructions before them plain TRL's training half alone needs more than 24 GB.
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from benchmarks.measure import Ratio
from compeer.policy.llamacpp_rollouts import LlamaCppRollout
from compeer.training.model import Lora, ModelSettings, arguments, open_model

# read when torch loads OpenMP, which llama.cpp then shares: see compeer.models.llama_server
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

SAID = (
    "I just lost my job and I feel worthless. What can I do now?",
    "My girlfriend broke up with me last week and I cannot sleep.",
)
OURS, PLAIN = "ours", "plain TRL"
SETTINGS = ModelSettings(base="embedded:small", lora=Lora(), device="cpu")


class Step(msgspec.Struct, frozen=True):
    """Seconds of one step, and of its parts."""

    sampling: float
    training: float

    @property
    def whole(self) -> float:
        return self.sampling + self.training


class Arm:
    """A trainer that is driven step by step, so that two of them can take turns."""

    def __init__(self, folder: str, prompts: list[Any], rollout: Any, tokens: int) -> None:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        opened = open_model(SETTINGS)
        self.trainer = GRPOTrainer(
            opened.model,
            reward_funcs=_places,
            args=GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=8,
                num_generations=4,
                max_completion_length=tokens,
                learning_rate=1e-6,
                loss_type="grpo",
                generation_kwargs=None if rollout else {"min_new_tokens": tokens},
                **arguments(SETTINGS),
            ),
            train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts]),
            processing_class=opened.tokenizer,
            rollout_func=rollout,
        )
        self.trainer.current_gradient_accumulation_steps = 1
        self.trainer.create_optimizer()
        self.batches: Iterator[Any] = itertools.cycle(self.trainer.get_train_dataloader())
        self.tokens = tokens

    def step(self) -> Step:
        trainer, sampling = self.trainer, 0.0
        generate = type(trainer)._generate.__get__(trainer)

        def timed(prompts: list[Any]) -> Any:
            nonlocal sampling
            begun = time.perf_counter()
            made = generate(prompts)
            sampling = time.perf_counter() - begun
            assert all(len(ids) == self.tokens for ids in made[1]), "both arms write the same number of tokens"
            return made

        trainer._generate = timed
        batch = next(self.batches)
        begun = time.perf_counter()
        trainer.training_step(trainer.model, batch, None)
        trainer.accelerator.clip_grad_norm_(trainer.model.parameters(), 1.0)
        trainer.optimizer.step()
        trainer.model.zero_grad()
        trainer.state.global_step += 1
        return Step(sampling, time.perf_counter() - begun - sampling)


def run(rounds: int = 2, tokens: int = 128) -> list[Ratio]:
    prompts = [[{"role": "user", "content": said}] for said in SAID]
    rollout = LlamaCppRollout(ignore_end=True)
    steps: dict[str, list[Step]] = {OURS: [], PLAIN: []}
    with tempfile.TemporaryDirectory() as folder:
        arms = {name: Arm(folder, prompts, rollout if name == OURS else None, tokens) for name in steps}
        for number in range(rounds + 1):  # the first is for warming up
            for name, arm in arms.items():
                taken = arm.step()
                print(f"rollout: {name} {taken}", file=sys.stderr, flush=True)
                if number:
                    steps[name].append(taken)
        rollout.close()
    return [
        Ratio(
            what=f"GRPO step on a CPU{': ' * bool(part)}{part}",
            ours=statistics.median(getattr(one, part or "whole") for one in steps[OURS]),
            theirs=statistics.median(getattr(one, part or "whole") for one in steps[PLAIN]),
            against=PLAIN,
            unit="s",
            wanted=None if part else 0.75,
            at_least=False,
        )
        for part in ("", "sampling", "training")
    ]


def _places(completions: list[Any], **_: Any) -> list[float]:
    return [float(place % 4) for place in range(len(completions))]
