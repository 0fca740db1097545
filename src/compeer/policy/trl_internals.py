"""Everything that reaches into TRL behind its public interface, in one place.

TRL has hooks for outputs of another program (`rollout_func`), but three things that such outputs need it does only for
vLLM, or not at all. `INTERNALS` lists each name that is used, with its reason; a test fails when one of them moves.

**Correction** (`correct`). Outputs that another program has sampled come from a distribution q that is near the policy
p but is not p: the same weights give slightly different probabilities there. The policy gradient is an average over p.
Weighting each token with

    w = min(p(token) / q(token), C)

makes an average over q out of it, and cutting at C (2 by default) keeps a token that q thought nearly impossible from
ruling a step. What is cut away is a bias; how much is corrected and how much is cut is logged in every step under the
names that TRL uses for vLLM (`sampling/…`). TRL has this correction for vLLM only, with another forward pass for p.
Where every output is used in one optimizer step that pass is not needed: the loss computes p itself. So the weights are
put on the advantages in between, which is the same: each of TRL's losses but one is proportional to the advantage of a
token. Where outputs are used for several steps, TRL does compute p as it was at sampling, and that p is taken.

**Shared prompts** (`share_prompts`). All outputs of a group begin with the same prompt, and TRL passes each of them
through the model from its first token. Here a prompt goes through the model once; its keys and values, with their
gradients, serve all its outputs; and only the tokens of outputs are projected onto the vocabulary. Log-probabilities,
entropies and gradients are the same up to rounding. Without it a step on a CPU takes 0.84 of plain TRL's time instead
of 0.74, and with prompts as long as the contract's several times as much memory. It replaces the head that TRL fuses
to the model, for text models of the Llama kind; any other call goes TRL's own way.

**The printed ratio** (`whole_ratio`). TRL has a ratio per token, or one per output that is normalised by its length.
Equation 2 is printed with the plain ratio of an output. Inside the loss the log-ratios are multiplied by the length,
which TRL's mean divides out again.

**Generation** (`prompt_ids`, `generate`). The tokens that TRL would generate from, and its own generation from tokens.

**vLLM in this process** (`vllm_engine`, `fold_pictures`, `keep_base`). TRL has settings for a few of the engine's
arguments only. It gives vLLM prompts in which every picture has been expanded to its tokens already, and vLLM expands
the first of them again (TRL issue 6294, open in 1.16). And it merges an adapter into its base to hand the weights over
and subtracts it again, which in bfloat16 does not give the base back: it would wander off, a little with every step.

**Seconds** (`time_steps`). Where the time of a step goes; TRL tells that to a few services only.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from compeer.errors import UserError

Ids = list[int]
#: names of TRL that are not public, and why each is needed
INTERNALS = {
    "trl.GRPOTrainer._compute_loss": "correct, whole_ratio: where a batch and its advantages enter the loss",
    "trl.GRPOTrainer._get_per_token_logps_and_entropies": (
        "correct, whole_ratio: p of every token, computed for the loss anyway"
    ),
    "trl.GRPOTrainer._tokenize_prompts": "prompt_ids: the very tokens that TRL would generate from",
    "trl.GRPOTrainer._generate_single_turn": "generate: TRL's own generation, from tokens, for conversations",
    "trl.GRPOTrainer._generate": "time_steps: everything that writes outputs",
    "trl.GRPOTrainer._calculate_rewards": "time_steps: everything that judges them",
    "trl.generation.vllm_generation.VLLMGeneration.generate": "fold_pictures: what vLLM is asked",
    "trl.generation.vllm_generation.VLLMGeneration.sync_weights": "time_steps: the hand-over of the weights",
    "trl.kernels.chunked_logprob.ChunkedLogProbFunction": "share_prompts: log-probabilities without all logits at once",
    "trl.trainer.utils.FusedCausalLMOutput": "share_prompts: what TRL's fused head returns",
}
#: the same for attributes that exist only on a trainer or a model
ATTRIBUTES = {
    "_metrics": "correct, time_steps: where TRL collects what it logs in a step",
}


def prompt_ids(trainer: Any, prompts: Sequence[Any]) -> list[Ids]:
    """The tokens of prompts as TRL would generate from them; UserError for pictures."""
    ids, images, _ = trainer._tokenize_prompts(list(prompts))
    if images is not None:
        raise UserError("llama.cpp's rollouts are for text; this batch has images. Use rollout: transformers.")
    found: list[Ids] = ids
    return found


def generate(sequences: list[Ids], trainer: Any) -> tuple[list[Ids], list[list[float]] | None]:
    """What the policy adds to sequences of tokens, by transformers or vLLM, with log-probabilities where known."""
    added, logprobs = trainer._generate_single_turn(sequences, None, {}, 1)
    return added, logprobs


#: C, what a weight is cut at
MOST = 2.0
#: nats per token at which two programs cannot have the same weights; rounding gives less than a tenth of it
DIFFERENT_WEIGHTS = 1.0


def weights(trained: Any, sampled: Any, mask: Any) -> Any:
    """p/q for each token, cut at `MOST`; 1 where the sampler reported nothing (NaN) or nothing is trained."""
    import torch

    ratio = torch.exp((trained - sampled).double()).to(trained.dtype)
    known = mask.bool() & ~torch.isnan(sampled)
    return torch.where(known, ratio.clamp(max=MOST), torch.ones_like(ratio))


def correct(trainer: Any) -> None:
    """Have this GRPOTrainer weight its loss whenever a batch comes with log-probabilities of the sampler."""
    if trainer.use_vllm:
        raise UserError("This run samples with vLLM, which TRL corrects itself; leave out the other rollouts.")
    if trainer.loss_type == "vespo":
        raise UserError("The loss vespo weights sequences itself and cannot be corrected here. Choose grpo or dapo.")

    def weighted(rows: dict[str, Any], logps: Any) -> Any:
        if rows.get("sampling_per_token_logps") is not None:
            old = rows.get("old_per_token_logps")
            _weight(trainer, rows, (logps if old is None else old).detach())
        return logps

    _within_loss(trainer, weighted)


def whole_ratio(trainer: Any) -> None:
    """Have this GRPOTrainer, whose level is TRL's "sequence", use the plain ratio of each output. After `correct`."""

    def scaled(rows: dict[str, Any], logps: Any) -> Any:
        length = _trained(rows).sum(-1, keepdim=True)
        old = rows.get("old_per_token_logps")
        return logps * length if old is None else (logps - old) * length + old

    _within_loss(trainer, scaled)


