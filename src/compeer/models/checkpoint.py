"""A transformers checkpoint: what is in its folder, how it is opened, and how it writes a conversation.

`embedded` and `embedded:small` open the embedded models' files with transformers, which is what training starts from.
Vision models are recognised by their config and come with their processor.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import threading
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import msgspec

from compeer.models.request import ModelError, control_pattern, defused, image_bytes, parts_of
from compeer.models.weights import SMALL, locate, of_base, remembered_sha256

LOADING = threading.RLock()
"""Held while transformers opens weights. It switches the tying of weights off for the whole process meanwhile: of two
loads at once the later one would switch it off for good, and a tied model would speak with random last weights."""


_READ: dict[tuple[Any, ...], Any] = {}  # configs and tokenizers of GGUF files


class Checkpoint(msgspec.Struct, frozen=True):
    """A loaded model with its tokenizer; `processor` is there when it takes images."""

    model: Any
    tokenizer: Any
    processor: Any | None


def open_checkpoint(
    path: str, adapter: str | None = None, device: str | None = None, dtype: str = "auto"
) -> Checkpoint:
    """Load a model from a folder, the hub, or the embedded file; ModelError says what is missing.

    `dtype` is that of the weights ("float32", "bfloat16"), by default the one they are stored in.
    """
    try:
        with LOADING:  # of two threads that import it at once, the second would meet a module that is half there
            import torch
            import transformers

            text, pictures = transformers.AutoModelForCausalLM, transformers.AutoModelForImageTextToText
    except ImportError:
        needs = 'A local transformers model needs torch and transformers: pip install "compeer-esc[train]".'
        raise ModelError(needs) from None
    source, gguf = _source(path)
    stored = torch.float32 if gguf else "auto"
    options: dict[str, Any] = {"dtype": stored if dtype == "auto" else getattr(torch, dtype), **gguf}
    try:
        config = _read("AutoConfig", source, gguf)
        kind = text if getattr(config, "vision_config", None) is None else pictures
        if gguf:
            options["config"] = config  # or it would be read once more
        with LOADING:
            model = kind.from_pretrained(source, **options)
            if adapter:
                import peft

                model = peft.PeftModel.from_pretrained(model, adapter).merge_and_unload()
    except Exception as error:  # a damaged checkpoint fails in as many ways as there are formats
        raise _cannot_load(path, error) from error
    tokenizer, processor = open_tokenizer(path)
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    return Checkpoint(model.eval().to(place), tokenizer, processor)


def open_tokenizer(path: str) -> tuple[Any, Any | None]:
    """A model's tokenizer and, when it takes images, its processor, without its weights."""
    source, gguf = _source(path)
    try:
        config = _read("AutoConfig", source, gguf)
        tokenizer = _read("AutoTokenizer", source, gguf)
        processor = _processor(source, config) if getattr(config, "vision_config", None) is not None else None
    except Exception as error:
        raise _cannot_load(path, error) from error
    if tokenizer.chat_template is None and getattr(processor, "chat_template", None) is None:
        raise ModelError(f"The model {path} has no chat template, so it cannot hold a conversation.")
    if of_base(path) == SMALL:
        _split_digits(tokenizer)
    return tokenizer, processor


