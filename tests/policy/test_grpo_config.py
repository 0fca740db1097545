"""Settings of a GRPO run: the paper's values, presets, overrides, refusals, and every shipped file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from compeer.errors import UserError
from compeer.policy.grpo.arguments import plan
from compeer.policy.grpo.config import GrpoConfig, config_of, read_config
from compeer.training.model import Lora

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = sorted(path for path in (ROOT / "configs/policy").glob("*.yaml") if not path.name.startswith("sft"))
GIVEN: dict[str, Any] = {"out": "run", "model": "embedded", "data": ["x.jsonl"], "judge": {"spec": "embedded"}}


def test_the_defaults_are_the_papers() -> None:
    config = config_of(GIVEN)
    assert (config.learning_rate, config.batch, config.group, config.kl, config.clip) == (1e-6, 32, 4, 0.0, 0.2)
    assert (config.loss, config.scale, config.temperature) == ("grpo", "group", 1.0)
    reward = config.reward
    assert (reward.alpha, reward.beta, reward.tau_scale, reward.source, reward.reweight) == (
        0.5,
        5.0,
        1.0,
        "unified",
        True,
    )


@pytest.mark.parametrize(
    ("variant", "source", "reweight"),
    [("por", "prm+orm", False), ("ur", "unified", False), ("urp", "unified", True)],
)
def test_a_variant_fills_in_the_reward_and_keeps_the_rest_of_it(variant: str, source: str, reweight: bool) -> None:
    reward = config_of(GIVEN | {"variant": variant, "reward": {"soft": True}}).reward
    assert (reward.source, reward.reweight, reward.soft) == (source, reweight, True)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"lr": 1}, "unknown field `lr`"),
        ({"judge": {"spec": "embedded", "url": "x"}}, r"unknown field `url` - at `\$\.judge`"),
        ({"reward": {"wieghts": {}}}, r"unknown field `wieghts` - at `\$\.reward`"),
        ({"reward": {"weights": {"charm": 1}}}, "'charm' is not a part of the reward"),
        ({"variant": "ur", "reward": {"reweight": True}}, r"variant: ur means reward\.reweight: False, but it is True"),
        ({"variant": "sft"}, "compeer policy sft"),
        ({"variant": "best"}, "'best' is not a variant; choose one of por, ur, urp"),
        ({"judge": None}, "needs a judge"),
        ({"steps": 0}, "steps is 0"),
        ({"temperature": 0}, "outputs that do not differ teach nothing"),
        ({"data": []}, "data names no file"),
        ({"level": "output", "kl": 0.1}, "level: output is equation 2 as printed, which has no KL term"),
        ({"rollout": "magic"}, "Invalid enum value 'magic'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(GIVEN | more))
    with pytest.raises(UserError, match=said):
        read_config(tmp_path / "c.yaml")


def test_overrides_go_into_groups_and_numbers_may_be_written_as_people_write_them(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "out: run\nmodel: embedded\ndata: [x]\nlearning_rate: 1e-5\njudge: {spec: embedded}\n"
    )
    config = read_config(
        tmp_path / "c.yaml", ["judge.budget=30", "lora={r: 8}", "reward.weights.format=0.5", "clip=3e-1"]
    )
    assert (config.learning_rate, config.clip) == (1e-5, 0.3)
    assert config.judge is not None and (config.judge.budget, config.judge.spec) == (30.0, "embedded")
    assert config.lora is not None and config.lora.r == 8 and config.reward.weight("format") == 0.5
    with pytest.raises(UserError, match=r"'batch' is not a setting\. Write NAME=VALUE"):
        read_config(tmp_path / "c.yaml", ["batch"])
    with pytest.raises(UserError, match="cannot be read"):
        read_config(tmp_path / "none.yaml")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_file_can_be_used(path: Path) -> None:
    config = read_config(path)
    assert isinstance(config, GrpoConfig) and config.variant == "urp"
    launched = {"one-node-fsdp2": 4, "one-node-zero3": 8, "paper": 8, "several-nodes": 16}.get(path.stem, 1)
    assert plan(config.batch, config.group, launched, config.micro_batch, config.accumulation).share % config.group == 0


def test_the_launchers_files_are_complete() -> None:
    assert {path.stem for path in SHIPPED} == {
        "paper", "one-gpu", "one-node-fsdp2", "one-node-zero3", "several-nodes", "laptop",
    }  # fmt: skip
    for name, kind in (("fsdp2", "FSDP"), ("zero3", "DEEPSPEED"), ("several-nodes", "FSDP")):
        launcher = yaml.safe_load((ROOT / f"configs/accelerate/{name}.yaml").read_text())
        assert (launcher["distributed_type"], launcher["mixed_precision"]) == (kind, "bf16")


@pytest.mark.parametrize(
    ("base", "lora", "wanted"),
    [
        ("embedded", Lora(), "llamacpp"),
        ("embedded", None, "transformers"),
        ("/models/qwen", Lora(), "transformers"),
    ],
)
def test_the_rollout_is_chosen_by_the_model(base: str, lora: Lora | None, wanted: str) -> None:
    pytest.importorskip("xllamacpp")
    from types import SimpleNamespace

    from compeer.policy.grpo.arguments import rollout_of

    start: Any = SimpleNamespace(base=base, lora=lora)
    assert rollout_of(config_of(GIVEN | {"device": "cpu"}), start) == wanted
    assert rollout_of(config_of(GIVEN | {"rollout": "transformers"}), start) == "transformers"
