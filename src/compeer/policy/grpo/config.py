"""The settings of a GRPO run, with the paper's values as defaults: a YAML file, overrides, presets.

    out: runs/out/policy
    model: runs/out/sft                      # where it starts: a model, an adapter, or the run of an SFT
    data: [runs/out/cer/dataset/jsonl/train.jsonl]
    variant: urp                             # por, ur or urp: the paper's variants of the reward
    judge: { spec: "http://127.0.0.1:8020" }  # compeer reward serve; for por two of them: PRM,ORM

A field that does not exist is refused by name, and so is a variant that contradicts what stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from compeer.errors import UserError
from compeer.policy.composite import Settings as Reward
from compeer.policy.multi_turn import Settings as TalkSettings
from compeer.policy.multi_turn import Weights as TalkWeights
from compeer.policy.seeker import Settings as SeekerSettings
from compeer.reasoning.prompt import Length
from compeer.reward.judge import Orders
from compeer.training.model import Lora
from compeer.training.model import Settings as ModelSettings
from compeer.typed import from_plain

Rollout = Literal["auto", "transformers", "llamacpp", "vllm-server", "vllm-colocate"]
#: what the names of the paper mean for the reward
VARIANTS: dict[str, dict[str, Any]] = {
    "por": {"source": "prm+orm", "reweight": False},
    "ur": {"source": "unified", "reweight": False},
    "urp": {"source": "unified", "reweight": True},
}
#: settings that may change when a run goes on: where things lie and what is shown, not what is learnt; the judge is
#: compared by what it is, not by where it lives
FREE = ("out", "micro_batch", "accumulation", "judge", "second_judge", "vllm", "save_every", "keep", "log_every",
        "samples", "log_to")  # fmt: skip


class Judge(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A judge and how it is asked. `budget`: seconds a step may wait for it; what is not judged then is marked."""

    spec: str
    base_url: str | None = None
    budget: float = 120.0
    orders: Orders = "one"


