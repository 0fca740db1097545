"""Truncated importance sampling: outputs were sampled by another program than the one that is trained.

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
"""

from __future__ import annotations

from typing import Any

from compeer.errors import UserError

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
