"""Settings of a GRPO run. The defaults are the paper's values.

    out: runs/out/policy
    model: runs/out/sft                      # where it starts: a model, an adapter, or the run of an SFT
    data: [runs/out/cer/dataset/jsonl/train.jsonl]
    variant: urp                             # por, ur or urp: the paper's variants of the reward
    judge: { spec: "http://127.0.0.1:8020" }  # compeer reward serve; for por two of them: PRM,ORM

A variant that contradicts a setting of the reward is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from compeer.config import convert, load
from compeer.errors import UserError
from compeer.models.spec import open_model
from compeer.policy.advantage import Level
from compeer.policy.composite import RewardSettings
from compeer.policy.multi_turn import TalkSettings, TalkWeights
from compeer.policy.seeker import Seeker, SeekerSettings
from compeer.reasoning.prompt import Length
from compeer.reward.judge import Orders
from compeer.training.model import HeldModel

if TYPE_CHECKING:
    from compeer.reward.client import JudgeClient

Rollout = Literal["auto", "transformers", "llamacpp", "vllm-server", "vllm-colocate"]
#: what the names of the paper mean for the reward
VARIANTS: dict[str, dict[str, Any]] = {
    "por": {"source": "prm+orm", "reweight": False},
    "ur": {"source": "unified", "reweight": False},
    "urp": {"source": "unified", "reweight": True},
}
#: settings that may change when a run is resumed: paths and logging, not what is learnt; the judge is compared by what
#: it is, not by its address
FREE = ("out", "micro_batch", "accumulation", "judge", "second_judge", "vllm", "save_every", "keep", "log_every",
        "samples", "log_to")  # fmt: skip


class JudgeConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A judge. `budget`: maximum seconds per step; outputs that are not judged by then are marked."""

    spec: str
    base_url: str | None = None
    budget: float = 120.0
    orders: Orders = "one"

    def client(self) -> JudgeClient:
        """The judge as the reward asks it."""
        from compeer.reward.client import JudgeClient
        from compeer.reward.spec import open_judge

        return JudgeClient(open_judge(self.spec, base_url=self.base_url), budget=self.budget, orders=self.orders)


class SecondJudgeConfig(JudgeConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A judge that the policy is not trained on. Every so many steps it scores answers to held-out prompts.

    Without `data` the prompts are held out of the training data.
    """

    every: int = 50
    prompts: int = 32
    data: tuple[str, ...] = ()


class TalkConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whole conversations with a simulated seeker instead of single outputs (`multi_turn`).

    `seeker` names the model that plays the seeker: embedded, hf:…, openai:….
    """

    seeker: str
    base_url: str | None = None
    talks: TalkSettings = TalkSettings()
    weights: TalkWeights = TalkWeights()
    settings: SeekerSettings = SeekerSettings()

    def open_seeker(self) -> Seeker:
        return Seeker(open_model(self.seeker, base_url=self.base_url), self.settings)


class VllmConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """vLLM, for rollouts: the address of a server, or a share of this machine's GPU memory.

    `engine` has further arguments of vLLM's engine in this process, such as `enforce_eager` or `kv_cache_memory_bytes`.
    """

    server: str = "http://127.0.0.1:8000"
    memory: float = 0.3
    tensor_parallel: int = 1
    engine: dict[str, Any] = {}


class GrpoConfig(HeldModel, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GRPO run."""

    out: str
    model: str  # embedded, a folder, a hub name, a folder with an adapter, or an SFT run
    data: tuple[str, ...]
    name: str = "policy"
    variant: str | None = None
    reward: RewardSettings = RewardSettings()
    judge: JudgeConfig | None = None
    second_judge: SecondJudgeConfig | None = None
    conversation: TalkConfig | None = None
    embedder: str | None = None  # a sentence-transformers model, instead of the packaged ones

    include_crisis: bool = False  # train on crisis items, after a person has reviewed them
    length: Length = "full"  # of the reasoning that the prompt asks for
    max_prompt: int = 2048  # tokens; the oldest turns go first
    max_completion: int = 1024
    temperature: float = 1.0
    rollout: Rollout = "auto"
    vllm: VllmConfig = VllmConfig()

    batch: int = 32  # prompts per step
    group: int = 4  # outputs per prompt
    micro_batch: int | None = None  # outputs at once in a process; derived by default
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
    # of the ratio in equation 2. output: one ratio per output, as printed. normalised: the same to the power of one
    # over its length (GSPO's)
    level: Level = "token"
    max_grad_norm: float = 1.0

    seed: int = 0

    save_every: int = 50  # steps
    keep: int = 2  # checkpoints
    log_every: int = 1
    samples: int = 8  # outputs per step that are saved with all parts of their reward
    log_to: tuple[Literal["tensorboard", "trackio", "wandb"], ...] = ()

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
        if self.level == "output" and self.kl:
            raise UserError("level: output is equation 2 as printed, which has no KL term. Set kl: 0 or another level.")
        if self.temperature <= 0:
            raise UserError(f"temperature is {self.temperature}; outputs that do not differ teach nothing.")


def read_config(path: str | Path, overrides: Sequence[str] = ()) -> GrpoConfig:
    """The settings of a YAML file, with overrides such as `batch=8` or `judge.budget=30`."""
    return load(path, GrpoConfig, overrides, prepare=with_variant)


def config_of(values: dict[str, Any], source: str | Path = "of this GRPO run") -> GrpoConfig:
    """The settings of a plain dictionary. `source` names them in an error."""
    return convert(with_variant(values), GrpoConfig, source)


def with_variant(values: dict[str, Any]) -> dict[str, Any]:
    """The settings with the reward that the variant stands for filled in."""
    variant, given = values.get("variant"), values.get("reward") or {}
    if variant == "sft":
        raise UserError("The variant sft is trained without a reward: compeer policy sft.")
    if variant is not None and variant not in VARIANTS:
        raise UserError(
            f"{variant!r} is not a variant; choose one of {', '.join(VARIANTS)} (and sft: compeer policy sft)."
        )
    preset = VARIANTS.get(variant, {}) if variant else {}
    for name, value in preset.items():
        if name in given and given[name] != value:
            raise UserError(
                f"variant: {variant} means reward.{name}: {value}, but it is {given[name]}. Leave one of them out."
            )
    return {**values, "reward": {**given, **preset}}
