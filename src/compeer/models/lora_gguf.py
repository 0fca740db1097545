"""A LoRA adapter of a Llama model as the file that llama.cpp loads beside the weights.

The adapter comes from the model that is being trained, in memory (milliseconds, so that a rollout can follow every
step), or from a folder that peft has saved (so that a trained adapter can be used with the embedded model).

    write_adapter(model, Path("adapter.gguf"))
    convert_adapter(Path("run/model"), Path("adapter.gguf"), weights=locate())
    converted(Path("run/model"), locate())      the same, kept in the cache

llama.cpp rotates neighbouring pairs of a head's components where transformers rotates the first half against the
second. The rows of the query and key projections are therefore in another order in the base's GGUF file, and the rows
of their B matrices must follow. llama.cpp knows one alpha for all layers; a layer whose scale differs from it carries
the rest in its B.

Only what llama.cpp can add to its weights is written: matrices A and B on the seven linear layers of a block. Anything
else in an adapter (DoRA, biases, embeddings, whole modules) is refused: leaving it out would give another model.

`read_tensors` reads safetensors files with numpy alone, because a light installation has neither torch nor safetensors
and must read the shipped adapters. The file is a length (eight bytes), a header in JSON with the kind, shape and place
of every tensor, and the bytes. bfloat16, which numpy does not have, is the upper half of a float32.
"""

from __future__ import annotations

import math
import os
import re
import struct
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from compeer.models.request import ModelError
from compeer.models.shipped import CONFIG, WEIGHTS, sha256
from compeer.models.weights import cache_dir
from compeer.typed import from_json

_KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class Damaged(ValueError):
    """The file is not what it says it is."""


class _Entry(msgspec.Struct, frozen=True):
    """What the header says of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read_tensors(path: Path) -> dict[str, Any]:
    """All tensors of a file by name, as float32. OSError when it cannot be read, Damaged when it is torn."""
    import numpy as np

    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise Damaged(f"{path.name} ends before its header does")
    try:
        header = from_json(data[8 : 8 + length], dict[str, msgspec.Raw])
        header.pop("__metadata__", None)
        entries = {name: from_json(raw, _Entry) for name, raw in header.items()}
    except msgspec.MsgspecError as error:
        raise Damaged(f"{path.name} has no header that can be read ({error})") from None
    body = memoryview(data)[8 + length :]
    found: dict[str, Any] = {}
    for name, entry in entries.items():
        first, last = entry.data_offsets
        kind = _KINDS.get(entry.dtype)
        if kind is None:
            raise Damaged(f"{path.name}: {name} is of the kind {entry.dtype}, which adapters do not use")
        if not 0 <= first <= last <= len(body) or last - first != math.prod(entry.shape) * np.dtype(kind).itemsize:
            raise Damaged(f"{path.name}: {name} is not where the header says")
        values = np.frombuffer(body[first:last], dtype=kind)
        if entry.dtype == "BF16":  # the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        found[name] = values.astype(np.float32).reshape(entry.shape)
    return found


_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.(?:self_attn|mlp)\.(\w+)$")
_NAMES = {
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}
# peft's settings that make an adapter more than A and B, and those that begin by changing the base's weights
_BEYOND = ("use_dora", "lora_bias", "modules_to_save", "trainable_token_indices", "target_parameters", "fan_in_fan_out",
           "layer_replication", "alora_invocation_tokens", "use_qalora", "use_bdlora", "arrow_config", "kasa_config",
           "monteclora_config")  # fmt: skip
_MOVED = ("pissa", "olora", "loftq", "corda", "lora_ga")


class Heads(msgspec.Struct, frozen=True):
    """How many attention heads there are: of queries, and of keys and values."""

    query: int
    key: int


class _Pair(msgspec.Struct, frozen=True):
    """The two matrices on one layer, as arrays, and what their product is multiplied with."""

    layer: str
    a: Any  # rank x inputs
    b: Any  # outputs x rank
    scale: float


def write_adapter(model: Any, path: Path, *, adapter: str = "default") -> Path:
    """The adapter of a peft model in memory, as it is now, into `path`, which is replaced in one go."""
    config = model.config.get_text_config()
    if config.model_type != "llama":
        raise ModelError(
            f"llama.cpp's adapters are written here for Llama models only; this one is {config.model_type}."
        )
    if model.active_adapters != [adapter]:
        raise ModelError(f"llama.cpp gets the adapter {adapter}, but the model runs with {model.active_adapters}.")
    _check_settings(model.peft_config[adapter].to_dict())
    return _write(_pairs_of(model, adapter), Heads(config.num_attention_heads, config.num_key_value_heads), path)


def convert_adapter(folder: Path, path: Path, *, weights: Path) -> Path:
    """The adapter that peft saved in `folder`, for the base in the GGUF file `weights`, into `path`."""
    try:
        settings = msgspec.json.decode((folder / CONFIG).read_bytes())
        tensors = read_tensors(folder / WEIGHTS)
    except (OSError, msgspec.DecodeError, Damaged) as error:
        raise ModelError(
            f"{folder} holds no adapter that can be read: {error}. "
            "Give the folder with adapter_config.json and adapter_model.safetensors."
        ) from None
    _check_settings(settings)
    return _write(_pairs_in(tensors, settings, folder), heads_of(weights), path)


def converted(folder: Path, weights: Path) -> Path:
    """The same in the cache, under the hash of the adapter: made on first use, about twice the adapter's size."""
    heads = heads_of(weights)
    target = cache_dir() / "adapters" / f"{sha256(folder)[:24]}-{heads.query}-{heads.key}.gguf"
    if target.is_file():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as aside:  # whoever looks sees a whole file or none
            convert_adapter(folder, Path(aside) / target.name, weights=weights).replace(target)
    except ImportError:
        raise ModelError(
            'Adapters for llama.cpp need the package gguf; in a checkout: pip install ".[embedded]".'
        ) from None
    except OSError as error:
        raise ModelError(
            f"The adapter {folder} cannot be kept for llama.cpp in {target.parent}: {error.strerror or error}. "
            "Set COMPEER_CACHE to a folder that can be written."
        ) from error
    return target


