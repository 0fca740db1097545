"""What TRL is told: the paper's settings, the layout, and how outputs are written.

Outputs can be written by five programs. vLLM is by far the fastest where there is a GPU: in this process (`colocate`)
or as a server. `graph` needs nothing but torch: on a GPU it writes every token of a small model of the Llama kind in
one launch, where transformers starts a thousand kernels one by one; on a CPU all outputs of a step share one reading of
the weights, which pays from eight of them on. For fewer, llama.cpp is faster. All but transformers compute in another
precision than the one that is trained, or in another order; their log-probabilities come along, and the loss is
corrected by the ratio.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from compeer.errors import UserError
from compeer.policy.grpo.config import Config
from compeer.policy.grpo.layout import Layout
from compeer.policy.grpo.start import Start
from compeer.training.model import arguments as device_arguments
from compeer.training.model import on_gpu
from compeer.training.run import Run, processes

_FEW = 8  # outputs that a process writes at once, below which llama.cpp is faster on a CPU


def rollout_of(config: Config, start: Start) -> str:
    """The program that writes outputs, also where it was left open."""
    if config.rollout == "auto":
        gpu = on_gpu(config.training(start.base, start.lora))
        if gpu and importlib.util.find_spec("vllm"):
            return "vllm-colocate"
        if start.base != "embedded":
            return "transformers"
        few = config.batch * config.group < _FEW * processes()
        suits = not gpu and start.lora is not None and importlib.util.find_spec("xllamacpp")
        return "llamacpp" if few and suits else "graph"
    if config.rollout.startswith("vllm") and not importlib.util.find_spec("vllm"):
        raise UserError(
            f"rollout: {config.rollout} needs vLLM in this environment: pip install vllm. It may ask for another "
            "version of transformers; rollout: transformers does without."
        )
    return config.rollout


def grpo_arguments(
    config: Config, layout: Layout, start: Start, run: Run, way: str, *, held_out: int, sees: bool
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


def _vllm(config: Config, way: str) -> dict[str, Any]:
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


def _most(config: Config) -> int:
    """Tokens that may stand before an output; in a conversation earlier turns do."""
    return max(config.max_prompt, config.conversation.talks.longest if config.conversation else 0)


def _logging(config: Config, run: Run) -> dict[str, Any]:
    for name in config.log_to:
        if not importlib.util.find_spec(name):
            raise UserError(f"log_to names {name}, which is not installed: pip install {name}.")
    if "tensorboard" in config.log_to:
        os.environ.setdefault("TENSORBOARD_LOGGING_DIR", str(run.folder / "tensorboard"))
    return {"report_to": list(config.log_to)} if config.log_to else {}
