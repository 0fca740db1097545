"""What vLLM in the training process needs beyond TRL: engine arguments, pictures as one token, a base that stays as it is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compeer.errors import UserError
from compeer.policy.trl_internals import fold_pictures, folded, keep_base, vllm_engine


def adapted(folder: Path) -> Any:
    """The tiny model in bfloat16 with an adapter that is not zero."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    made = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            if ".lora_" in name:
                weight.normal_(0, 0.05)
    return made


def base_of(model: Any) -> dict[str, Any]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters() if ".lora_" not in name}


def changed(model: Any, before: dict[str, Any]) -> set[str]:
    import torch

    return {name for name, weight in base_of(model).items() if not torch.equal(weight, before[name])}


def test_the_base_is_the_same_to_the_bit_after_its_weights_were_handed_over(tiny_model_dir: Path) -> None:
    plain = adapted(tiny_model_dir)
    before = base_of(plain)
    plain.merge_adapter()
    plain.unmerge_adapter()
    assert changed(plain, before), "what peft alone leaves behind in bfloat16"

    kept = adapted(tiny_model_dir)
    keep_base(kept)
    for _ in range(3):
        kept.merge_adapter()
        merged = changed(kept, before)
        assert merged and all("proj" in name for name in merged)
        kept.unmerge_adapter()
        assert not changed(kept, before)


def test_vllm_gets_one_token_for_each_picture() -> None:
    asked: list[Any] = []
    sampler = SimpleNamespace(generate=lambda **given: asked.append(given) or "written")
    trainer = SimpleNamespace(vllm_generation=sampler, processing_class=SimpleNamespace(image_token_id=9))
    fold_pictures(trainer)
    two, none = [1, 7, 9, 9, 9, 8, 7, 9, 9, 8, 2], [1, 2]
    assert sampler.generate(prompts=[two, none], images=[["a", "b"], None], num_generations=2) == "written"
    assert asked[-1]["prompts"] == [[1, 7, 9, 8, 7, 9, 8, 2], none] and asked[-1]["num_generations"] == 2
    sampler.generate(prompts=[two], images=None, num_generations=2)
    assert asked[-1]["prompts"] == [two], "a batch of text is passed on as it is"
    with pytest.raises(UserError, match="2 pictures has 1 places"):
        folded([1, 9, 9, 9], 9, 2)


def test_the_engine_is_started_with_our_arguments_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    from trl.generation import vllm_generation

    monkeypatch.setattr(vllm_generation, "LLM", lambda **given: given, raising=False)
    usual = vllm_generation.LLM
    with pytest.raises(RuntimeError, match="no GPU"), vllm_engine({"enforce_eager": True, "max_num_seqs": 8}):
        assert vllm_generation.LLM(model="m", max_num_seqs=128) == {
            "model": "m", "enforce_eager": True, "max_num_seqs": 8,
        }  # fmt: skip
        raise RuntimeError("no GPU")
    assert vllm_generation.LLM is usual
    with vllm_engine({}):
        assert vllm_generation.LLM is usual
