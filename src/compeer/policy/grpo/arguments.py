"""What TRL is told: the paper's settings, the layout, and how outputs are written.

Outputs can be written by five programs. vLLM is by far the fastest where there is a GPU: in this process (`colocate`)
or as a server. `graph` needs nothing but torch: on a GPU it writes every token of a small model of the Llama kind in
one launch, where transformers starts a thousand kernels one by one; on a CPU all outputs of a step share one reading of
the weights, which pays from eight of them on. For fewer, llama.cpp is faster. All but transformers compute in another
precision than the one that is trained, or in another order; their log-probabilities come along, and the loss is
corrected by the ratio.

How the outputs of a step lie on processes and micro batches.

A step takes `batch` prompts with `group` outputs each. Every process writes and scores its share of them in one go
(TRL: micro batch x steps per generation), and learns from it in micro batches, whose gradients add up:

    outputs of a step  =  batch x group  =  processes x micro batch x accumulation

Equations 3, 5 and 6 look at whole groups, so the share of a process must hold whole groups; TRL splits them without a
word otherwise. A layout that would is refused here, before any model is loaded, with the arithmetic.

Where a policy starts from: a model, an adapter on one, or the run of an SFT.

A LoRA adapter is not merged but trained on, so that the result is again one adapter on the same base: it opens like the
one it began with, and llama.cpp can take it for rollouts.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import msgspec

from compeer.errors import UserError
from compeer.models.shipped import is_adapter
from compeer.policy.grpo.config import GrpoConfig
from compeer.training.model import Lora, ModelSettings, Trainable, on_gpu, open_with, shape_of, start_identity
from compeer.training.model import arguments as device_arguments
from compeer.training.run import Run, processes

AT_ONCE = 8  # outputs a micro batch, where nobody says otherwise: fits 7B with LoRA on one large GPU


class StepLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a step. `micro_batch` outputs at once in each process, `accumulation` times."""

    batch: int
    group: int
    processes: int
    micro_batch: int
    accumulation: int

    @property
    def outputs(self) -> int:
        """Of all processes together."""
        return self.batch * self.group

    @property
    def share(self) -> int:
        """Outputs of one process."""
        return self.micro_batch * self.accumulation

    def __str__(self) -> str:
        return (
            f"{self.batch} prompts x {self.group} outputs = {self.outputs} = {self.processes} processes "
            f"x {self.micro_batch} at once x {self.accumulation} times"
        )


def plan(
    batch: int, group: int, processes: int = 1, micro_batch: int | None = None, accumulation: int | None = None
) -> StepLayout:
    """The layout of a step, or a UserError with the arithmetic that does not work out.

    >>> str(plan(batch=32, group=4, processes=2))
    '32 prompts x 4 outputs = 128 = 2 processes x 8 at once x 8 times'
    """
    for name, value in (("batch", batch), ("micro_batch", micro_batch), ("accumulation", accumulation)):
        if value is not None and value < 1:
            raise UserError(f"{name} is {value}; it must be at least 1.")
    if group < 2:
        raise UserError(f"group is {group}; an advantage compares outputs, so a group has at least 2.")
    outputs = batch * group
    if batch % processes:
        raise UserError(
            f"{batch} prompts x {group} outputs = {outputs} outputs over {processes} processes are "
            f"{outputs / processes:g} each, which is {batch / processes:g} groups of {group}: a group would be split. "
            f"Choose a batch that {processes} divides ({_nearest(batch, processes)}), or {_counts(batch)} processes."
        )
    share = outputs // processes
    if micro_batch is None and accumulation is None:
        micro_batch = _largest(share, AT_ONCE)
    if micro_batch is None:
        assert accumulation is not None
        micro_batch = _divided(share, accumulation, "accumulation", batch, group, processes)
    times = _divided(share, micro_batch, "micro_batch", batch, group, processes)
    if accumulation not in (None, times):
        assert accumulation is not None
        made = micro_batch * accumulation
        split = f", and {made} is no multiple of {group}, so a group would be split" if made % group else ""
        raise UserError(
            f"micro_batch {micro_batch} x accumulation {accumulation} = {made} outputs a process, but {batch} prompts "
            f"x {group} outputs / {processes} processes = {share}{split}. Leave one of them out, or set "
            f"accumulation to {times}."
        )
    return StepLayout(batch=batch, group=group, processes=processes, micro_batch=micro_batch, accumulation=times)


def _divided(share: int, by: int, name: str, batch: int, group: int, processes: int) -> int:
    if share % by:
        raise UserError(
            f"{batch} prompts x {group} outputs / {processes} processes = {share} outputs a process, which {name} {by} "
            f"does not divide ({share / by:.3g}): a group would be split. Choose one of {_divisors(share)}."
        )
    return share // by


def _largest(share: int, most: int) -> int:
    return max(size for size in range(1, min(share, most) + 1) if share % size == 0)


def _divisors(number: int) -> str:
    return ", ".join(str(size) for size in range(1, number + 1) if number % size == 0)


def _nearest(batch: int, processes: int) -> str:
    below = batch - batch % processes
    return " or ".join(str(size) for size in (below, below + processes) if size)


def _counts(batch: int) -> str:
    found = [size for size in range(1, min(batch, 64) + 1) if batch % size == 0]
    return ", ".join(map(str, found[:-1])) + f" or {found[-1]}" if len(found) > 1 else "1"