def _within_loss(trainer: Any, change: Callable[[dict[str, Any], Any], Any]) -> None:
    """While this trainer computes its loss, `change` gets the batch and its log-probabilities; the loss goes on with
    those that it returns, and with what it has put into the batch."""
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
        return found if rows is None else (change(rows, found[0]), *found[1:])

    trainer._compute_loss, trainer._get_per_token_logps_and_entropies = loss, scores


def _trained(rows: dict[str, Any]) -> Any:
    """The mask of the tokens that are trained."""
    return rows["completion_mask"] * rows["tool_mask"] if "tool_mask" in rows else rows["completion_mask"]


def _weight(trainer: Any, rows: dict[str, Any], trained: Any) -> None:
    """Put the weights on the advantages of the batch that the loss is about to use."""
    import torch

    mask, sampled = _trained(rows), rows["sampling_per_token_logps"]
    known = mask.bool() & ~torch.isnan(sampled)
    apart = (trained - sampled)[known].abs()
    # two programs with the same weights are never this far apart; a correction would only hide the mistake
    if apart.numel() and float(apart.mean()) > DIFFERENT_WEIGHTS:
        raise UserError(
            f"The sampler's log-probabilities are {float(apart.mean()):.1f} away from the trained model's on average: "
            "they do not have the same weights. Give the rollouts the file of the model that is trained."
        )
    found = weights(trained, sampled, mask)
    advantages = rows["advantages"]
    rows["advantages"] = (advantages[:, None] if advantages.dim() == 1 else advantages) * found
    ratio = found[known]
    if not apart.numel():  # all ranks must gather
        apart, ratio = found.new_zeros(1), found.new_ones(1)
    _log(trainer, apart, ratio, 1 - known.sum() / mask.sum().clamp(min=1))


def _log(trainer: Any, apart: Any, ratio: Any, untold: Any) -> None:
    """Log how far the sampler is from the policy and how much is corrected, over all processes."""
    values = {
        "sampling_logp_difference/mean": (apart.mean(), "mean"),
        "sampling_logp_difference/max": (apart.max(), "max"),
        "importance_sampling_ratio/min": (ratio.min(), "min"),
        "importance_sampling_ratio/mean": (ratio.mean(), "mean"),
        "importance_sampling_ratio/max": (ratio.max(), "max"),
        "cut": ((ratio >= MOST).float().mean(), "mean"),
        "untold": (untold, "mean"),
        # the share of the tokens that would be worth as much without weights
        "effective": (ratio.sum() ** 2 / (ratio**2).sum() / len(ratio), "mean"),
    }
    metrics = trainer._metrics["train" if trainer.model.training else "eval"]
    for name, (value, how) in values.items():
        gathered = trainer.accelerator.gather(value.float())
        metrics[f"sampling/{name}"].append(float(getattr(gathered, how)()))


_SCORING = {"input_ids", "attention_mask", "labels"}
_CHUNK = 256  # tokens whose logits exist at once


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
        if fused_lm_head and not args and set(given) == _SCORING:
            return _scored(base, trainer.temperature, **given)
        return fused(*args, fused_lm_head=fused_lm_head, **kwargs)

    base.forward = forward
    return True


