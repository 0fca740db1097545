"""An adapter for llama.cpp is the adapter that peft has: the same next-token distribution, layer by layer."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from compeer.models.llama_server import LlamaServer
from compeer.models.lora_gguf import check_base, convert_adapter, converted, shape_of, write_adapter
from compeer.models.request import ModelError

LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def adapted(folder: Path, targets: tuple[str, ...] = LAYERS, size: float = 0.3, **settings: Any) -> Any:
    """The tiny Llama with an adapter whose both matrices are random and large enough to matter."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    config = peft.LoraConfig(**{"r": 4, "lora_alpha": 6, "target_modules": list(targets), **settings})
    torch.manual_seed(3)
    model = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(folder), config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".lora_" in name:
                weight.normal_(0, size)
    return model


def in_torch(model: Any, ids: list[int]) -> Any:
    import torch

    with torch.no_grad():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0, -1].double(), -1)


def in_llamacpp(weights: Path, adapter: Path | None, ids: list[int]) -> Any:
    """The log-probability of every token to come next. One is forced, since a half character is not reported."""
    import torch

    answers: list[dict[str, Any]] = []
    whole = ord("a") - ord("!") + 4  # the letter a, behind four control tokens
    with closing(
        LlamaServer(weights, [adapter] if adapter else [], slots=1, context=256, precise=True, n_threads=1)
    ) as server:
        server.complete(
            {"prompt": ids, "max_tokens": 1, "temperature": 0, "n_probs": 100_000, "logit_bias": [[whole, 1000]]},
            lambda chunk: answers.append(chunk) or False,
        )
    found = answers[-1]["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    values = torch.full((max(entry["id"] for entry in found) + 1,), torch.nan, dtype=torch.float64)
    for entry in found:
        values[entry["id"]] = entry["logprob"]
    return values


def apart(one: Any, other: Any) -> float:
    return float((one - other).abs().max())


IDS = [17, 230, 45, 301, 99, 12, 508, 77, 250, 31, 66, 410]


@pytest.mark.parametrize("targets", [(name,) for name in LAYERS] + [LAYERS], ids=[*LAYERS, "all"])
def test_llamacpp_with_the_file_gives_pefts_distribution(
    targets: tuple[str, ...], tiny_model_dir: Path, tiny_gguf: Path, tmp_path: Path
) -> None:
    model = adapted(tiny_model_dir, targets)
    file = write_adapter(model, tmp_path / "a.gguf")
    with model.disable_adapter():
        base = in_torch(model, IDS)
    ours, theirs = in_llamacpp(tiny_gguf, file, IDS), in_torch(model, IDS)
    assert apart(ours, theirs) < 1e-3
    assert apart(theirs, base) > 0.1, "an adapter that changes nothing would agree in any order"


@pytest.mark.parametrize("targets", [("q_proj",), ("k_proj",), LAYERS], ids=["q_proj", "k_proj", "all"])
def test_a_qwen2_adapter_too(
    targets: tuple[str, ...], tiny_qwen2_dir: Path, tiny_qwen2_gguf: Path, tmp_path: Path
) -> None:
    """In bfloat16 and by way of a folder, as an adapter for the 1.5B base comes."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    adapted(tiny_qwen2_dir, targets).to(torch.bfloat16).save_pretrained(tmp_path / "saved")
    base = AutoModelForCausalLM.from_pretrained(tiny_qwen2_dir)
    plain = in_torch(base.eval(), IDS)
    theirs = in_torch(peft.PeftModel.from_pretrained(base, tmp_path / "saved").eval(), IDS)
    file = convert_adapter(tmp_path / "saved", tmp_path / "a.gguf", weights=tiny_qwen2_gguf)
    assert apart(in_llamacpp(tiny_qwen2_gguf, None, IDS), plain) < 1e-3
    assert apart(in_llamacpp(tiny_qwen2_gguf, file, IDS), theirs) < 1e-3
    assert apart(theirs, plain) > 0.1


def test_an_adapter_is_refused_with_another_base(
    tiny_model_dir: Path, tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from compeer.models.embedded import Embedded
    from compeer.models.weights import BASE, remembered_sha256

    monkeypatch.setenv("COMPEER_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "saved"
    adapted(tiny_model_dir).save_pretrained(folder)
    check_base(folder, tiny_gguf)  # one that does not tell is taken as it is
    (folder / "base.json").write_text(json.dumps({"name": "tiny", "sha256": remembered_sha256(tiny_gguf)}))
    check_base(converted(folder, tiny_gguf), tiny_gguf)
    other = tmp_path / "other.gguf"
    other.write_bytes(tiny_gguf.read_bytes() + b" ")
    for adapter in (folder, converted(folder, tiny_gguf)):
        with pytest.raises(ModelError, match=r"was trained for weights with the sha256 .* is another model"):
            Embedded(adapter, weights=other).load()
    (folder / "base.json").write_text(json.dumps({"name": BASE.name, "sha256": BASE.sha256}))
    with pytest.raises(ModelError, match=rf"was trained for {BASE.name}; tiny\.gguf .* is another model"):
        Embedded(folder, weights=tiny_gguf).load()


def test_an_adapter_of_zeros_is_the_base(tiny_model_dir: Path, tiny_gguf: Path, tmp_path: Path) -> None:
    file = write_adapter(adapted(tiny_model_dir, size=0.0), tmp_path / "a.gguf")
    assert apart(in_llamacpp(tiny_gguf, file, IDS), in_llamacpp(tiny_gguf, None, IDS)) == 0.0


@pytest.mark.parametrize(
    "settings",
    [{"use_rslora": True}, {"rank_pattern": {"v_proj": 2}, "alpha_pattern": {"up_proj": 20}}],
    ids=["rslora", "patterns"],
)
def test_layers_of_different_scales_keep_them(
    settings: dict[str, Any], tiny_model_dir: Path, tiny_gguf: Path, tmp_path: Path
) -> None:
    model = adapted(tiny_model_dir, **settings)
    file = write_adapter(model, tmp_path / "a.gguf")
    assert apart(in_llamacpp(tiny_gguf, file, IDS), in_torch(model, IDS)) < 1e-3


def test_a_saved_adapter_converts_to_the_same_file(tiny_model_dir: Path, tiny_gguf: Path, tmp_path: Path) -> None:
    for name, settings in (("plain", {}), ("rslora", {"use_rslora": True})):
        model = adapted(tiny_model_dir, **settings)
        model.save_pretrained(tmp_path / name)
        write_adapter(model, tmp_path / "memory.gguf")
        convert_adapter(tmp_path / name, tmp_path / "folder.gguf", weights=tiny_gguf)
        assert sorted_tensors(tmp_path / "memory.gguf") == sorted_tensors(tmp_path / "folder.gguf")


def sorted_tensors(path: Path) -> list[tuple[str, bytes]]:
    import gguf

    reader = gguf.GGUFReader(path)
    alpha = reader.fields["adapter.lora.alpha"].contents()
    return [("alpha", str(alpha).encode()), *sorted((tensor.name, tensor.data.tobytes()) for tensor in reader.tensors)]


def test_the_file_is_replaced_and_nothing_is_left_beside_it(tiny_model_dir: Path, tmp_path: Path) -> None:
    write_adapter(adapted(tiny_model_dir, size=0.0), tmp_path / "a.gguf")
    before = (tmp_path / "a.gguf").read_bytes()
    write_adapter(adapted(tiny_model_dir), tmp_path / "a.gguf")
    assert (tmp_path / "a.gguf").read_bytes() != before
    with pytest.raises(ModelError):
        write_adapter(adapted(tiny_model_dir, ("lm_head",)), tmp_path / "a.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"targets": ("q_proj", "lm_head")}, "lm_head"),
        ({"targets": ("q_proj", "embed_tokens")}, "embed_tokens"),
        ({"use_dora": True}, "use_dora"),
        ({"bias": "all"}, "bias"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"init_lora_weights": "pissa"}, "pissa"),
    ],
)
def test_what_llamacpp_cannot_add_is_refused_by_name(
    settings: dict[str, Any], told: str, tiny_model_dir: Path, tiny_gguf: Path, tmp_path: Path
) -> None:
    model = adapted(tiny_model_dir, **settings)
    with pytest.raises(ModelError, match=told):
        write_adapter(model, tmp_path / "a.gguf")
    model.save_pretrained(tmp_path / "saved")
    with pytest.raises(ModelError, match=told):
        convert_adapter(tmp_path / "saved", tmp_path / "a.gguf", weights=tiny_gguf)


def test_another_architecture_is_refused(tiny_vision_dir: Path, tmp_path: Path) -> None:
    import peft
    from transformers import Qwen2_5_VLForConditionalGeneration

    base = Qwen2_5_VLForConditionalGeneration.from_pretrained(tiny_vision_dir)
    model = peft.get_peft_model(base, peft.LoraConfig(target_modules=["gate_proj"]))
    with pytest.raises(ModelError, match="llama and qwen2"):
        write_adapter(model, tmp_path / "a.gguf")


def test_a_folder_without_an_adapter_is_told(tiny_gguf: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"adapter_config\.json"):
        convert_adapter(tmp_path, tmp_path / "a.gguf", weights=tiny_gguf)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "IA3"}))
    (tmp_path / "adapter_model.safetensors").write_bytes(b"torn")
    with pytest.raises(ModelError, match=r"adapter_model\.safetensors"):
        convert_adapter(tmp_path, tmp_path / "a.gguf", weights=tiny_gguf)


def test_the_shape_of_a_file(tiny_gguf: Path, tmp_path: Path) -> None:
    import gguf

    heads = shape_of(tiny_gguf)
    assert (heads.query, heads.key) == (4, 2)
    writer = gguf.GGUFWriter(tmp_path / "other.gguf", "llama")
    writer.add_array("general.languages", ["en", "zh"])  # lists, and every kind of number, may stand before
    writer.add_uint8("a", 1)
    writer.add_bool("b", True)
    writer.add_float64("c", 1.0)
    writer.add_uint64("d", 1)
    writer.add_head_count(7)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    heads = shape_of(tmp_path / "other.gguf")
    assert (heads.query, heads.key) == (7, 7), "without a count of their own there are as many heads of keys"
    (tmp_path / "text.gguf").write_text("no weights at all")
    with pytest.raises(ModelError, match="not a GGUF file"):
        shape_of(tmp_path / "text.gguf")
