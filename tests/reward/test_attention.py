"""Folded attention gives what transformers' own gives, in whole models and with rows of different length."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from compeer.reward.prefix_cache import ATTENTION, Branches, use_folded


def test_logits_are_the_same_over_a_shared_cache_with_padding(tiny_model_dir: Path) -> None:
    plain = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
    folded = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
    assert use_folded(folded) and folded.config._attn_implementation == ATTENTION
    assert plain.config._attn_implementation == "sdpa"
    found = []
    for model in (plain, folded):
        with torch.inference_mode():
            rows = Branches(model, 1)
            rows.extend([list(range(10, 60))])
            rows = rows.branch([0, 0, 0])
            rows.extend([[7, 8, 9], [5], list(range(30, 45))], [[2], [0], [14]])
            rows.keep(2, 55)
            found.append(torch.cat(rows.extend([[3, 4], [9] * 6, [11]], [[1], [5], [0]])))
    assert torch.allclose(found[0], found[1], atol=1e-4)
    assert (found[0].argmax(-1) == found[1].argmax(-1)).all()


def test_a_model_without_grouped_heads_is_left_as_it_is(tiny_model_dir: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
    model.config.num_key_value_heads = model.config.num_attention_heads
    assert not use_folded(model)
    assert model.config._attn_implementation == "sdpa"
