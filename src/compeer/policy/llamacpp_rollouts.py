"""Rollouts by llama.cpp on a CPU, with the adapter as it is at this step, through TRL's `rollout_func`.

transformers decodes the embedded model token by token at a fraction of what the machine can do, and that is most of a
CPU step of GRPO. llama.cpp reads the same weights as the trainer (quantised, where the trainer has them unpacked), and
after every step it is opened anew with the adapter of that step: writing it takes tens of milliseconds, opening about
half a second. The outputs of one prompt are decoded side by side and share the prompt.

    trainer = GRPOTrainer(model, rollout_func=llamacpp_rollout(), …)        # model: the embedded one with LoRA

- **Tokens are exact.** The prompt goes in as the ids that TRL makes, and ids come back; no text is encoded twice.
- **The distribution is the trained one**: the trainer's temperature and nothing else. Settings that cut or bend the
  distribution (top_p, top_k, min_p, a penalty) are refused, because the loss does not know them.
- **The rest is corrected.** llama.cpp rounds activations to 8 bits, so it samples from a slightly different
  distribution. Each token comes with its log-probability there, and the loss is weighted with it
  (`trl_internals.correct`).
- **A run can be repeated and resumed.** Draws depend on the seed, the step, the process and the place in the batch.
  Rounding depends on what is decoded side by side and on what llama.cpp has read before. So one prompt is decoded at a
  time, and outputs are the same to the bit. The number of threads does not matter: it is chosen anew in each step from
  the cores that are free.

llama.cpp also ends a turn at the model's other end tokens (for SmolLM2 `<|endoftext|>` and `<reponame>`); TRL counts
such an output as cut off. A token that leaves a character half written (an emoji is often three tokens, a Chinese
character two) is reported without its log-probability; it is NaN here, and is not corrected.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.models.llama_server import LlamaServer, free_cores
from compeer.models.lora_gguf import write_adapter
from compeer.models.request import ModelError
from compeer.models.weights import locate
from compeer.policy.trl_internals import Ids, correct, prompt_ids, share_prompts

#: settings that leave the distribution as it is
_PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}


class LlamaCppRollout:
    """TRL's `rollout_func` for a Llama model with LoRA whose base is the file `weights`, by default the embedded one.

    `ignore_end`: write until the limit, for measuring. It runs on all free cores, since torch waits meanwhile;
    $COMPEER_THREADS overrides.
    """

    def __init__(self, weights: Path | None = None, *, ignore_end: bool = False) -> None:
        self.weights, self.ignore_end = weights, ignore_end
        self._folder = tempfile.TemporaryDirectory(prefix="compeer-rollout-")  # for the adapter of the step
        self._server: LlamaServer | None = None
        self._trainer: Any = None
        self._now: tuple[int, bool] | None = None  # the step, and whether it is for training
        self._calls = 0

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """One output for each prompt; equal prompts beside each other are a group."""
        ids = prompt_ids(trainer, prompts)
        written, logprobs = self.generate(ids, trainer)
        return {"prompt_ids": ids, "completion_ids": written, "logprobs": logprobs}

    def generate(self, prompts: list[Ids], trainer: Any) -> tuple[list[Ids], list[list[float]]]:
        """What the policy adds to each sequence of tokens, and the log-probability of each token it added."""
        if self._trainer is not trainer:
            check(trainer)
            correct(trainer)
            share_prompts(trainer)
            self._trainer, self._now = trainer, None
        groups = [(ids, len(list(same))) for ids, same in itertools.groupby(prompts)]
        slots = max(count for _, count in groups)
        longest = max(len(ids) for ids, _ in groups) + 1
        server = self._current(trainer, slots, longest + slots * (longest + trainer.max_completion_length))
        self._calls += 1
        # what the draws depend on: also which call of this step it is, where a step takes several
        key = f"{trainer.args.seed} {self._now} {trainer.accelerator.process_index} {self._calls}"
        samples: list[Sample] = []
        for ids, count in groups:
            samples += draw(
                server,
                ids,
                count,
                seed=_seed(key, len(samples)),
                tokens=trainer.max_completion_length,
                temperature=trainer.temperature,
                ignore_end=self.ignore_end,
            )
        return [sample.ids for sample in samples], [sample.logprobs for sample in samples]

    def close(self) -> None:
        """Stop llama.cpp and remove the adapter."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._folder.cleanup()

    def _current(self, trainer: Any, slots: int, context: int) -> LlamaServer:
        """llama.cpp with the adapter of this step. It is opened anew for evaluation, so that training is unaffected."""
        now = (int(trainer.state.global_step), bool(trainer.model.training))
        found = self._server
        if found is not None and self._now == now and found.slots >= slots and found.context >= context:
            return found
        if found is not None:
            found.close()
        model = trainer.accelerator.unwrap_model(trainer.model)
        adapter = write_adapter(model, Path(self._folder.name) / "adapter.gguf")
        cores = share_of_cores()
        self._server = LlamaServer(
            self.weights or locate(), [adapter], slots=slots, context=context, brief=True, n_threads=cores
        )
        loaded = self._server.request("GET", "/lora-adapters")
        if [entry["scale"] for entry in loaded] != [1.0]:
            raise ModelError(f"llama.cpp did not load the adapter {adapter}: it has {loaded}.")
        if self._now != now:
            self._now, self._calls = now, 0
        return self._server


