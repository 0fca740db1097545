"""SFT, judges and GRPO: the package's trainers, with the numbers of config.yaml.

Every training is a run folder under OUT/runs that goes on where it was cut off. The evaluation judge is a UnifiReward
like the training judge, on other dialogues; no policy ever meets it.

When a training has ended its adapter is rounded to bfloat16 and its checkpoints go: what is measured, and what later
trainings start from, is then exactly what can be shipped, and the folder of a session is small enough to be carried.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec

from runs.miniature.pieces import Work
from runs.miniature.settings import over

JUDGES = ("unified", "prm", "orm", "evaluation")
_POINTS = 40  # of a curve that a note keeps
_CURVE = ("reward/total", "reward/reweighted", "diversity/distinct_2", "diversity/self_similarity", "format/incomplete")


def sft(work: Work) -> dict[str, Any]:
    from compeer.policy.sft import SftConfig, train

    given = {
        "out": str(work.run("sft")),
        "model": work.base,
        "data": [str(work.items("sft"))],
        "name": "SFT",
        "literary": True,  # what the miniature has always learned from
        "seed": work.settings.seed,
        "device": work.settings.device,
    }
    done = train(msgspec.convert(work.settings.sft | given, SftConfig), quiet=work.tiny)
    settle(work.run("sft"))
    return _brief(done)


def judge(work: Work, name: str) -> dict[str, Any]:
    from compeer.reward.train import JudgeTraining, train

    given = {
        "out": str(work.run("judges", name)),
        "base": work.base,
        "train": [str(work.items("evaluation" if name == "evaluation" else "judge"))],
        "kind": "unified" if name == "evaluation" else name,
        "epochs": work.settings.judges.epochs[name],
        "seed": work.settings.seed,
        "device": work.settings.device,
    }
    trained = train(msgspec.convert(work.settings.judges.plan | given, JudgeTraining))
    settle(work.run("judges", name))
    return _brief(trained.results)


def judge_spec(work: Work, name: str) -> str:
    """A trained judge as commands name it; `separate` is PRM and ORM as one, `untrained` the base."""
    if name == "separate":
        return f"{judge_spec(work, 'prm')},{judge_spec(work, 'orm')}"
    if name == "untrained":
        return "hf:embedded:small:plain" if work.base == "embedded:small" else f"hf:{work.base}"
    return f"hf:{work.run('judges', name, 'model')}"


def grpo(work: Work, name: str, change: dict[str, Any], seed: int) -> dict[str, Any]:
    """One run of GRPO from the SFT model, in the folder OUT/runs/NAME; `change` goes over what all runs share."""
    from compeer.policy.grpo.config import config_of
    from compeer.policy.grpo.run import train

    out = work.run(*name.split("/"))
    given: dict[str, Any] = {
        "out": str(out),
        "model": str(work.run("sft")),
        "data": [str(work.items("prompts"))],
        "name": name,
        "judge": {"spec": judge_spec(work, "separate" if change.get("variant") == "por" else "unified")},
        "embedder": work.settings.embedder,
        "seed": seed,
        "device": work.settings.device,
    }
    done = train(config_of(over(over(work.settings.grpo, change), given)), quiet=work.tiny)
    settle(out)
    return _brief(done) | {"curve": curve(out / "metrics.jsonl")}


def settle(run: Path) -> None:
    """A finished run without its checkpoints, its adapter in bfloat16. Done twice, it changes nothing."""
    import torch
    from safetensors.torch import load_file, save_file

    adapter = run / "model" / "adapter_model.safetensors"
    halved = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in load_file(adapter).items()}
    part = adapter.with_suffix(".part")
    save_file(halved, part, metadata={"format": "pt"})
    part.replace(adapter)
    shutil.rmtree(run / "checkpoints", ignore_errors=True)


def curve(path: Path) -> list[dict[str, float]]:
    """What a run logged, thinned out: enough to draw it."""
    lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]
    logged = [line for line in lines if _CURVE[0] in line]
    every = max(1, -(-len(logged) // _POINTS))
    return [
        {"step": line["step"], **{name: round(line[name], 4) for name in _CURVE if name in line}}
        for line in logged[::every]
    ]


def _brief(results: dict[str, Any]) -> dict[str, Any]:
    """Without the paths of this machine."""
    return {name: value for name, value in results.items() if name not in ("run", "opens_as", "model")}
