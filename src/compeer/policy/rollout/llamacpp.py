"""Rollouts by llama.cpp on a CPU, with the adapter as it is at this step, through TRL's `rollout_func`.

transformers decodes the embedded model token by token at a fraction of what the machine can do, and that is most of a
CPU step of GRPO. llama.cpp reads the same weights as the trainer (quantized, where the trainer has them unpacked), and
after every step it is started anew with the adapter of that step: writing it takes tens of milliseconds, starting about
half a second. The outputs of one prompt are decoded side by side and share the prompt.

    trainer = GRPOTrainer(model, rollout_func=llamacpp_rollout(), …)        # model: the embedded one with LoRA

- **Tokens are exact.** The prompt goes in as the ids that TRL makes, and ids come back; no text is encoded twice.
- **The distribution is the trained one**: the trainer's temperature and nothing else. Settings that cut or bend the
  distribution (top_p, top_k, min_p, a penalty) are refused, because the loss does not know them.
- **The rest is corrected.** llama.cpp rounds activations to 8 bits, so it samples from a slightly different
  distribution. Each token comes with its log-probability there, and `correction` weights the loss with it. TRL
  has such a correction, but only for vLLM; given by anybody else, log-probabilities are not used at all.
- **A run can be repeated and resumed.** Draws depend on the seed, the step, the process and the place in the batch.
  Rounding depends on what is decoded side by side and on what llama.cpp has read before, so as long as one prompt is
  decoded at a time (`slots` no larger than the group; the default) outputs are the same to the bit. The number of
  threads does not matter: it is chosen anew in each step from the cores that are free.

llama.cpp also ends a turn at the model's other end tokens (for SmolLM2 `<|endoftext|>` and `<reponame>`); TRL counts
such an output as cut off. A token that leaves a character half written is reported without its log-probability; it is
NaN here, and is not corrected.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from compeer.errors import UserError
from compeer.models.embedded import threads
from compeer.models.lora_gguf import write_adapter
from compeer.models.weights import locate
from compeer.policy.rollout import conditions
from compeer.policy.rollout.correction import correct
from compeer.policy.rollout.scoring import share_prompts
from compeer.policy.rollout.server import Sample, Server

Ids = list[int]


def llamacpp_rollout(
    weights_gguf: Path | None = None,
    *,
    slots: int | None = None,
    threads: int | None = None,
    adapter_dir: Path | None = None,
    most: float = 2.0,
    ignore_end: bool = False,
) -> Rollout:
    """TRL's `rollout_func` for a Llama model with LoRA whose base is the file `weights_gguf`, by default the embedded.

    `slots`: outputs decoded side by side, by default those of one prompt. `threads`: by default all free cores, since
    torch waits meanwhile; $COMPEER_THREADS overrides. `adapter_dir`: where the adapter of the step is written, by
    default a temporary folder. `most`: what the correction is cut at. `ignore_end`: write until the limit.
    """
    return Rollout(weights_gguf, slots, threads, adapter_dir, most, ignore_end)


class Rollout:
    """Called by TRL with the prompts of a generation batch; each process samples its own rows."""

    def __init__(
        self,
        weights: Path | None,
        slots: int | None,
        threads: int | None,
        adapter_dir: Path | None,
        most: float,
        ignore_end: bool,
    ) -> None:
        self.weights, self.slots, self.threads, self.most, self.ignore_end = weights, slots, threads, most, ignore_end
        self._kept = None if adapter_dir else tempfile.TemporaryDirectory(prefix="compeer-rollout-")
        self._folder = adapter_dir or Path(self._kept.name if self._kept else "")
        self._server: Server | None = None
        self._trainer: Any = None
        self._now: tuple[int, bool] | None = None  # the step, and whether it is for training
        self._calls = 0

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """One output for each prompt; equal prompts beside each other are a group."""
        ids, images, _ = trainer._tokenize_prompts(list(prompts))  # what TRL itself would generate from
        if images is not None:
            raise UserError("llama.cpp's rollouts are for text; this batch has images. Use rollout: transformers.")
        written, logprobs = self.generate(ids, trainer)
        return {"prompt_ids": ids, "completion_ids": written, "logprobs": logprobs}

    def generate(self, prompts: list[Ids], trainer: Any) -> tuple[list[Ids], list[list[float]]]:
        """What the policy adds to each sequence of tokens, and the log-probability of each token it added."""
        self._attach(trainer)
        groups = [(ids, len(list(same))) for ids, same in itertools.groupby(prompts)]
        slots = self.slots or max(count for _, count in groups)
        longest = max(len(ids) for ids, _ in groups) + 1
        server = self._current(trainer, slots, longest + slots * (longest + trainer.max_completion_length))
        key = self._key(trainer)
        jobs, place = [], 0
        for ids, count in groups:
            for start in range(0, count, slots):
                jobs.append((ids, min(slots, count - start), _seed(key, place + start)))
            place += count

        def work(job: tuple[Ids, int, int]) -> list[Sample]:
            ids, count, seed = job
            return server.sample(
                ids,
                count,
                seed=seed,
                tokens=trainer.max_completion_length,
                temperature=trainer.temperature,
                ignore_end=self.ignore_end,
            )

        with ThreadPoolExecutor(max(1, slots // max(count for _, count, _ in jobs))) as pool:
            samples = list(itertools.chain.from_iterable(pool.map(work, jobs)))
        return [sample.ids for sample in samples], [sample.logprobs for sample in samples]

    def close(self) -> None:
        """Stop llama.cpp and remove the adapter, unless its folder was given."""
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._kept:
            self._kept.cleanup()

    def _attach(self, trainer: Any) -> None:
        """Once: refuse what would train on another distribution, and give the trainer its correction."""
        if self._trainer is trainer:
            return
        check(trainer)
        correct(trainer, most=self.most)
        share_prompts(trainer)
        self._trainer, self._now = trainer, None

    def _current(self, trainer: Any, slots: int, context: int) -> Server:
        """llama.cpp with the adapter of this step, begun anew for an evaluation so that training does not notice it."""
        now = (int(trainer.state.global_step), bool(trainer.model.training))
        server = self._server
        if server is not None and self._now == now and server.slots >= slots and server.context >= context:
            return server
        if server is not None:
            server.close()
        model = trainer.accelerator.unwrap_model(trainer.model)
        self._folder.mkdir(parents=True, exist_ok=True)
        adapter = write_adapter(model, self._folder / f"adapter-{trainer.accelerator.process_index}.gguf")
        self._server = Server(
            self.weights or locate(), adapter, slots=slots, context=context, threads=self.threads or share_of_cores()
        )
        if self._now != now:
            self._now, self._calls = now, 0
        return self._server

    def _key(self, trainer: Any) -> str:
        """What the draws depend on: also which call of this step it is, where a step takes several."""
        self._calls += 1
        return f"{trainer.args.seed} {self._now} {trainer.accelerator.process_index} {self._calls}"


def check(trainer: Any) -> None:
    """UserError when llama.cpp would not write what the trained policy would."""
    conditions.check(trainer, "llama.cpp")
    if not hasattr(trainer.accelerator.unwrap_model(trainer.model), "peft_config"):
        raise UserError(
            "llama.cpp's rollouts follow a LoRA adapter; this run trains the whole model. Set lora, or use "
            "rollout: transformers."
        )


def share_of_cores() -> int:
    """The cores that are free now, but not those that the run's other processes will want at the same time."""
    if os.environ.get("COMPEER_THREADS"):
        return threads()
    return max(1, min(threads(), (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


def _seed(key: str, place: int) -> int:
    """A seed for an output and those after it: llama.cpp adds one for each further output of a prompt."""
    digest = hashlib.sha256(f"{key} {place}".encode()).digest()
    return int.from_bytes(digest[:4], "little") % (2**31 - 1024)
