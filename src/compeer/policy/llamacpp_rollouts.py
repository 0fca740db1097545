"""What must hold so that outputs written by another program than the trainer's are outputs of the trained policy.

Truncated importance sampling: outputs were sampled by another program than the one that is trained.

The same weights give slightly different probabilities there, so the outputs come from a distribution q that is near
the policy p but is not p. The policy gradient is an average over p. Weighting each token with

    w = min(p(token) / q(token), C)

makes an average over q out of it, and cutting at C (2 by default) keeps a token that q thought nearly impossible from
ruling a step. What is cut away is a bias; how much there is to correct, and how much is cut, is logged in every step
under the names that TRL uses for vLLM (`sampling/…`).

TRL has this correction for vLLM only, with another forward pass for p. Where every output is used in one optimizer step
that pass is not needed: the loss computes p itself. So the weights are put on the advantages in between, which is the
same: each of TRL's losses but one is proportional to the advantage of a token. Where outputs are used for several
steps, TRL does compute p as it was at sampling, and that p is taken.

The loss of a group without computing its prompt once for every output.

All outputs of a group begin with the same prompt, and TRL passes each of them through the model from its first token.
On a CPU it also projects every token of the prompt onto the vocabulary, only to throw the result away. Here a prompt
goes through the model once; its keys and values, with their gradients, serve all its outputs; and only the tokens of
outputs are projected. The log-probabilities, the entropies and the gradients are the same up to rounding, for less
work: with prompts as long as the contract's, several times less.

It is put in the place of the head that TRL fuses to the model (`add_fused_lm_head`, trl 1.16), for text models of the
Llama kind. A call that is anything else than a scoring of plain prompts and outputs goes TRL's own way.

llama.cpp as a sampler: one prompt in, several outputs with the log-probability of every token out.

The server runs in this process and is spoken to over its own HTTP side on the loopback interface, locked with a random
key: only that way it tells the ids of all tokens. The log-probabilities it tells are incomplete. A token that ends in
the middle of a character (an emoji is often three tokens, a Chinese character two) has none, so what is told has to be
laid beside the tokens again.

Rollouts by llama.cpp on a CPU, with the adapter as it is at this step, through TRL's `rollout_func`.

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
import math
import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.models.llama_server import LlamaServer, free_cores
from compeer.models.lora_gguf import write_adapter
from compeer.models.request import ModelError
from compeer.models.weights import locate

#: settings that leave the distribution as it is
_PLAIN = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}


def check_conditions(trainer: Any, who: str) -> None:
    """UserError when `who` would sample from another distribution than the one that is trained."""
    for name, plain in _PLAIN.items():
        value = getattr(trainer, name)
        if value != plain and (plain is not None or value not in (0, None)):
            raise UserError(
                f"{who}'s rollouts sample from the whole distribution, as the loss assumes; {name} is {value}. "
                f"Leave it at {plain}, or use rollout: transformers."
            )
    if trainer.args.generation_kwargs:
        raise UserError(f"generation_kwargs are for transformers; {who}'s rollouts do not know them. Leave them out.")
    if not math.isfinite(trainer.temperature) or trainer.temperature <= 0:
        raise UserError(f"Rollouts need a temperature above 0, not {trainer.temperature}.")


#: nats a token; rounding gives less than a tenth of it
STRANGERS = 1.0


def weights(trained: Any, sampled: Any, mask: Any, most: float = 2.0) -> Any:
    """p/q for each token, cut at `most`; 1 where the sampler told nothing (NaN) or nothing is trained."""
    import torch

    ratio = torch.exp((trained - sampled).double()).to(trained.dtype)
    known = mask.bool() & ~torch.isnan(sampled)
    return torch.where(known, ratio.clamp(max=most), torch.ones_like(ratio))


def correct(trainer: Any, most: float = 2.0) -> None:
    """Have this GRPOTrainer weight its loss whenever a batch comes with log-probabilities of the sampler."""
    if trainer.use_vllm:
        raise UserError("This run samples with vLLM, which TRL corrects itself; leave out the other rollouts.")
    if trainer.loss_type == "vespo":
        raise UserError("The loss vespo weights sequences itself and cannot be corrected here. Choose grpo or dapo.")
    if most < 1:
        raise UserError(f"The correction cannot be cut below 1, where nothing differs; it says {most}.")
    plain_loss, plain_scores = trainer._compute_loss, trainer._get_per_token_logps_and_entropies
    rows: dict[str, Any] | None = None

    def loss(model: Any, inputs: dict[str, Any]) -> Any:
        nonlocal rows
        rows = dict(inputs)  # the same batch may come again, with its advantages as they were
        try:
            return plain_loss(model, rows)
        finally:
            rows = None

    def scores(*args: Any, **kwargs: Any) -> Any:
        found = plain_scores(*args, **kwargs)
        if rows is not None and rows.get("sampling_per_token_logps") is not None:
            old = rows.get("old_per_token_logps")
            _weight(trainer, rows, (found[0] if old is None else old).detach(), most)
        return found

    trainer._compute_loss, trainer._get_per_token_logps_and_entropies = loss, scores


def _weight(trainer: Any, rows: dict[str, Any], trained: Any, most: float) -> None:
    """Put the weights on the advantages of the batch that the loss is about to use."""
    mask = rows["completion_mask"]
    if "tool_mask" in rows:
        mask = mask * rows["tool_mask"]
    sampled = rows["sampling_per_token_logps"]
    _check_same(trained, sampled, mask)
    found = weights(trained, sampled, mask, most)
    advantages = rows["advantages"]
    rows["advantages"] = (advantages[:, None] if advantages.dim() == 1 else advantages) * found
    _log(trainer, trained, sampled, mask, found, most)


def _check_same(trained: Any, sampled: Any, mask: Any) -> None:
    """Two programs with the same weights are never this far apart; a correction would only hide the mistake."""
    import torch

    apart = (trained - sampled)[mask.bool() & ~torch.isnan(sampled)].abs()
    if apart.numel() and float(apart.mean()) > STRANGERS:
        raise UserError(
            f"The sampler's log-probabilities are {float(apart.mean()):.1f} away from the trained model's on average: "
            "they do not have the same weights. Give the rollouts the file of the model that is trained."
        )


def _log(trainer: Any, trained: Any, sampled: Any, mask: Any, found: Any, most: float) -> None:
    import torch

    known = mask.bool() & ~torch.isnan(sampled)
    apart, ratio = (trained - sampled)[known].abs(), found[known]
    if not apart.numel():  # all ranks must gather
        apart, ratio = found.new_zeros(1), found.new_ones(1)
    values = {
        "sampling_logp_difference/mean": (apart.mean(), "mean"),
        "sampling_logp_difference/max": (apart.max(), "max"),
        "importance_sampling_ratio/min": (ratio.min(), "min"),
        "importance_sampling_ratio/mean": (ratio.mean(), "mean"),
        "importance_sampling_ratio/max": (ratio.max(), "max"),
        "cut": ((ratio >= most).float().mean(), "mean"),
        "untold": (1 - known.sum() / mask.sum().clamp(min=1), "mean"),
        # the share of the tokens that would be worth as much without weights
        "effective": (ratio.sum() ** 2 / (ratio**2).sum() / len(ratio), "mean"),
    }
    metrics = trainer._metrics["train" if trainer.model.training else "eval"]
    for name, (value, how) in values.items():
        gathered = trainer.accelerator.gather(value.float())
        metrics[f"sampling/{name}"].append(float(getattr(gathered, how)()))


_SCORING_PLAIN = {"input_ids", "attention_mask", "labels"}


def share_prompts(trainer: Any) -> bool:
    """Have this trainer's model score a group with its prompt computed once. False where it stays as it was."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    if base.config.model_type != "llama" or base.is_gradient_checkpointing:
        return False
    fused = base.forward

    def forward(*args: Any, fused_lm_head: bool = False, **kwargs: Any) -> Any:
        given = {name: value for name, value in kwargs.items() if value is not None}  # peft names all it knows
        given.pop("return_dict", None)
        if fused_lm_head and not args and set(given) == _SCORING_PLAIN:
            return _scored(base, trainer.temperature, **given)
        return fused(*args, fused_lm_head=fused_lm_head, **kwargs)

    base.forward = forward
    return True