def heads_of(weights: Path) -> Heads:
    """The heads of a Llama model in a GGUF file. Its header is read only as far as it must be: behind the sizes come
    the words, and those take seconds."""
    wanted = {"general.architecture", "llama.attention.head_count", "llama.attention.head_count_kv"}
    with weights.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelError(f"{weights} is not a GGUF file.")
        _, _, entries = struct.unpack("<IQQ", file.read(20))
        found: dict[str, Any] = {}
        while len(found) < len(wanted) and entries:
            name = _string(file)
            value = _value(file, _number(file, "I"))
            found |= {name: value} if name in wanted else {}
            entries -= 1
    if found.get("general.architecture") != "llama":
        kind = found.get("general.architecture", "nameless")
        raise ModelError(f"{weights} holds a {kind} model; adapters are converted for Llama models only.")
    query = int(found["llama.attention.head_count"])
    return Heads(query, int(found.get("llama.attention.head_count_kv", query)))


def _value(file: BinaryIO, kind: int) -> Any:
    """One value of a GGUF header. Lists are passed over."""
    if kind == 8:
        return _string(file)
    if kind != 9:
        return _number(file, "BbHhIif?  Qqd"[kind])
    of, length = struct.unpack("<IQ", file.read(12))
    for _ in range(length):
        _value(file, of)
    return None


def _string(file: BinaryIO) -> str:
    return file.read(_number(file, "Q")).decode()


def _number(file: BinaryIO, form: str) -> Any:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]


