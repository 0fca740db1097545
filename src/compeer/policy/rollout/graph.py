"""Rollouts by a decoder of our own, through TRL's `rollout_func`: every token of all outputs in one launch on a GPU.

    trainer = GRPOTrainer(model, rollout_func=graph_rollout(), …)        # model: of the Llama kind, with LoRA or whole

On a CPU nothing is launched together, but all outputs of a step share one reading of the weights.
The adapter is added to the weights at every step, in the precision of the weights, so outputs come from nearly the
trained distribution; `correction` weights the loss by what is left. A group's prompt is read once for writing and once
for scoring (`scoring`). Draws depend on the seed, the step, the process and the call, so a resumed run draws the same.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from typing import Any

from compeer.errors import UserError
from compeer.policy import llamacpp_rollouts as conditions
from compeer.policy.llamacpp_rollouts import correct, share_prompts

Ids = list[int]
_NEVER = -1  # no token
_ROUND = 256  # places are made in such portions, so that a longer prompt seldom needs new memory


def graph_rollout(*, most: float = 2.0, ignore_end: bool = False) -> Rollout:
    """TRL's `rollout_func`. `most`: what the correction is cut at. `ignore_end`: write until the limit."""
    return Rollout(most, ignore_end)


class Rollout:
    """Called by TRL with the prompts of a generation batch; each process writes its own rows."""

    def __init__(self, most: float, ignore_end: bool = False) -> None:
        self.most, self.ignore_end = most, ignore_end
        self._trainer: Any = None
        self._decoder: Any = None
        self._now: tuple[int, bool] | None = None  # the step, and whether it is for training
        self._calls = 0

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """One output for each prompt; equal prompts beside each other are read once."""
        ids, images, _ = trainer._tokenize_prompts(list(prompts))
        if images is not None:
            raise UserError("Graph rollouts are for text; this batch has images. Use rollout: transformers.")
        written, logprobs = self.generate(ids, trainer)
        return {"prompt_ids": ids, "completion_ids": written, "logprobs": logprobs}

    def generate(self, prompts: list[Ids], trainer: Any) -> tuple[list[Ids], list[list[float]]]:
        """What the policy adds to each sequence of tokens, and the log-probability of each token it added."""
        self._attach(trainer)
        groups = [(ids, len(list(same))) for ids, same in itertools.groupby(prompts)]
        which = [number for number, (_, count) in enumerate(groups) for _ in range(count)]
        tokens = trainer.max_completion_length
        decoder = self._current(trainer, len(prompts), max(len(ids) for ids, _ in groups) + tokens)
        self._calls += 1
        key = f"{trainer.args.seed} {self._now} {trainer.accelerator.process_index} {self._calls}"
        written = decoder.write(
            [ids for ids, _ in groups],
            which,
            tokens=tokens,
            temperature=trainer.temperature,
            end=_NEVER if self.ignore_end else trainer.processing_class.eos_token_id,
            seed=int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "little"),
        )
        return written.ids, written.logprobs

    def close(self) -> None:
        self._decoder = None

    def _attach(self, trainer: Any) -> None:
        """Once: refuse what would train on another distribution, and give the trainer its correction."""
        from compeer.policy.rollout.decoder import suits

        if self._trainer is trainer:
            return
        conditions.check_conditions(trainer, "The graph")
        base = _base(trainer)
        if not suits(base):
            raise UserError(
                f"Graph rollouts know models of the Llama kind, and this is {base.config.model_type}. "
                "Use rollout: transformers, or vLLM."
            )
        correct(trainer, most=self.most)
        share_prompts(trainer)
        self._trainer, self._now = trainer, None

    def _current(self, trainer: Any, rows: int, places: int) -> Any:
        """The decoder with room enough and the weights of this step."""
        from compeer.policy.rollout.decoder import Decoder

        now, base = (int(trainer.state.global_step), bool(trainer.model.training)), _base(trainer)
        made = self._decoder is None or self._decoder.rows != rows or self._decoder.places < places
        if made:
            self._decoder = None  # its memory first
            self._decoder = Decoder(base, rows=rows, places=-(-places // _ROUND) * _ROUND)
        if made or self._now != now:
            self._decoder.load(base)
        if self._now != now:
            self._now, self._calls = now, 0
        return self._decoder


def _base(trainer: Any) -> Any:
    model = trainer.accelerator.unwrap_model(trainer.model)
    return model.get_base_model() if hasattr(model, "get_base_model") else model
