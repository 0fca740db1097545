"""The model to train: all of it or a LoRA adapter, text or vision, and its result on disk.

Of a vision model the tower stays as it is, and the language model and the merger between the two (the paper's
"adapter") are trained. Trained weights are float32, whatever the arithmetic; the base under an adapter is kept in the
precision of the arithmetic.

    opened = open_model(ModelSettings(base="embedded:small", lora=Lora()), seed=0)
    trainer = SomeTrainer(model=opened.model, processing_class=opened.processing, args=Config(**arguments(settings)))
    save_model(trainer, opened, run.model)

What is saved opens in transformers and peft, and in `compeer.models.local`: a whole model as a folder, an adapter as
a folder beside its base. An adapter to start from is not merged but trained further (`open_with`), so that the result
is again one adapter on the same base; `merge` makes one whole model of both, for servers that know no adapters or
not these. `shipped` names the adapter in the package (`compeer.models.shipped`).
"""

from __future__ import annotations

import functools
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer.dialogue import write_json
from compeer.errors import UserError
from compeer.models.checkpoint import model_sha256, open_checkpoint
from compeer.models.request import ModelError
from compeer.models.shipped import BASE_FILE, CONFIG, Role, adapter, base_of, is_adapter
from compeer.models.weights import SMALL, locate, of_base, remembered_sha256
from compeer.training.run import is_main, processes, wait_for_all

#: parameters of a vision tower, and among them those of the merger
TOWER = re.compile(r"(?:^|\.)(?:visual|vision_tower|vision_model)\.")
MERGER = re.compile(r"merger|multi_modal_projector|connector")
_FROZEN = r"(?:.*\.)?(?:visual|vision_tower|vision_model)\.(?!.*(?:merger|connector)).*"
#: how text and pictures become input; the result's are the base's own, byte for byte
_PREPARING = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
              "merges.txt", "tokenizer.model", "chat_template.jinja", "chat_template.json", "processor_config.json",
              "preprocessor_config.json", "video_preprocessor_config.json")  # fmt: skip