class PolicyStart(msgspec.Struct, frozen=True):
    """The base, and the adapter that lies on it already."""

    base: str
    adapter: Path | None
    lora: Lora | None

    def identity(self) -> dict[str, Any]:
        """What tells this start from every other."""
        return start_identity(self.base, self.adapter)


def find_start(config: GrpoConfig) -> PolicyStart:
    """What `model` names. An adapter brings its own shape; settings that contradict it are refused."""
    given = Path(config.model)
    if (given / "run.json").is_file() and not is_adapter(given):
        given = given / "model"
        if not given.is_dir():
            raise UserError(
                f"The run {config.model} has no result yet. Finish it first, or give one of its checkpoints."
            )
    shape = given / "adapter_config.json"
    if not shape.is_file():
        return PolicyStart(str(given) if given.is_dir() else config.model, None, config.lora)
    known = msgspec.json.decode(shape.read_bytes())
    return PolicyStart(str(known["base_model_name_or_path"]), given, shape_of(given, config.lora))


def open_start(start: PolicyStart, settings: ModelSettings, seed: int) -> Trainable:
    """The model, ready to be trained, with the adapter's weights where there is one."""
    return open_with(start.adapter, settings, seed)


def rollout_of(config: GrpoConfig, start: PolicyStart) -> str:
    """The program that writes outputs, also where it was left open."""
    if config.rollout == "auto":
        gpu = on_gpu(config.training(start.base, start.lora))
        if gpu and importlib.util.find_spec("vllm"):
            return "vllm-colocate"
        suits = start.base == "embedded" and not gpu and start.lora is not None
        return "llamacpp" if suits and importlib.util.find_spec("xllamacpp") else "transformers"
    if config.rollout.startswith("vllm") and not importlib.util.find_spec("vllm"):
        raise UserError(
            f"rollout: {config.rollout} needs vLLM in this environment: pip install vllm. It may ask for another "
            "version of transformers; rollout: transformers does without."
        )
    return config.rollout


def grpo_arguments(
    config: GrpoConfig, layout: StepLayout, start: PolicyStart, run: Run, way: str, *, held_out: int, sees: bool
) -> Any:
    """TRL's GRPOConfig. Make it before the model is loaded: ZeRO-3 shards while loading."""
    from trl import GRPOConfig

    second = config.second_judge
    schedule = config.schedule
    return GRPOConfig(
        output_dir=str(run.checkpoints),
        # the step
        per_device_train_batch_size=layout.micro_batch,
        gradient_accumulation_steps=layout.accumulation,
        steps_per_generation=layout.accumulation,
        num_generations=layout.group,
        num_iterations=config.iterations,
        max_completion_length=config.max_completion,
        temperature=config.temperature,
        # equations 2 and 3
        beta=config.kl,
        epsilon=config.clip,
        loss_type=config.loss,
        scale_rewards=config.scale,
        importance_sampling_level=config.level,
        disable_dropout=True,  # or the ratio would not be 1 on what was just written
        # how long, how fast
        max_steps=config.steps or -1,
        num_train_epochs=config.epochs,
        learning_rate=config.learning_rate,
        lr_scheduler_type="constant_with_warmup" if schedule == "constant" and config.warmup else schedule,
        warmup_steps=config.warmup,
        max_grad_norm=config.max_grad_norm,
        seed=config.seed,
        # what is kept and shown
        logging_steps=config.log_every,
        logging_first_step=True,
        save_strategy="steps",
        save_steps=config.save_every,
        # the second judge
        eval_strategy="steps" if held_out else "no",
        eval_steps=second.every if second and held_out else None,
        eval_on_start=bool(held_out) and run.resume_from is None,
        num_generations_eval=1,
        per_device_eval_batch_size=max(1, min(layout.share, -(-held_out // processes()))),
        # a judge may use up its budget before the other processes hear of it
        ddp_timeout=int(max(1800.0, 4 * (config.judge.budget if config.judge else 0.0))),
        # of a vision model the merger has no part in a step of text
        ddp_find_unused_parameters=None if sees else False,
        **_vllm(config, way),
        **device_arguments(config.training(start.base, start.lora)),
        **_logging(config, run),
    )


def _vllm(config: GrpoConfig, way: str) -> dict[str, Any]:
    if not way.startswith("vllm"):
        return {}
    return {
        "use_vllm": True,
        "vllm_mode": way.removeprefix("vllm-"),
        "vllm_server_base_url": config.vllm.server if way == "vllm-server" else None,
        "vllm_gpu_memory_utilization": config.vllm.memory,
        "vllm_tensor_parallel_size": config.vllm.tensor_parallel,
        "vllm_max_model_length": _most(config) + config.max_completion,
    }


def _most(config: GrpoConfig) -> int:
    """Tokens that may stand before an output; in a conversation earlier turns do."""
    return max(config.max_prompt, config.conversation.talks.longest if config.conversation else 0)


def _logging(config: GrpoConfig, run: Run) -> dict[str, Any]:
    for name in config.log_to:
        if not importlib.util.find_spec(name):
            raise UserError(f"log_to names {name}, which is not installed: pip install {name}.")
    if "tensorboard" in config.log_to:
        os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(run.folder / "tensorboard"))
    return {"report_to": list(config.log_to)} if config.log_to else {}