class SecondJudge(Judge, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A judge that the policy is not trained on, asked every so many steps about answers to held-out prompts.

    Without `data` the prompts are taken out of the training data.
    """

    every: int = 50
    prompts: int = 32
    data: tuple[str, ...] = ()


class Conversation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whole conversations with a simulated seeker in the place of single outputs (`multi_turn`).

    `seeker` names the model that plays it, as everywhere: embedded, hf:…, openai:….
    """

    seeker: str
    base_url: str | None = None
    talks: TalkSettings = TalkSettings()
    weights: TalkWeights = TalkWeights()
    settings: SeekerSettings = SeekerSettings()


class Vllm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where vLLM is, for the rollouts that use it: a server's address, or a share of this machine's GPUs."""

    server: str = "http://127.0.0.1:8000"
    memory: float = 0.3
    tensor_parallel: int = 1


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GRPO run."""

    out: str
    model: str  # embedded, a folder, a hub name, a folder with an adapter, or the run of an SFT
    data: tuple[str, ...]
    name: str = "policy"
    variant: str | None = None
    reward: Reward = Reward()
    judge: Judge | None = None
    second_judge: SecondJudge | None = None
    conversation: Conversation | None = None
    embedder: str | None = None  # a sentence-transformers model, instead of the packaged ones

    include_crisis: bool = False  # crisis items were reviewed and may be trained on
    length: Length = "full"  # of the reasoning that the prompt asks for
    max_prompt: int = 2048  # tokens; the oldest turns go first
    max_completion: int = 1024
    temperature: float = 1.0
    rollout: Rollout = "auto"
    vllm: Vllm = Vllm()

    batch: int = 32  # prompts a step
    group: int = 4  # outputs a prompt
    micro_batch: int | None = None  # outputs at once in a process; derived where it is not given
    accumulation: int | None = None
    steps: int | None = None  # instead of epochs
    epochs: float = 1.0
    learning_rate: float = 1e-6
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup: int = 0  # steps
    clip: float = 0.2  # epsilon of equation 2
    kl: float = 0.0  # weight of the distance to the start; the paper has none
    iterations: int = 1  # passes over the same outputs
    loss: Literal["grpo", "dapo", "dr_grpo", "bnpo"] = "grpo"
    scale: Literal["group", "batch", "none"] = "group"  # what equation 3 divides by
    level: Literal["token", "sequence"] = "token"  # of the ratio in equation 2
    max_grad_norm: float = 1.0

    lora: Lora | None = None  # without it the whole language model is trained
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    gradient_checkpointing: bool | None = None
    seed: int = 0

    save_every: int = 50  # steps
    keep: int = 2  # checkpoints
    log_every: int = 1
    samples: int = 8  # outputs a step that are kept with all their parts
    log_to: tuple[Literal["tensorboard", "trackio"], ...] = ()

    def __post_init__(self) -> None:
        if self.reward.source != "rules" and self.judge is None:
            raise UserError(
                f"A reward of source {self.reward.source} needs a judge: judge: {{ spec: … }}. "
                "Only reward: { source: rules } does without."
            )
        for name in ("max_prompt", "max_completion", "save_every", "log_every", "keep", "iterations"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        if self.steps is not None and self.steps < 1:
            raise UserError(f"steps is {self.steps}; it must be at least 1. Without it, epochs decide.")
        if not self.data:
            raise UserError("data names no file. Give files of CER items, one item a line.")
        if self.temperature <= 0:
            raise UserError(f"temperature is {self.temperature}; outputs that do not differ teach nothing.")

    def training(self, base: str, lora: Lora | None) -> ModelSettings:
        """What the model is opened with, when it starts from this base."""
        return ModelSettings(
            base=base,
            lora=lora,
            dtype=self.dtype,
            device=self.device,
            gradient_checkpointing=self.gradient_checkpointing,
        )


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """The settings in a YAML file, with `name=value` or `judge.budget=30` put over them; errors name the field."""
    import yaml

    try:
        raw = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return config_of(overridden(raw if isinstance(raw, dict) else {}, overrides))
    except OSError as error:
        raise UserError(f"The configuration {path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UserError(f"The configuration {path} is not usable: {error}.") from None


def config_of(raw: dict[str, Any]) -> Config:
    """The settings from a plain dictionary, the variant's reward filled in."""
    variant, given = raw.get("variant"), raw.get("reward") or {}
    if variant == "sft":
        raise UserError("The variant sft is trained without a reward: compeer policy sft.")
    if variant is not None and variant not in VARIANTS:
        raise UserError(f"{variant!r} is no variant; there are {', '.join(VARIANTS)} (and sft: compeer policy sft).")
    preset = VARIANTS.get(variant, {}) if variant else {}
    for name, value in preset.items():
        if name in given and given[name] != value:
            raise UserError(
                f"variant: {variant} means reward.{name}: {value}, but it is {given[name]}. Leave one of them out."
            )
    # not strict, because YAML takes 1e-6 for text
    return from_plain({**raw, "reward": {**given, **preset}}, Config, strict=False)


def overridden(raw: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Settings with some of them replaced, each given as NAME=VALUE; a dot goes into a group, the value is YAML.

    >>> overridden({"judge": {"spec": "embedded"}}, ["judge.budget=30", "batch=8"])
    {'judge': {'spec': 'embedded', 'budget': 30}, 'batch': 8}
    """
    import yaml

    made = from_plain(raw, dict[str, Any])
    for one in overrides:
        name, equals, text = one.partition("=")
        if not equals or not name:
            raise UserError(f"{one!r} is no setting; write NAME=VALUE, for example learning_rate=1e-5.")
        *groups, last = name.split(".")
        place = made
        for group in groups:
            inner = place.get(group)
            place[group] = place = dict(inner) if isinstance(inner, dict) else {}
        place[last] = yaml.safe_load(text)
    return made
