"""The loss of a group without computing its prompt once for every output.

All outputs of a group begin with the same prompt, and TRL passes each of them through the model from its first token.
On a CPU it also projects every token of the prompt onto the vocabulary, only to throw the result away. Here a prompt
goes through the model once; its keys and values, with their gradients, serve all its outputs; and only the tokens of
outputs are projected. The log-probabilities, the entropies and the gradients are the same up to rounding, for less
work: with prompts as long as the contract's, several times less.

It is put in the place of the head that TRL fuses to the model (`add_fused_lm_head`, trl 1.16), for text models of the
Llama kind. A call that is anything else than a scoring of plain prompts and outputs goes TRL's own way.
"""

from __future__ import annotations

from typing import Any

_PLAIN = {"input_ids", "attention_mask", "labels"}


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
        if fused_lm_head and not args and set(given) == _PLAIN:
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