def _check_settings(settings: Mapping[str, Any]) -> None:
    """peft's settings: nothing but two matrices for each layer, on the base as it was published."""
    kind = getattr(settings.get("peft_type"), "value", settings.get("peft_type"))
    if kind != "LORA":
        raise ModelError(f"llama.cpp takes LoRA adapters; this one is {kind}.")
    found = next((name for name in _BEYOND if settings.get(name)), None)
    if found or settings.get("bias", "none") != "none":
        raise ModelError(
            f"This adapter is more than two matrices for each layer ({found or 'bias'}), and llama.cpp loads no more "
            "than those. Train it without."
        )
    start = str(settings.get("init_lora_weights")).lower()
    if start.startswith(_MOVED):
        raise ModelError(f"init_lora_weights: {start} changes the base itself, which llama.cpp has as it was before.")


def _pairs_of(model: Any, adapter: str) -> Iterable[_Pair]:
    for name, layer in model.named_modules():
        if adapter in getattr(layer, "lora_embedding_A", {}):
            raise _misplaced(name)
        if adapter in getattr(layer, "lora_A", {}):
            a, b = layer.lora_A[adapter].weight, layer.lora_B[adapter].weight
            yield _Pair(name, _array(a), _array(b), float(layer.scaling[adapter]))


def _pairs_in(tensors: Mapping[str, Any], settings: Mapping[str, Any], folder: Path) -> Iterable[_Pair]:
    if settings.get("rank_pattern") or settings.get("alpha_pattern"):
        raise ModelError(f"The adapter {folder} has a rank or alpha pattern; such an adapter cannot be converted.")
    root = math.sqrt if settings.get("use_rslora") else float
    left = set(tensors)
    for name in sorted(tensors):
        layer, found, _ = name.partition(".lora_A.weight")
        if found:
            a, b = tensors[name], tensors.get(f"{layer}.lora_B.weight")
            if b is None:
                raise ModelError(f"The adapter {folder} is damaged: {layer} has an A and no B.")
            left -= {name, f"{layer}.lora_B.weight"}
            yield _Pair(layer, _array(a), _array(b), settings["lora_alpha"] / root(a.shape[0]))
    if left:
        raise _misplaced(min(left))


def _write(pairs: Iterable[_Pair], heads: Heads, path: Path) -> Path:
    import gguf
    import numpy

    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    writer = gguf.GGUFWriter(part, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    alpha: float | None = None
    for pair in pairs:
        place = _LAYER.search(pair.layer)
        if place is None or place[2] not in _NAMES:
            raise _misplaced(pair.layer)
        rank = pair.a.shape[0]
        if alpha is None:
            alpha = pair.scale * rank
            writer.add_float32("adapter.lora.alpha", alpha)
        a, b = (numpy.ascontiguousarray(matrix, dtype=numpy.float32) for matrix in (pair.a, pair.b))
        if place[2] in ("q_proj", "k_proj"):
            b = _interleaved(b, heads.query if place[2] == "q_proj" else heads.key)
        if not math.isclose(pair.scale * rank, alpha, rel_tol=1e-6):
            b = b * numpy.float32(pair.scale * rank / alpha)
        name = f"blk.{place[1]}.{_NAMES[place[2]]}.weight"
        writer.add_tensor(f"{name}.lora_a", a)
        writer.add_tensor(f"{name}.lora_b", b)
    if alpha is None:
        raise ModelError("There are no LoRA matrices in this model, so there is nothing to write for llama.cpp.")
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _interleaved(b: Any, heads: int) -> Any:
    """Rows from transformers' order (first halves, then second halves of a head) to llama.cpp's (pair after pair)."""
    rows, rank = b.shape
    return b.reshape(heads, 2, rows // heads // 2, rank).swapaxes(1, 2).reshape(rows, rank)


def _array(weight: Any) -> Any:
    """Of torch or of numpy, as numpy's."""
    return weight.detach().float().cpu().numpy() if hasattr(weight, "detach") else weight


def _misplaced(layer: str) -> ModelError:
    short = layer.removeprefix("base_model.model.")
    return ModelError(
        f"The adapter changes {short}, which llama.cpp cannot do. It takes LoRA on {', '.join(_NAMES)} of the blocks: "
        "name those as targets."
    )