def _scored(base: Any, temperature: float, input_ids: Any, attention_mask: Any, labels: Any) -> Any:
    """What TRL's head returns, for the columns of the outputs alone. Prompts are padded on the left, outputs on the
    right, so that every output begins in the same column."""
    from trl.kernels.chunked_logprob import ChunkedLogProbFunction
    from trl.trainer.utils import _CHUNKED_LOGPROB_CHUNK_SIZE, FusedCausalLMOutput

    scored = labels != -100
    begin = int(scored.any(0).int().argmax())
    hidden = _hidden(base.model, input_ids, attention_mask, begin)
    scored, labels = scored[:, begin:], labels[:, begin:]
    head = base.get_output_embeddings()
    logprobs, entropy, *_ = ChunkedLogProbFunction.apply(
        hidden[scored],
        head.weight,
        head.bias,
        labels[scored],
        temperature,
        _CHUNKED_LOGPROB_CHUNK_SIZE,
        None,
        1.0,
        ("log_probs", "entropy"),
    )
    spread = [value.new_zeros(scored.shape).masked_scatter(scored, value) for value in (logprobs, entropy)]
    loss = -spread[0].sum() / scored.sum().clamp(min=1)
    return FusedCausalLMOutput(loss=loss, log_probs=spread[0], entropy=spread[1], label_mask=scored)


