"""GGUF files: the header of one, and a LoRA adapter of a Llama or Qwen2 model as llama.cpp loads it.

A header is read only as far as it must be: behind the sizes come the words, and those take longer.

The adapter comes from the model that is being trained, in memory (milliseconds, so that a rollout can follow every
step), or from a folder that peft has saved (so that a trained adapter can be used with the embedded model).

    write_adapter(model, Path("adapter.gguf"))
    convert_adapter(Path("run/model"), Path("adapter.gguf"), weights=locate())
    converted(Path("run/model"), locate())      the same, kept in the cache

For Llama models llama.cpp rotates neighbouring pairs of a head's components where transformers rotates the first half
against the second. The rows of the query and key projections are therefore in another order in the base's GGUF file,
and the rows of their B matrices must follow. Qwen2 models keep the order of transformers. llama.cpp knows one alpha for
all layers; a layer whose scale differs from it carries the rest in its B.

Only what llama.cpp can add to its weights is written: matrices A and B on the seven linear layers of a block. Anything
else in an adapter (DoRA, biases, embeddings, whole modules) is refused: leaving it out would give another model. So is
an adapter that was trained for another base than the one at hand: it carries the hash of its base (`check_base`).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from compeer.models.request import ModelError
from compeer.models.shipped import CONFIG, WEIGHTS, base_of, sha256
from compeer.models.weights import KNOWN, cache_dir, cannot_keep, finish_gguf, remembered_sha256, whole_file

#: numpy's names of the kinds that adapters have; bfloat16, which it lacks, is the upper half of a float32
_KINDS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


def read_tensors(path: Path) -> dict[str, Any]:
    """All tensors of a safetensors file by name, as float32, without torch. ModelError when it is torn."""
    import numpy as np
    from safetensors import SafetensorError, deserialize

    found: dict[str, Any] = {}
    try:
        for name, tensor in deserialize(path.read_bytes()):  # type: ignore[no-untyped-call]
            values = np.frombuffer(tensor["data"], dtype=_KINDS[tensor["dtype"]])
            if tensor["dtype"] == "BF16":
                values = (values.astype(np.uint32) << 16).view(np.float32)
            found[name] = values.astype(np.float32).reshape(tensor["shape"])
    except SafetensorError as error:
        raise ModelError(f"{path.name} is damaged ({error})") from None
    except KeyError as kind:
        raise ModelError(f"{path.name} has tensors of the kind {kind}, which adapters do not use") from None
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


_ARCHITECTURES = {"llama": "llama", "qwen2": "qwen2"}  # of transformers, and of llama.cpp
_BASE_KEY = "compeer.base.sha256"
_ADAPTER = "default"  # peft's name of a model's only adapter


class Shape(msgspec.Struct, frozen=True):
    """What an adapter needs to know of a model: architecture, number of query heads, number of key and value heads."""

    architecture: str
    query: int
    key: int


class _Pair(msgspec.Struct, frozen=True):
    """The two matrices of one layer, and the factor of their product."""

    layer: str
    a: Any  # rank x inputs
    b: Any  # outputs x rank
    scale: float


def write_adapter(model: Any, path: Path) -> Path:
    """The adapter of a peft model in memory, as it is now, into `path`, which is replaced in one go."""
    config = model.config.get_text_config()
    if config.model_type not in _ARCHITECTURES:
        known = " and ".join(_ARCHITECTURES)
        raise ModelError(f"Adapters for llama.cpp are written for {known} models only; this is {config.model_type}.")
    if model.active_adapters != [_ADAPTER]:
        raise ModelError(f"llama.cpp gets the adapter {_ADAPTER}, but the model runs with {model.active_adapters}.")
    _check_settings(model.peft_config[_ADAPTER].to_dict())
    kind = _ARCHITECTURES[config.model_type]
    shape = Shape(kind, config.num_attention_heads, config.num_key_value_heads)
    return _write(_pairs_of(model), shape, path)


def convert_adapter(folder: Path, path: Path, *, weights: Path) -> Path:
    """The adapter that peft saved in `folder`, for the base in the GGUF file `weights`, into `path`."""
    try:
        settings = msgspec.json.decode((folder / CONFIG).read_bytes())
        tensors = read_tensors(folder / WEIGHTS)
    except (OSError, msgspec.DecodeError, ModelError) as error:
        raise ModelError(
            f"{folder} holds no adapter that can be read: {error}. "
            "Give the folder with adapter_config.json and adapter_model.safetensors."
        ) from None
    _check_settings(settings)
    check_base(folder, weights)
    return _write(_pairs_in(tensors, settings, folder), shape_of(weights), path, base_of(folder).sha256)


def converted(folder: Path, weights: Path) -> Path:
    """The converted adapter in the cache, under its hash. Made on first use; about twice the size of the adapter."""
    check_base(folder, weights)
    shape = shape_of(weights)
    target = cache_dir() / "adapters" / f"{sha256(folder)[:24]}-{shape.query}-{shape.key}.gguf"
    if target.is_file():
        return target
    try:
        return convert_adapter(folder, target, weights=weights)
    except ImportError:
        needed = 'Adapters for llama.cpp need the packages gguf and safetensors: pip install "compeer-esc[embedded]".'
        raise ModelError(needed) from None
    except OSError as error:
        raise cannot_keep(f"The adapter {folder}, converted for llama.cpp,", error) from error


def shape_of(weights: Path) -> Shape:
    """The architecture and the heads of the model in a GGUF file."""
    kind = fields(weights, {"general.architecture"}).get("general.architecture", "nameless")
    if kind not in _ARCHITECTURES.values():
        known = " and ".join(sorted(set(_ARCHITECTURES.values())))
        raise ModelError(f"{weights} holds a {kind} model; adapters are converted for {known} models only.")
    count = f"{kind}.attention.head_count"
    found = fields(weights, {count, f"{count}_kv"})
    query = int(found[count])
    return Shape(kind, query, int(found.get(f"{count}_kv", query)))


def check_base(adapter: Path, weights: Path) -> None:
    """Refuse an adapter that names another base. An adapter without a base is accepted."""
    if adapter.is_dir():
        told = base_of(adapter).sha256
    else:
        told = fields(adapter, {_BASE_KEY}).get(_BASE_KEY) if adapter.read_bytes()[:4] == b"GGUF" else None
    if told is None or told == (found := remembered_sha256(weights)):
        return
    known = next((one.name for one in KNOWN if one.sha256 == told), f"weights with the sha256 {told[:12]}…")
    raise ModelError(
        f"The adapter {adapter} was trained for {known}; {weights.name} (sha256 {found[:12]}…) is another model. "
        "Use it with the base that it belongs to."
    )


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


def _pairs_of(model: Any) -> Iterable[_Pair]:
    for name, layer in model.named_modules():
        if _ADAPTER in getattr(layer, "lora_embedding_A", {}):
            raise _misplaced(name)
        if _ADAPTER in getattr(layer, "lora_A", {}):
            a, b = (each[_ADAPTER].weight.detach().float().cpu().numpy() for each in (layer.lora_A, layer.lora_B))
            yield _Pair(name, a, b, float(layer.scaling[_ADAPTER]))


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
            yield _Pair(layer, a, b, settings["lora_alpha"] / root(a.shape[0]))
    if left:
        raise _misplaced(min(left))


def _write(pairs: Iterable[_Pair], shape: Shape, path: Path, base: str | None = None) -> Path:
    import gguf
    import numpy

    with whole_file(path) as part:
        writer = gguf.GGUFWriter(part, shape.architecture)
        writer.add_type("adapter")
        writer.add_string("adapter.type", "lora")
        if base:
            writer.add_string(_BASE_KEY, base)
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
            if shape.architecture == "llama" and place[2] in ("q_proj", "k_proj"):
                b = _interleaved(b, shape.query if place[2] == "q_proj" else shape.key)
            if not math.isclose(pair.scale * rank, alpha, rel_tol=1e-6):
                b = b * numpy.float32(pair.scale * rank / alpha)
            name = f"blk.{place[1]}.{_NAMES[place[2]]}.weight"
            writer.add_tensor(f"{name}.lora_a", a)
            writer.add_tensor(f"{name}.lora_b", b)
        if alpha is None:
            raise ModelError("There are no LoRA matrices in this model, so there is nothing to write for llama.cpp.")
        finish_gguf(writer)
    return path


def _interleaved(b: Any, heads: int) -> Any:
    """Rows from transformers' order (first halves, then second halves of a head) to llama.cpp's (pair after pair)."""
    rows, rank = b.shape
    return b.reshape(heads, 2, rows // heads // 2, rank).swapaxes(1, 2).reshape(rows, rank)


def _misplaced(layer: str) -> ModelError:
    short = layer.removeprefix("base_model.model.")
    return ModelError(
        f"The adapter changes {short}, which llama.cpp cannot do. It takes LoRA on {', '.join(_NAMES)} of the blocks: "
        "name those as targets."
    )


_FORMS = "BbHhIif?  Qqd"  # of a number, by its kind; 8 is a string, 9 a list
_CONTROL, _OWN = 3, 4  # kinds of a token: control, added by whoever made the model


def fields(path: Path, wanted: Set[str]) -> dict[str, Any]:
    """The values of the wanted names in the file's header. Other lists are skipped."""
    found: dict[str, Any] = {}
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ModelError(f"{path} is not a GGUF file.")
            _, _, entries = struct.unpack("<IQQ", file.read(20))
            while len(found) < len(wanted) and entries:
                name = _string(file).decode("utf-8", "replace")
                value = _value(file, _number(file, "I"), name in wanted)
                found |= {name: value} if name in wanted else {}
                entries -= 1
    except (struct.error, IndexError, MemoryError):
        raise ModelError(f"{path} is not a whole GGUF file: its header cannot be read.") from None
    return {name: _text(value) if isinstance(value, bytes) else value for name, value in found.items()}


def control_tokens(path: Path) -> set[str]:
    """The control tokens of a model as text, without single characters."""
    names = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
    found = fields(path, set(names))
    tokens, kinds = (found.get(name) or [] for name in names)
    control = (_text(token) for token, kind in zip(tokens, kinds, strict=False) if kind in (_CONTROL, _OWN))
    return {token for token in control if len(token) > 1 and not token.isspace()}


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int, keep: bool) -> Any:
    if kind == 8:
        return _string(file)
    if kind != 9:
        return _number(file, _FORMS[kind])
    of, length = struct.unpack("<IQ", file.read(12))
    if of == 8:
        found = [_string(file) for _ in range(length)]
        return found if keep else None
    if of == 9:
        return [_value(file, of, keep) for _ in range(length)]
    data = file.read(length * struct.calcsize(f"<{_FORMS[of]}"))
    return list(struct.unpack(f"<{length}{_FORMS[of]}", data)) if keep else None


def _string(file: BinaryIO) -> bytes:
    return file.read(_number(file, "Q"))


def _number(file: BinaryIO, form: str) -> Any:
    return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]