def check(trainer: Any) -> None:
    """UserError when llama.cpp would sample from another distribution than the one that is trained."""
    for name, plain in _PLAIN.items():
        value = getattr(trainer, name)
        if value != plain and (plain is not None or value not in (0, None)):
            raise UserError(
                f"llama.cpp's rollouts sample from the whole distribution, as the loss assumes; {name} is {value}. "
                f"Leave it at {plain}, or use rollout: transformers."
            )
    if trainer.args.generation_kwargs:
        raise UserError("generation_kwargs are for transformers; llama.cpp's rollouts ignore them. Leave them out.")
    if not math.isfinite(trainer.temperature) or trainer.temperature <= 0:
        raise UserError(f"Rollouts need a temperature above 0, not {trainer.temperature}.")
    if not hasattr(trainer.accelerator.unwrap_model(trainer.model), "peft_config"):
        raise UserError(
            "llama.cpp's rollouts follow a LoRA adapter; this run trains the whole model. Set lora, or use "
            "rollout: transformers."
        )


def share_of_cores() -> int:
    """Free cores, at most this process's share of all cores."""
    if os.environ.get("COMPEER_THREADS"):
        return free_cores()
    return max(1, min(free_cores(), (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


def _seed(key: str, place: int) -> int:
    """Seed of the first output of a prompt; llama.cpp adds one for each further output."""
    digest = hashlib.sha256(f"{key} {place}".encode()).digest()
    return int.from_bytes(digest[:4], "little") % (2**31 - 1024)


_FIELDS = ["index", "tokens", "completion_probabilities"]


class Sample(msgspec.Struct, frozen=True):
    """An output: the ids of its tokens, the end token included, and their log-probabilities, NaN where unknown."""

    ids: list[int]
    logprobs: list[float]


def draw(
    server: LlamaServer,
    ids: Sequence[int],
    count: int,
    *,
    seed: int,
    tokens: int,
    temperature: float = 1.0,
    ignore_end: bool = False,
) -> list[Sample]:
    """`count` outputs of at most `tokens` tokens for one prompt, from the whole distribution at `temperature`."""
    answer = server.request(
        "POST",
        "/completion",
        {
            "prompt": list(ids),
            "n_cmpl": count,
            "n_predict": tokens,
            "seed": seed,
            "temperature": temperature,
            "samplers": ["temperature"],
            "ignore_eos": ignore_end,
            "cache_prompt": True,
            "return_tokens": True,
            "n_probs": 1,
            # by default the probabilities are those before the temperature
            "post_sampling_probs": temperature != 1.0,
            "response_fields": _FIELDS,
        },
    )
    found = sorted(answer if isinstance(answer, list) else [answer], key=lambda output: int(output["index"]))
    if len(found) != count or not all(output["tokens"] for output in found):
        raise ModelError(f"llama.cpp was asked for {count} outputs and gave {len(found)}, or an empty one.")
    return [_sample(output) for output in found]


def _sample(output: dict[str, Any]) -> Sample:
    ids = [int(token) for token in output["tokens"]]
    told = output.get("completion_probabilities", [])  # absent where there is nothing to tell
    values = [entry["logprob"] if "logprob" in entry else _log(entry["prob"]) for entry in told]
    logprobs = [math.nan] * len(ids)
    for place, value in zip(places(ids, [int(entry["id"]) for entry in told]), values, strict=True):
        if place is not None:
            logprobs[place] = float(value)
    return Sample(ids, logprobs)


def places(tokens: Sequence[int], told: Sequence[int]) -> list[int | None]:
    """The index in `tokens` of each of `told`, which is a subsequence of `tokens`; None where it is ambiguous.

    >>> places([5, 6, 7, 8], [5, 7, 8])
    [0, 2, 3]
    >>> places([5, 6, 6, 8], [5, 6, 8])  # the first or the second 6?
    [0, None, 3]
    """
    first = _earliest(tokens, told)
    last = [len(tokens) - 1 - place for place in _earliest(tokens[::-1], told[::-1])][::-1]
    return [one if one == other else None for one, other in zip(first, last, strict=True)]


def _earliest(tokens: Sequence[int], told: Sequence[int]) -> list[int]:
    found: list[int] = []
    for token in told:
        begin = found[-1] + 1 if found else 0
        try:
            found.append(tokens.index(token, begin))
        except ValueError:
            raise ModelError("llama.cpp told the probability of a token that it did not write.") from None
    return found


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else math.nan