class Lora(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A low-rank adapter. `targets`: names of linear layers; without them every one but the output layer."""

    r: int = 16
    alpha: int = 32
    dropout: float = 0.05
    targets: tuple[str, ...] | None = None


class HeldModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the model that every training configuration has. Without `lora` all weights are trained."""

    lora: Lora | None = None  # {} takes the defaults
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"  # of the arithmetic; auto: bfloat16 on a GPU that has it
    device: Literal["auto", "cpu", "cuda"] = "auto"
    gradient_checkpointing: bool | None = None  # by default on a GPU, for any model but the small embedded one

    def settings(self, base: str, lora: Lora | None) -> ModelSettings:
        """The settings for opening a model from this base."""
        held = {"dtype": self.dtype, "device": self.device, "gradient_checkpointing": self.gradient_checkpointing}
        return ModelSettings(base=base, lora=lora, **held)  # type: ignore[arg-type]


class ModelSettings(HeldModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the model to train."""

    base: str  # a folder, a hub name, "embedded:small" or "embedded"


class Trainable(msgspec.Struct, frozen=True):
    """A model ready for training, with its tokenizer and processor."""

    model: Any
    tokenizer: Any
    processor: Any | None
    settings: ModelSettings

    @property
    def processing(self) -> Any:
        """What trainers call the processing class."""
        return self.processor or self.tokenizer

    def parameters(self) -> tuple[int, int]:
        """Number of trained parameters, and of all parameters."""
        counts = [(weight.numel(), weight.requires_grad) for weight in self.model.parameters()]
        return sum(size for size, trained in counts if trained), sum(size for size, _ in counts)


def open_model(settings: ModelSettings, seed: int = 0) -> Trainable:
    """Load the base, freeze what is not trained, and add the adapter, whose initial weights depend on the seed."""
    import transformers

    transformers.utils.logging.disable_progress_bar()  # a bar for each file that is read or written
    weights = "bfloat16" if settings.lora and precision(settings) == "bfloat16" else "float32"
    opened = open_checkpoint(settings.base, device="cpu", dtype=weights)  # the trainer moves it
    model = opened.model
    if getattr(model.config, "quantization_config", None) is not None:
        if of_base(settings.base) is None:
            raise ModelError(f"{settings.base} is quantized; training needs the full weights.")
        model = _plain(model)
    model.config.use_cache = False
    for name, weight in model.named_parameters():
        weight.requires_grad_(not (TOWER.search(name) and not MERGER.search(name)))
    transformers.set_seed(seed)  # the adapter's first weights are drawn by chance
    if settings.lora:
        model = _with_adapter(model, settings.lora, settings.base)
    else:
        # by default a checkpoint is written under the names of the hub's, which a trainer cannot read back: resuming a
        # vision model would begin again with the base's weights, in silence
        model.save_pretrained = functools.partial(model.save_pretrained, save_original_format=False)
    return Trainable(model.train(), opened.tokenizer, opened.processor, settings)


def arguments(settings: ModelSettings) -> dict[str, Any]:
    """Arguments about device and precision for a trainer of transformers or TRL."""
    _check_gpus(settings)
    checkpointing = settings.gradient_checkpointing
    if checkpointing is None:
        checkpointing = on_gpu(settings) and of_base(settings.base) != SMALL
    return {
        "use_cpu": not on_gpu(settings),
        "bf16": precision(settings) == "bfloat16",
        "gradient_checkpointing": checkpointing,
        "report_to": [],
        "disable_tqdm": True,
        "dataloader_pin_memory": on_gpu(settings),
    }


def on_gpu(settings: ModelSettings) -> bool:
    import torch

    if settings.device == "cuda" and not torch.cuda.is_available():
        raise ModelError("device is cuda, but torch finds no GPU here. Set device: auto, or install torch for CUDA.")
    return settings.device != "cpu" and torch.cuda.is_available()


def precision(settings: ModelSettings) -> str:
    """The dtype of the arithmetic."""
    import torch

    if settings.dtype != "auto":
        return settings.dtype
    return "bfloat16" if on_gpu(settings) and torch.cuda.is_bf16_supported() else "float32"


def _check_gpus(settings: ModelSettings) -> None:
    """One process and several GPUs would make a trainer copy the model to all of them, which TRL refuses."""
    import torch

    if on_gpu(settings) and processes() == 1 and torch.cuda.device_count() > 1:
        raise ModelError(
            f"This machine has {torch.cuda.device_count()} GPUs. To use all of them, start the same command with "
            "accelerate launch -m compeer.cli …; to use one, set CUDA_VISIBLE_DEVICES=0."
        )


def save_model(trainer: Any, opened: Trainable, folder: Path, beside: Mapping[str, Any] | None = None) -> None:
    """Save the trained model to `folder`, which appears only when complete. Every process must call this.

    `beside`: further JSON files by name.
    """
    part = folder.with_name(f"{folder.name}.part")
    if is_main() and part.exists():
        shutil.rmtree(part)
    wait_for_all()
    plugin = getattr(trainer.accelerator.state, "fsdp_plugin", None)
    if plugin is not None:
        plugin.set_state_dict_type("FULL_STATE_DICT")  # checkpoints may be in pieces, the result is not
    opened.model.__dict__.pop("save_pretrained", None)  # the result has the hub's names, which other tools expect
    trainer.save_model(str(part))
    wait_for_all()
    if not is_main():
        return
    (part / "training_args.bin").unlink(missing_ok=True)
    (part / "README.md").unlink(missing_ok=True)  # ours lies beside the folder
    _copy_preparing(opened, part)
    for name, content in (beside or {}).items():
        write_json(part / name, content)
    if folder.exists():
        shutil.rmtree(folder)
    part.rename(folder)


def _with_adapter(model: Any, lora: Lora, base: str) -> Any:
    import peft
    from transformers.integrations import is_deepspeed_zero3_enabled

    config = peft.LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=sorted(lora.targets or _linear_layers(model)),
        exclude_modules=_FROZEN if any(TOWER.search(name) for name, _ in model.named_modules()) else None,
        task_type="CAUSAL_LM",
    )
    # ZeRO-3 wants one dtype throughout; everywhere else the adapter is float32
    adapted = peft.get_peft_model(model, config, autocast_adapter_dtype=not is_deepspeed_zero3_enabled())
    adapted.peft_config["default"].base_model_name_or_path = str(Path(base).resolve()) if Path(base).is_dir() else base
    return adapted


def _linear_layers(model: Any) -> set[str]:
    """Names of the linear layers for an adapter: plain (`q_proj`), or the full path for those of a merger."""
    import torch

    head = model.get_output_embeddings()
    found = set()
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear) and layer is not head:
            last = name.rpartition(".")[2]
            found.add(name if last.isdigit() or (TOWER.search(name) and MERGER.search(name)) else last)
    # layers that occur in the vision tower and nowhere else: naming them would only confuse a reader
    outside = {name.rpartition(".")[2] for name, _ in model.named_modules() if not TOWER.search(name)}
    return {name for name in found if "." in name or name in outside}


def _plain(model: Any) -> Any:
    """The weights in a fresh model, because a model read from a GGUF file counts as quantized and cannot be saved."""
    config = type(model.config).from_dict(
        {name: value for name, value in model.config.to_dict().items() if name != "quantization_config"}
    )
    fresh = type(model)(config).to(model.dtype)
    fresh.load_state_dict(model.state_dict())
    fresh.generation_config = model.generation_config
    return fresh


def _copy_preparing(opened: Trainable, folder: Path) -> None:
    base = opened.settings.base
    if (known := of_base(base)) is not None:
        if opened.settings.lora:  # the adapter says whose it is
            record = {"name": known.name, "sha256": remembered_sha256(locate(known))}
            write_json(folder / BASE_FILE, record)
        opened.tokenizer.save_pretrained(folder)
        return
    from transformers.utils import cached_file

    for name in _PREPARING:
        found = cached_file(base, name, _raise_exceptions_for_missing_entries=False)
        target = folder / name
        if found:
            shutil.copyfile(found, target)
        else:
            target.unlink(missing_ok=True)


SHIPPED = "shipped"


def find_adapter(given: str | None, role: Role) -> Path | None:
    """The adapter folder that a setting names, or None."""
    if given is None:
        return None
    if given == SHIPPED:
        folder = adapter(role)
        if folder is None:
            raise UserError(f"adapter: {SHIPPED} means the {role} adapter in the package, and there is none here.")
        return folder
    if not is_adapter(Path(given)):
        raise UserError(f"There is no adapter in {given}. Give a folder that peft has saved, or {SHIPPED}.")
    return Path(given)


def shape_of(folder: Path, wanted: Lora | None = None) -> Lora:
    """The shape of a saved adapter; UserError if the settings ask for another one."""
    known = msgspec.json.decode((folder / CONFIG).read_bytes())
    found = Lora(
        r=known["r"],
        alpha=known["lora_alpha"],
        dropout=known.get("lora_dropout", 0.0),
        targets=tuple(sorted(known["target_modules"])),
    )
    if wanted is not None and (wanted.r, wanted.alpha) != (found.r, found.alpha):
        raise UserError(
            f"The adapter {folder} has r {found.r} and alpha {found.alpha}; lora asks for r {wanted.r} and alpha "
            f"{wanted.alpha}. Leave lora out: training continues with the shape of the adapter."
        )
    return found


def start_identity(base: str, folder: Path | None = None) -> dict[str, Any]:
    """Identity of a base and its adapter: hashes, or name and commit for a model on the hub."""
    on_it = {"adapter": model_sha256(str(folder))} if folder else {}
    if of_base(base) is not None or Path(base).is_dir():
        return {"sha256": model_sha256(base), **on_it}
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(base)
    except (OSError, ValueError) as error:
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(f"The base model {base} cannot be found: {first_line}") from None
    return {"hub": base, "commit": getattr(config, "_commit_hash", None), **on_it}


def open_with(folder: Path | None, settings: ModelSettings, seed: int) -> Trainable:
    """The model ready for training, with the weights of the adapter if one is given."""
    opened = open_model(settings, seed)
    if folder is not None:
        import peft

        weights = peft.load_peft_weights(str(folder), device="cpu")
        missing = peft.set_peft_model_state_dict(opened.model, weights).unexpected_keys
        if missing:
            raise UserError(f"The adapter {folder} does not fit {settings.base}: {missing[0]} has no place there.")
    return opened


def merge(folder: Path, out: Path, *, base: str | None = None, dtype: str = "bfloat16") -> str:
    """Write an adapter and its base as one model, with its judge.json if it has one; returns the name of the base.

    `base` is another place of the base than the one that the adapter names. The sum is made in float32.
    """
    import torch

    if out.exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty; choose another --out.")
    held = ModelSettings(base=base or base_of(folder).name, lora=shape_of(folder), dtype="float32", device="cpu")
    opened = open_with(folder, held, seed=0)
    whole = opened.model.merge_and_unload().to(getattr(torch, dtype))
    whole.config.use_cache = True
    part = out.with_name(f"{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    whole.save_pretrained(part)
    _copy_preparing(msgspec.structs.replace(opened, settings=msgspec.structs.replace(held, lora=None)), part)
    if (folder / "judge.json").is_file():
        shutil.copyfile(folder / "judge.json", part / "judge.json")
    if out.exists():
        out.rmdir()
    part.rename(out)
    return held.base
