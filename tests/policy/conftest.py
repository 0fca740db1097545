"""What tests of the policy share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="module")
def grouped() -> Any:
    """A random Llama with grouped heads and an adapter that matters."""
    import peft
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 6}
    plain = LlamaForCausalLM(LlamaConfig(**shape, num_key_value_heads=2, vocab_size=97, max_position_embeddings=256))
    made = peft.get_peft_model(
        plain, peft.LoraConfig(r=4, target_modules="all-linear", exclude_modules=["lm_head"], task_type="CAUSAL_LM")
    )
    for name, weight in made.named_parameters():
        if ".lora_" in name:
            torch.nn.init.normal_(weight, std=0.3)
    return made.eval()
