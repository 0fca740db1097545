"""What is trained, what stays, and what the result opens in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.training.small import item

from compeer.dialogue import write_rows
from compeer.models.request import ModelError, Request
from compeer.reward.train import JudgeTraining, train
from compeer.training.model import Lora, ModelSettings, arguments, open_model, start_identity


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def trained(model: Any) -> set[str]:
    return {name for name, weight in model.named_parameters() if weight.requires_grad}


class TestOpening:
    def test_all_of_a_text_model_or_its_adapter_alone(self, tiny_model_dir: Path) -> None:
        whole = open_model(ModelSettings(base=str(tiny_model_dir)))
        assert trained(whole.model) == {name for name, _ in whole.model.named_parameters()}
        adapted = open_model(ModelSettings(base=str(tiny_model_dir), lora=Lora(r=4)))
        assert all("lora_" in name for name in trained(adapted.model)) and trained(adapted.model)
        assert not any("lm_head" in name or "embed" in name for name in trained(adapted.model))
        some, all_of_it = adapted.parameters()
        assert some < all_of_it

    def test_the_vision_tower_is_frozen_and_the_merger_is_not(self, tiny_vision_dir: Path) -> None:
        whole = open_model(ModelSettings(base=str(tiny_vision_dir)))
        tower = {name for name, _ in whole.model.named_parameters() if "visual" in name}
        assert {name for name in tower if "merger" in name} == tower & trained(whole.model) != set()
        assert any("language_model" in name for name in trained(whole.model))
        adapted = trained(open_model(ModelSettings(base=str(tiny_vision_dir), lora=Lora(r=4))).model)
        assert {name.split("visual.")[1].split(".")[0] for name in adapted if "visual." in name} == {"merger"}
        assert any("language_model" in name for name in adapted)

    def test_the_same_seed_gives_the_same_adapter(self, tiny_model_dir: Path) -> None:
        import torch

        settings = ModelSettings(base=str(tiny_model_dir), lora=Lora(r=4))
        first, again, other = (
            torch.cat([weight.flatten() for name, weight in open_model(settings, seed).model.named_parameters() if "lora_A" in name])
            for seed in (1, 1, 2)
        )  # fmt: skip
        assert torch.equal(first, again) and not torch.equal(first, other)

    def test_on_a_cpu_the_arithmetic_is_float32(self, tiny_model_dir: Path) -> None:
        told = arguments(ModelSettings(base=str(tiny_model_dir), device="cpu"))
        assert told["use_cpu"] and not told["bf16"] and not told["gradient_checkpointing"]

    def test_a_gpu_that_is_not_there_is_said_to_be_missing(self, tiny_model_dir: Path) -> None:
        import torch

        if torch.cuda.is_available():
            pytest.skip("there is one")
        with pytest.raises(ModelError, match="torch finds no GPU"):
            arguments(ModelSettings(base=str(tiny_model_dir), device="cuda"))

    def test_a_base_is_known_by_its_files(self, tiny_model_dir: Path, tmp_path: Path) -> None:
        import shutil

        shutil.copytree(tiny_model_dir, tmp_path / "copy")
        assert start_identity(str(tmp_path / "copy")) == start_identity(str(tiny_model_dir))
        with (tmp_path / "copy" / "model.safetensors").open("r+b") as file:
            file.seek(-1, 2)
            file.write(b"\x7f")
        assert start_identity(str(tmp_path / "copy")) != start_identity(str(tiny_model_dir))


def config(base: str, folder: Path, **changes: Any) -> JudgeTraining:
    write_rows(folder / "train.jsonl", [item(number) for number in range(2)])
    values: dict[str, Any] = {
        "out": str(folder / "run"),
        "base": base,
        "train": (str(folder / "train.jsonl"),),
        "kind": "orm",
        "batch_size": 1,
        "epochs": 1,
        "learning_rate": 1e-3,
        "save_every": 1,
    }
    return JudgeTraining(**values | changes)


def answer(model: str, adapter: str | None) -> str:
    from compeer.models.local import Local

    local = Local(model, adapter, device="cpu")
    request = Request(messages=[{"role": "user", "content": "?"}], max_tokens=2, temperature=0.0)
    return asyncio.run(local.ask(request)).finish


class TestEmbedded:
    """`embedded` is a GGUF file; here a tiny one, since the real one takes a minute of a core for two steps."""

    @pytest.fixture(autouse=True)
    def _tiny(self, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COMPEER_WEIGHTS", str(tiny_gguf))

    def test_it_is_trained_whole_and_saved(self, tmp_path: Path) -> None:
        done = train(config("embedded", tmp_path))
        assert done.results["steps"] == 2 and (Path(done.model) / "model.safetensors").exists()
        assert answer(done.model, None) in ("stop", "length")

    def test_it_takes_an_adapter_that_opens_beside_it(self, tmp_path: Path) -> None:
        done = train(config("embedded", tmp_path, lora=Lora(r=4)))
        files = {path.name for path in Path(done.model).iterdir()}
        assert "adapter_model.safetensors" in files and "model.safetensors" not in files
        assert '"base_model_name_or_path": "embedded"' in (Path(done.model) / "adapter_config.json").read_text()
        assert done.results["steps"] == 2
        assert answer("embedded", done.model) in ("stop", "length")


def test_the_embedded_model_s_own_template_tells_what_to_learn() -> None:
    from compeer.models.checkpoint import ChatTokenizer, open_tokenizer
    from compeer.reward.train import RowSettings, chat, rows
    from compeer.training.encode import encode

    words = ChatTokenizer(*open_tokenizer("embedded:small"))
    row = chat(next(rows(item(0), RowSettings())))
    example = encode(row, words)
    learnt = [words.tokenizer.decode(example.ids[start:end]) for start, end in example.spans]
    assert learnt == [message["content"] + "<|im_end|>" for message in row if message["role"] == "assistant"]
