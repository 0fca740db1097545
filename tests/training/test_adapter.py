"""Training goes on from an adapter that is there: its shape, its matrices, its identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from compeer.errors import UserError
from compeer.policy.sft import SftConfig
from compeer.reward.train import JudgeTraining as JudgeConfig
from compeer.training.model import Lora, ModelSettings, merge, open_with, shape_of, start_identity


@pytest.fixture(scope="module")
def saved(tiny_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter with a shape of its own, on two kinds of layers."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    folder = tmp_path_factory.mktemp("saved") / "adapter"
    config = peft.LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "up_proj"])
    model = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model_dir), config)
    # drawn by seed, and small enough that float32's rounding stays far below the tolerance of the comparison
    drawn = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".lora_" in name:
                weight.normal_(std=0.2, generator=drawn)
    model.save_pretrained(folder)
    return folder


def test_the_adapter_brings_shape_and_matrices(saved: Path, tiny_model_dir: Path) -> None:
    from safetensors.torch import load_file

    config = SftConfig(out="run", model=str(tiny_model_dir), data=("x",), adapter=str(saved))
    assert (
        config.model_of("x", "supporter").lora
        == shape_of(saved)
        == Lora(r=4, alpha=6, dropout=0.0, targets=("q_proj", "up_proj"))
    )
    opened = open_with(config.start("supporter"), config.model_of(config.model, "supporter"), seed=0)
    there = {name.replace(".default", ""): weight for name, weight in opened.model.named_parameters()}
    written = load_file(saved / "adapter_model.safetensors")
    assert written and all((there[name] == weight).all() for name, weight in written.items())
    assert opened.parameters()[0] == sum(weight.numel() for weight in written.values())


def test_a_run_from_an_adapter_is_another_run(saved: Path, tiny_model_dir: Path) -> None:
    plain = start_identity(str(tiny_model_dir), None)
    assert start_identity(str(tiny_model_dir), saved) == plain | {"adapter": start_identity(str(saved), None)["sha256"]}


def test_what_does_not_fit_is_refused(
    saved: Path, tiny_model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"out": "run", "base": str(tiny_model_dir), "train": ("x",)}
    with pytest.raises(UserError, match=r"has r 4 and alpha 6; lora asks for r 16"):
        JudgeConfig(**given, adapter=str(saved), lora=Lora()).model_of("x", "judge")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"There is no adapter in {tmp_path}"):
        JudgeConfig(**given, adapter=str(tmp_path)).start("judge")  # type: ignore[arg-type]
    monkeypatch.setenv("COMPEER_ADAPTERS", str(tmp_path))
    with pytest.raises(UserError, match="the judge adapter in the package, and there is none"):
        JudgeConfig(**given, adapter="shipped").start("judge")  # type: ignore[arg-type]
    deeper = ModelSettings(base=str(tiny_model_dir), lora=Lora(r=4, alpha=6, targets=("q_proj",)))
    with pytest.raises(UserError, match=r"does not fit .*up_proj.* has no place there"):
        open_with(saved, deeper, seed=0)


def test_an_adapter_and_its_base_become_one_model(saved: Path, tiny_model_dir: Path, tmp_path: Path) -> None:
    import peft
    import torch
    from tests.cli.command import compeer
    from transformers import AutoModelForCausalLM, AutoTokenizer

    done = compeer("policy", "merge", str(saved), "--out", str(tmp_path / "whole"), "--dtype", "float32", "--json")
    assert done.returncode == 0, done.stderr
    plain = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
    ids = AutoTokenizer.from_pretrained(tmp_path / "whole")("I told everyone I'd pass.", return_tensors="pt")
    with torch.no_grad():
        before = plain(**ids).logits.clone()
        merged = AutoModelForCausalLM.from_pretrained(tmp_path / "whole")(**ids).logits
        adapted = peft.PeftModel.from_pretrained(plain, saved).eval()(**ids).logits
    assert torch.allclose(merged, adapted, atol=1e-4) and not torch.allclose(merged, before, atol=1e-2)
    assert not list((tmp_path / "whole").glob("adapter*"))
    assert (tmp_path / "whole/tokenizer.json").read_bytes() == (tiny_model_dir / "tokenizer.json").read_bytes()
    again = compeer("policy", "merge", str(saved), "--out", str(tmp_path / "whole"))
    assert again.returncode == 1 and "not empty" in again.stderr
    nothing = compeer("policy", "merge", str(tmp_path), "--out", str(tmp_path / "other"))
    assert nothing.returncode == 1 and "no adapter" in nothing.stderr


def test_a_judge_on_the_embedded_model_keeps_what_lies_beside_it(tmp_path: Path) -> None:
    from compeer.models import shipped

    judge = shipped.adapter("judge")
    assert judge is not None and merge(judge, tmp_path / "judge") == "embedded:small"
    assert (tmp_path / "judge/judge.json").read_bytes() == (judge / "judge.json").read_bytes()
    names = {path.name for path in (tmp_path / "judge").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names and "base.json" not in names
