"""A judge's folder: its kind, its adapter, its identity, and what is wrong with it."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.reward.groups import gold_cases
from tests.reward.local.comparing import close, judged

from compeer.errors import UserError
from compeer.reward.local_judge import LocalJudge


class TestFolder:
    def test_the_kind_is_written_beside_the_weights(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        folder = copied(tiny_model_dir, tmp_path / "run" / "model", {"kind": "orm", "base": "x", "labels": ["silver"]})
        for name in (folder, tmp_path / "run"):
            judge = LocalJudge(str(name), device="cpu")
            assert judge.kind == "orm"
            (found,) = asyncio.run(judge.judge(gold_cases("en")[:1]))
            assert [step.value for step in found.steps] == [None] * 3
            assert len(found.pairs) == 1
        assert LocalJudge(str(folder), kind="prm").kind == "prm"
        assert LocalJudge(str(tiny_model_dir)).kind == "unified"

    def test_an_adapter_is_put_on_its_base(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        adapter = tuned(tiny_model_dir, tmp_path / "adapter", {"kind": "unified", "base": str(tiny_model_dir)})
        cases = list(gold_cases("en")[:2])
        plain = judged(tiny_model_dir, cases)
        trained = judged(adapter, cases)
        close(judged(f"{tiny_model_dir}", cases, adapter=str(adapter)), trained)
        assert trained[0].steps[0].p != pytest.approx(plain[0].steps[0].p, abs=1e-3)
        (adapter / "judge.json").unlink()
        close(judged(adapter, cases), trained)

    def test_a_damaged_description_is_named(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        folder = copied(tiny_model_dir, tmp_path / "model", {"kind": "arbiter"})
        with pytest.raises(UserError, match=r"judge\.json does not describe a judge"):
            LocalJudge(str(folder))

    def test_a_model_that_cannot_be_loaded_is_an_error_and_not_a_verdict(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="cannot be loaded"):
            judged(tmp_path, gold_cases("en")[:1])

    def test_identity_is_in_the_files_and_not_in_their_place(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        def identity(folder: Path, **options: Any) -> dict[str, Any]:
            return dict(asyncio.run(LocalJudge(str(folder), **options).identity()))

        moved = copied(tiny_model_dir, tmp_path / "elsewhere", {"kind": "unified", "revision": "of today"})
        assert identity(moved) == identity(tiny_model_dir)
        assert identity(moved, kind="prm") != identity(moved)
        adapters = [tuned(tiny_model_dir, tmp_path / name, {"base": str(base)}, seed) for name, base, seed in (
            ("a", tiny_model_dir, 1), ("b", moved, 1), ("c", tiny_model_dir, 2))]  # fmt: skip
        first, same, other = (identity(adapter) for adapter in adapters)
        assert first == same != other
        weights = moved / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
        assert identity(moved) != identity(tiny_model_dir)


def copied(model: Path, folder: Path, description: dict[str, Any]) -> Path:
    shutil.copytree(model, folder)
    (folder / "judge.json").write_text(json.dumps(description))
    return folder


def tuned(model: Path, folder: Path, description: dict[str, Any], seed: int = 1) -> Path:
    """A LoRA adapter with random weights."""
    import peft
    from transformers import AutoModelForCausalLM

    base = description.get("base", str(model))
    torch.manual_seed(seed)
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    peft.get_peft_model(AutoModelForCausalLM.from_pretrained(base), config).save_pretrained(folder)
    (folder / "judge.json").write_text(json.dumps(description))
    return folder