class ChatTokenizer:
    """A model's tokenizer and processor, and the chat template that both apply. A text cannot hold control tokens."""

    def __init__(self, tokenizer: Any, processor: Any | None = None) -> None:
        self.tokenizer, self.processor = tokenizer, processor
        self._templater = processor if processor is not None and processor.chat_template else tokenizer
        special = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
        self.control = control_pattern(special | set(tokenizer.all_special_tokens))
        self.image_token: int | None = getattr(processor, "image_token_id", None)

    @property
    def sees(self) -> bool:
        return self.processor is not None

    @property
    def pad(self) -> int:
        found = self.tokenizer.pad_token_id
        return int(self.tokenizer.eos_token_id if found is None else found)

    def render(self, chat: Sequence[Mapping[str, Any]], ask: bool = False) -> str:
        """The conversation as the template writes it; `ask`: with the opening of the assistant's turn."""
        text: str = self._templater.apply_chat_template(list(chat), tokenize=False, add_generation_prompt=ask)
        return text

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Messages as the template expects them: parts for a vision model, text for the others, no control tokens.
        Pictures keep their paths."""
        made: list[dict[str, Any]] = []
        for message in messages:
            kept = [
                part if part["type"] == "image" else {**part, "text": self.defused(part["text"])}
                for part in parts_of(message)
            ]
            shown = kept if self.sees else "\n".join(part["text"] for part in kept if part["type"] == "text")
            made.append({"role": message["role"], "content": shown})
        return made

    def ends_turn(self, text: str) -> bool:
        """Whether a text ends in a control token: without one a model never learns to stop."""
        return any(found.end() == len(text) for found in self.control.finditer(text))

    def defused(self, text: str) -> str:
        """The text with every control token broken by a space."""
        return defused(text, self.control)


def takes_images(path: str) -> bool:
    """Whether the model takes images; its config says so before the weights are loaded."""
    config = Path(path) / "config.json"
    if config.is_file():
        return "vision_config" in config.read_text(encoding="utf-8")
    if of_base(path) is not None:
        return False
    try:
        import transformers

        return getattr(transformers.AutoConfig.from_pretrained(path), "vision_config", None) is not None
    except (ImportError, OSError, ValueError):
        return False  # asking it will say what is wrong


#: the files of a checkpoint that decide its answers
_DECIDING_FILES = (
    "*.safetensors", "pytorch_model*.bin", "adapter_model.bin", "*.gguf", "config.json", "adapter_config.json",
    "tokenizer*", "vocab*", "merges.txt", "added_tokens.json", "special_tokens_map.json", "chat_template*",
    "*processor_config.json",
)  # fmt: skip
#: fields of a JSON file that say where a model is or which library wrote it
_IGNORED_FIELDS = ("base_model_name_or_path", "_name_or_path", "transformers_version", "peft_version")


def model_sha256(model: str) -> str | None:
    """A hash of what decides a checkpoint's answers: a folder, a file, `embedded`, or a hub name in the local cache.

    Two folders with the same weights, tokenizer and template are the same model, wherever they are: paths, dates and
    what a training run left beside the weights do not count. None where nothing lies here.
    """
    known = of_base(model)
    where = locate(known) if known else Path(model)
    if not where.exists():
        try:
            from huggingface_hub import try_to_load_from_cache

            found = try_to_load_from_cache(model, "config.json")
        except Exception:  # the package is missing, or this cannot be a hub name
            found = None
        if not isinstance(found, str):
            return None
        where = Path(found).parent
    if where.is_file():
        return remembered_sha256(where)
    files = sorted(file for file in where.iterdir() if any(fnmatch(file.name, form) for form in _DECIDING_FILES))
    whole = hashlib.sha256()
    for file in files:
        whole.update(f"{file.name} {_content_sha256(file)}\n".encode())
    return whole.hexdigest()


def _content_sha256(file: Path) -> str:
    if file.suffix != ".json":
        return remembered_sha256(file)
    data = file.read_bytes()
    with contextlib.suppress(msgspec.DecodeError):
        settings = msgspec.json.decode(data)
        if isinstance(settings, dict) and any(name in settings for name in _IGNORED_FIELDS):
            kept = {name: value for name, value in settings.items() if name not in _IGNORED_FIELDS}
            data = msgspec.json.encode(kept, order="sorted")
    return hashlib.sha256(data).hexdigest()


def picture(path: str) -> Any:
    """An image as processors want it."""
    from PIL import Image

    try:
        return Image.open(io.BytesIO(image_bytes(path)) if path.startswith("data:") else path).convert("RGB")
    except OSError as error:
        raise ModelError(f"The image {path[:200]} cannot be read: {error.strerror or error}.") from None


def _source(path: str) -> tuple[str, dict[str, str]]:
    """Where transformers looks for the model, and what it must be told about an embedded one."""
    known = of_base(path)
    if known is None:
        return path, {}
    weights = locate(known)
    return str(weights.parent), {"gguf_file": weights.name}


def _read(kind: str, source: str, gguf: dict[str, str]) -> Any:
    """The model's config or tokenizer, by the name of its class in transformers. Reading the words of a GGUF file takes
    seconds, so each state of a file is read once in a process, and whoever asks gets a copy."""
    import transformers

    opened = getattr(transformers, kind).from_pretrained
    if not gguf:
        return opened(source)
    file = Path(source) / gguf["gguf_file"]
    stat = file.stat()
    key = (kind, file, stat.st_size, stat.st_mtime_ns)
    with LOADING:
        if key not in _READ:
            _READ[key] = opened(source, **gguf)
        return copy.deepcopy(_READ[key])


def _split_digits(tokenizer: Any) -> None:
    """SmolLM2 has a token for each digit alone, of any script; transformers does not read that from the file."""
    from tokenizers import pre_tokenizers

    inner = tokenizer.backend_tokenizer
    inner.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), inner.pre_tokenizer])


def _cannot_load(path: str, error: Exception) -> ModelError:
    first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return ModelError(
        f"The model {path} cannot be loaded: {first_line} "
        "Give a folder with config.json, weights and tokenizer, or a hub name where there is a network."
    )


def _processor(source: str, config: Any) -> Any:
    """The checkpoint's processor. Where torchvision is missing, transformers refuses those that also take video
    (Qwen-VL's among them) although pictures alone do not need it; then the video half is left out."""
    import transformers
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

    try:
        return transformers.AutoProcessor.from_pretrained(source)
    except ImportError:
        kind = PROCESSOR_MAPPING[type(config)]

    class PicturesOnly(kind):  # type: ignore[misc, valid-type]
        @classmethod
        def get_attributes(cls) -> list[str]:
            return [name for name in kind.get_attributes() if name != "video_processor"]

    return PicturesOnly.from_pretrained(source)