def _scored(base: Any, temperature: float, input_ids: Any, attention_mask: Any, labels: Any) -> Any:
    """What TRL's head returns, for the columns of the outputs alone. Prompts are padded on the left, outputs on the
    right, so that every output begins in the same column."""
    from trl.kernels.chunked_logprob import ChunkedLogProbFunction
    from trl.trainer.utils import FusedCausalLMOutput

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
        _CHUNK,
        None,
        1.0,
        ("log_probs", "entropy"),
    )
    spread = [value.new_zeros(scored.shape).masked_scatter(scored, value) for value in (logprobs, entropy)]
    loss = -spread[0].sum() / scored.sum().clamp(min=1)
    return FusedCausalLMOutput(loss=loss, log_probs=spread[0], entropy=spread[1], label_mask=scored)


def _hidden(body: Any, ids: Any, mask: Any, begin: int) -> Any:
    """The last hidden states that predict the tokens of the outputs: rows x output tokens x width."""
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


@contextlib.contextmanager
def vllm_engine(options: Mapping[str, Any]) -> Iterator[None]:
    """Within this block, TRL starts vLLM in this process with these engine arguments, which precede TRL's own."""
    if not options:
        yield
        return
    from trl.generation import vllm_generation

    usual = vllm_generation.LLM
    vllm_generation.LLM = lambda **given: usual(**{**given, **options})
    try:
        yield
    finally:
        vllm_generation.LLM = usual


def fold_pictures(trainer: Any) -> None:
    """Give vLLM one token for each picture of a prompt; it puts in as many as the picture needs."""
    plain, token = trainer.vllm_generation.generate, getattr(trainer.processing_class, "image_token_id", None)

    def generate(*, prompts: list[Ids], images: list[Any] | None, **options: Any) -> Any:
        if images is not None:
            prompts = [folded(ids, token, len(seen or ())) for ids, seen in zip(prompts, images, strict=True)]
        return plain(prompts=prompts, images=images, **options)

    trainer.vllm_generation.generate = generate


def folded(ids: Ids, token: int | None, pictures: int) -> Ids:
    """The tokens with every run of the picture's token as one of them.

    >>> folded([5, 9, 9, 9, 6, 9, 9], 9, 2)
    [5, 9, 6, 9]
    """
    kept = [one for place, one in enumerate(ids) if one != token or place == 0 or ids[place - 1] != token]
    if kept.count(token) != pictures:  # type: ignore[arg-type]
        raise UserError(
            f"A prompt with {pictures} pictures has {kept.count(token)} places for them, so vLLM cannot be asked. "  # type: ignore[arg-type]
            "Use rollout: transformers."
        )
    return kept


def keep_base(model: Any) -> None:
    """Restore this model's base to the bit after its adapter has been merged and unmerged."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    merge, unmerge = model.merge_adapter, model.unmerge_adapter
    kept: list[tuple[Any, Any]] = []

    def merged(*args: Any, **kwargs: Any) -> None:
        layers = [layer.get_base_layer() for layer in model.modules() if isinstance(layer, BaseTunerLayer)]
        kept[:] = [(layer.weight, layer.weight.detach().clone()) for layer in layers]
        merge(*args, **kwargs)

    def unmerged() -> None:
        unmerge()
        for weight, value in kept:
            weight.data.copy_(value)
        kept.clear()

    model.merge_adapter, model.unmerge_adapter = merged, unmerged


def time_steps(trainer: Any) -> None:
    """Log the seconds of a step under `seconds/`: writing, synchronising (vLLM's weights), judging, learning; on a GPU
    also the most memory that this process has held, in GB."""
    from transformers import TrainerCallback

    spent: dict[str, float] = {}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            began = _now()
            try:
                return function(*args, **kwargs)
            finally:
                spent[name] = spent.get(name, 0.0) + _now() - began

        return call

    trainer._generate = timed("writing", trainer._generate)
    trainer._calculate_rewards = timed("judging", trainer._calculate_rewards)
    if trainer.use_vllm:
        sampler = trainer.vllm_generation
        sampler.sync_weights = timed("synchronising", sampler.sync_weights)

    class Clock(TrainerCallback):  # type: ignore[misc]
        began = 0.0

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            spent.clear()  # an evaluation between two steps writes and judges too
            self.began = _now()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            whole = _now() - self.began
            writing, passing = spent.get("writing", 0.0), spent.get("synchronising", 0.0)
            judging = spent.get("judging", 0.0)
            told = {"writing": writing - passing, "judging": judging, "learning": whole - writing - judging}
            if trainer.use_vllm:
                told["synchronising"] = passing
            metrics = trainer._metrics["train"]
            for name, value in told.items():
                metrics[f"seconds/{name}"].append(value)
            for name, value in _memory().items():
                metrics[f"memory/{name}"].append(value)

    trainer.add_callback(Clock())


def _now() -> float:
    """The time, after the GPU has finished its work."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def _memory() -> dict[str, float]:
    """Peak GPU memory of this process since the last call, in GB; nothing on a CPU."""
    import torch

    if not torch.cuda.is_available():
        return {}
    found = {"allocated": torch.cuda.max_memory_allocated() / 1e9, "reserved": torch.cuda.max_memory_reserved() / 1e9}
    torch.cuda.reset_peak_memory_stats()
    return found