def _hidden(body: Any, ids: Any, mask: Any, begin: int) -> Any:
    """The last hidden states from which the tokens of the outputs are told: rows x output tokens x width."""
    import torch

    first = int(mask[:, :begin].any(0).int().argmax())  # columns that are padding everywhere
    ids, mask, begin = ids[:, first:], mask[:, first:], begin - first
    prompts = torch.stack([ids[:, :begin], mask[:, :begin]], 1)
    different, which = torch.unique(prompts, dim=0, return_inverse=True)
    read = body(input_ids=different[:, 0], attention_mask=different[:, 1], use_cache=True)
    before = read.last_hidden_state[which, -1:]
    if ids.size(1) == begin + 1:
        return before
    memory = read.past_key_values
    memory.batch_select_indices(which)
    written = body(
        input_ids=ids[:, begin:-1], attention_mask=mask[:, :-1], past_key_values=memory, use_cache=True
    ).last_hidden_state
    return torch.cat([before, written], 1)


_FIELDS = ["index", "tokens", "completion_probabilities"]


class Sample(msgspec.Struct, frozen=True):
    """An output: the ids of its tokens, the end token included, and their log-probabilities, NaN where untold."""

    ids: list[int]
    logprobs: list[float]


class Sampler:
    """Draws outputs from an open llama.cpp server with these weights and this adapter."""

    def __init__(self, weights: Path, adapter: Path | None, *, slots: int, context: int, threads: int) -> None:
        self.slots, self.context = slots, context
        self._server = LlamaServer(weights, adapter, slots=slots, context=context, brief=True, n_threads=threads)
        loaded = self._server.request("GET", "/lora-adapters")
        if adapter and [entry["scale"] for entry in loaded] != [1.0]:
            raise ModelError(f"llama.cpp did not load the adapter {adapter}: it has {loaded}.")

    def sample(
        self,
        ids: Sequence[int],
        count: int,
        *,
        seed: int,
        tokens: int,
        temperature: float = 1.0,
        ignore_end: bool = False,
    ) -> list[Sample]:
        """`count` outputs of at most `tokens` tokens for one prompt, from the whole distribution at `temperature`."""
        answer = self._server.request(
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

    def close(self) -> None:
        self._server.close()


def _sample(output: dict[str, Any]) -> Sample:
    ids = [int(token) for token in output["tokens"]]
    told = output.get("completion_probabilities", [])  # absent where there is nothing to tell
    values = [entry["logprob"] if "logprob" in entry else _server_log(entry["prob"]) for entry in told]
    logprobs = [math.nan] * len(ids)
    for place, value in zip(places(ids, [int(entry["id"]) for entry in told]), values, strict=True):
        if place is not None:
            logprobs[place] = float(value)
    return Sample(ids, logprobs)


def places(tokens: Sequence[int], told: Sequence[int]) -> list[int | None]:
    """Where each of `told`, a part of `tokens` in the same order, stands in it; None where there are several ways.

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


def _server_log(probability: float) -> float:
    return math.log(probability) if probability > 0 else math.nan


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
        self._server: Sampler | None = None
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

    def _current(self, trainer: Any, slots: int, context: int) -> Sampler:
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
        self._server = Sampler(
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
    check_conditions(trainer, "llama.cpp")
    if not hasattr(trainer.accelerator.unwrap_model(trainer.model), "peft_config"):
        raise UserError(
            "llama.cpp's rollouts follow a LoRA adapter; this run trains the whole model. Set lora, or use "
            "rollout: transformers."
        )


def share_of_cores() -> int:
    """The cores that are free now, but not those that the run's other processes will want at the same time."""
    if os.environ.get("COMPEER_THREADS"):
        return free_cores()
    return max(1, min(free_cores(), (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


def _seed(key: str, place: int) -> int:
    """A seed for an output and those after it: llama.cpp adds one for each further output of a prompt."""
    digest = hashlib.sha256(f"{key} {place}".encode()).digest()
    return int.from_bytes(digest[:4], "little") % (2**31 - 1024)
