"""Parts that many tests share: a free port, and models small enough to be made on the fly.

The tiny models are random, so at temperature 1 they write any byte at any place. That makes them the
hardest test of a grammar, and fast enough to draw hundreds of outputs.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

# read when OpenMP is loaded, which torch does first in some tests: see compeer.models.llama_server
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# two workers share the cores; and sums are added up in the same order here and in the processes a test starts,
# without which "the same weights" hangs on the number of cores
os.environ["OMP_NUM_THREADS"] = "1"

# a run in the background of a shell, or under nohup, ignores these, and so would every process a test starts
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    """Collecting makes millions of objects that stay: looking for garbage among them took half of its time, and every
    later look went through them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


#: in CI nothing is skipped for want of something: a machine that lacks it fails. These skips say what is there instead
ALLOWED_SKIPS = ("there is one", "is installed here", "is installed by hand", "needs /proc")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    outcome = yield
    _fail_a_skip(outcome.get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Any:
    outcome = yield
    _fail_a_skip(outcome.get_result())


def _fail_a_skip(report: Any) -> None:
    """In CI, a skip for want of corpora, Chromium, PostgreSQL or a package is a failure."""
    if not os.environ.get("CI") or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    if "COMPEER_DATA" in reason and not os.environ.get("COMPEER_DATA"):
        return  # the corpora are not part of the repository
    if not any(allowed in reason for allowed in ALLOWED_SKIPS):
        report.outcome, report.longrepr = "failed", f"skipped in CI: {reason}"


CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHATML_WITH_PICTURES = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<pad>")
VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")


@pytest.fixture
def free_port() -> int:
    """A port on 127.0.0.1 that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@pytest.fixture(scope="session")
def tiny_model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of two layers with a tokenizer that can write any byte, in English and Chinese."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = _tokenizer(SPECIAL, CHATML)
    torch.manual_seed(7)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=8192,
            initializer_range=0.2,  # far from uniform, so that what was said before matters
            **_ids(tokenizer),
        )
    )
    folder = tmp_path_factory.mktemp("tiny-llama")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_vision_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2.5-VL of two layers that takes pictures, in the files of a real checkpoint."""
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2VLImageProcessorPil

    tokenizer = _tokenizer(SPECIAL + VISION, CHATML_WITH_PICTURES)
    place = tokenizer.convert_tokens_to_ids
    torch.manual_seed(7)
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]},
            **_ids(tokenizer),
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "out_hidden_size": 64,
            "fullatt_block_indexes": [1],
        },
        image_token_id=place("<|image_pad|>"),
        video_token_id=place("<|video_pad|>"),
        vision_start_token_id=place("<|vision_start|>"),
        vision_end_token_id=place("<|vision_end|>"),
    )
    folder = tmp_path_factory.mktemp("tiny-qwen2.5-vl")
    Qwen2_5_VLForConditionalGeneration(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(min_pixels=56 * 56, max_pixels=112 * 112).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_gguf(tiny_model_dir: Path) -> Path:
    """The tiny Llama as one file for llama.cpp."""
    return _as_gguf(tiny_model_dir, tiny_model_dir.parent / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny_qwen2_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2 of two layers: the architecture of the 1.5B base, with biases and another order of heads."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = _tokenizer(SPECIAL, CHATML)
    torch.manual_seed(8)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        initializer_range=0.2,
        **_ids(tokenizer),
    )
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias"):
                weight.normal_(0, 0.2)
    folder = tmp_path_factory.mktemp("tiny-qwen2")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_qwen2_gguf(tiny_qwen2_dir: Path) -> Path:
    """The tiny Qwen2 as one file for llama.cpp."""
    return _as_gguf(tiny_qwen2_dir, tiny_qwen2_dir.parent / "tiny-qwen2.gguf")


def _as_gguf(folder: Path, path: Path) -> Path:
    import gguf
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    config = model.config
    kind = {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2}[config.model_type]
    writer = gguf.GGUFWriter(path, config.model_type)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    special = set(tokenizer.all_special_tokens)
    tokens = tokenizer.convert_ids_to_tokens(range(config.vocab_size))
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens])
    writer.add_token_merges(_merges(tokenizer))
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHATML)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    if config.model_type != "llama":
        heads = {}
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    for name, tensor in model.state_dict().items():
        values = tensor.float().numpy()
        if count := next((heads[part] for part in name.split(".") if part in heads), None):
            # llama.cpp turns neighbouring dimensions of a head, transformers its two halves
            values = values.reshape(count, 2, -1, values.shape[-1]).swapaxes(1, 2).reshape(values.shape)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), values.copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tokenizer(special: tuple[str, ...], template: str) -> Any:
    """Byte-level BPE trained on the package's own words, with ChatML's control tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    from compeer.reasoning import system_prompt

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=768,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([system_prompt("en"), system_prompt("zh")], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<pad>",
        extra_special_tokens=[token for token in special if token not in ("<|im_end|>", "<pad>")],
        chat_template=template,
    )


def _ids(tokenizer: Any) -> dict[str, Any]:
    return {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}


def _merges(tokenizer: Any) -> list[str]:
    import json

    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
