"""The judge, the cold start and GRPO, each for a few steps, from the adapters that come along.

What `compeer reward train`, `policy sft` and `policy grpo` do with configs/*/laptop.yaml, with smaller numbers. Every
step is a checkpoint, so a start that was cut off loses one step at most. Where no adapter comes along, or on another
base, a new one is begun.
"""

from __future__ import annotations

from typing import Any

from compeer.demo.folder import Folder
from compeer.demo.stages import Made
from compeer.typed import from_plain

_LORA = {"r": 16, "alpha": 32}


def judge(folder: Folder) -> Made:
    from compeer.reward.learning.train import Config, train

    sizes = folder.sizes
    given = {
        "out": str(folder.path("judge")),
        "base": folder.base,
        "train": [str(folder.rows("judge"))],
        "learning_rate": 2e-5,  # a nudge: it has been trained before
        "batch_size": sizes.judge_batch,
        "max_length": 1536,
    }
    trained = train(from_plain(given | _start(folder, "judge") | _few(folder), Config))
    results = trained.results
    told = f"{results['steps']} steps on {sizes.judge_items} items, loss {results['train_loss']:.3f}"
    return Made(told + _from(folder, "judge"), {"steps": results["steps"], "loss": results["train_loss"]})


def sft(folder: Folder) -> Made:
    from compeer.policy.sft import Config, train

    sizes = folder.sizes
    given = {
        "out": str(folder.path("sft")),
        "name": "SFT",
        "model": folder.base,
        "data": [str(folder.rows("sft"))],
        "length": "brief",
        "learning_rate": 5e-5,
        "batch_size": sizes.sft_batch,
        "max_prompt": 768,
        "max_length": 1280,
    }
    results = train(from_plain(given | _start(folder, "supporter") | _few(folder), Config))
    told = f"{results['steps']} steps on {sizes.sft_items} turns with written-out reasoning, loss "
    told += f"{results['train_loss']:.3f}" + _from(folder, "supporter")
    return Made(told, {"steps": results["steps"], "loss": results["train_loss"]})


def grpo(folder: Folder) -> Made:
    from compeer.policy.grpo.config import config_of
    from compeer.policy.grpo.run import train

    sizes = folder.sizes
    given: dict[str, Any] = {
        "out": str(folder.path("policy")),
        "name": "GRPO",
        "model": str(folder.path("sft")),
        "data": [str(folder.rows("prompts"))],
        "variant": "urp",  # the unified judge, and redundancy reweighting
        "reward": {"soft": True},
        "judge": {"spec": f"hf:{folder.path('judge', 'model')}", "budget": 600},
        "length": "brief",
        "max_prompt": 768,
        "max_completion": sizes.completion,
        "batch": sizes.grpo_batch,
        "group": sizes.group,
        "micro_batch": sizes.group,
        "learning_rate": 2e-5,
        "steps": sizes.grpo_steps,
        "seed": sizes.seed,
        "device": "cpu",
        "save_every": 1,
        "keep": 1,
    }
    results = train(config_of(given))
    rewards = [results.get(f"reward/total at {when}", float("nan")) for when in ("first", "last")]
    told = (
        f"{results['steps']} steps of {sizes.grpo_batch * sizes.group} outputs; the judge's reward (-5 to 5) at first "
        f"{rewards[0]:.2f}, at last {rewards[1]:.2f}"
    )
    return Made(told, {"steps": results["steps"]})


def _start(folder: Folder, role: str) -> dict[str, Any]:
    """From the adapter that came along when the demo was begun, or from a new one."""
    return {"adapter": "shipped"} if role in folder.settings.adapters else {"lora": _LORA}


def _few(folder: Folder) -> dict[str, Any]:
    """What short trainings on a processor have in common."""
    return {
        "micro_batch": 1,
        "epochs": 1,
        "warmup": 0.0,
        "schedule": "constant",
        "seed": folder.sizes.seed,
        "device": "cpu",
        "save_every": 1,
        "keep": 1,
        "log_every": 1,
    }


def _from(folder: Folder, role: str) -> str:
    return f"; from the shipped {role}" if role in folder.settings.adapters else "; from a new adapter"
