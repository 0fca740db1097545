"""`compeer cer export`: every format loads with `datasets`, and plain TRL, without our code, trains a step on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.command import compeer
from tests.policy.demonstrations import items

from compeer.cer.item import Candidate, Item, Labels, PastTurn
from compeer.dialogue import write_rows
from compeer.policy.bridges.datasets import FORMATS
from compeer.reasoning import parse

OFF: dict[str, Any] = {"use_cpu": True, "report_to": [], "max_steps": 1, "save_strategy": "no", "disable_tqdm": True,
                       "per_device_train_batch_size": 2}  # fmt: skip


def labelled() -> list[Item]:
    """Four moments with a candidate, both kinds of preference, one False step; then what nobody should learn from."""
    replace = msgspec.structs.replace
    found = []
    for number, item in enumerate(items()):
        candidate = Candidate(response="Cheer up!", reasoning=item.reference_reasoning, generator="test")
        labels = Labels(
            history=number != 1, emotion=True, strategy=True, preference=("reference", "candidate")[number % 2]
        )  # type: ignore[arg-type]
        found.append(replace(item, candidate=candidate, labels=labels, label_source="author"))
    crisis = replace(found[0], id="c#1", dialogue="c", history=(PastTurn("seeker", "I want to kill myself."),))
    unhelpful = replace(found[1], id="u#1", dialogue="u", helpful=False)
    return [*found, crisis, unhelpful]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("exported")
    write_rows(folder / "items.jsonl", labelled())
    found = {}
    for form in FORMATS:
        found[form] = folder / f"{form}.jsonl"
        done = compeer("cer", "export", str(folder / "items.jsonl"), "--format", form, "--out", str(found[form]),
                       "--length", "brief", "--json")  # fmt: skip
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        if form != "trl-prm":
            assert (told["rows"], told["crisis"], told["not helpful"]) == (4, 1, 1), form
    return found


def rows(path: Path) -> Any:
    import datasets

    return datasets.load_dataset("json", data_files=str(path), split="train", cache_dir=str(path.parent / "cache"))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_what_is_learned_is_the_contract_and_labels_are_the_items(exported: dict[str, Path]) -> None:
    for row in lines(exported["trl-sft"]):
        assert [message["role"] for message in row["prompt"]] == ["system", "user"]
        assert parse(row["completion"][0]["content"]).complete
    for row, openai, shared in zip(*(lines(exported[form]) for form in ("trl-sft", "openai", "sharegpt")), strict=True):
        assert openai["messages"] == row["prompt"] + row["completion"]
        assert [turn["value"] for turn in shared["conversations"]] == [one["content"] for one in openai["messages"][1:]]
        assert [turn["from"] for turn in shared["conversations"]] == ["human", "gpt"]
    pairs = lines(exported["trl-preference"])
    assert [pair["chosen"][0]["content"] == "Cheer up!" for pair in pairs] == [False, True, False, True]
    assert all({pair["chosen"][0]["content"], pair["rejected"][0]["content"]} >= {"Cheer up!"} for pair in pairs)
    steps = lines(exported["trl-prm"])
    assert len(steps) == 6 and [row["labels"] for row in steps[:2]] == [[True] * 3, [False, True, True]]
    assert all(len(row["completions"]) == 3 and "Stage: exploration" in row["completions"][0] for row in steps)
    assert rows(exported["trl-prm"]).features["labels"].feature.dtype == "bool"


@pytest.mark.parametrize("form", ["trl-sft", "openai", "sharegpt"])
def test_trl_learns_from_demonstrations(
    form: str, exported: dict[str, Path], tiny_model_dir: Path, tmp_path: Path
) -> None:
    from trl import SFTConfig, SFTTrainer

    arguments = SFTConfig(output_dir=str(tmp_path), max_length=None, **OFF)
    data = rows(exported[form])
    trainer = SFTTrainer(model=str(tiny_model_dir), args=arguments, train_dataset=data)
    assert trainer.train().training_loss > 0


def test_trl_learns_from_preferences(exported: dict[str, Path], tiny_model_dir: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from trl import DPOConfig, DPOTrainer, RewardConfig, RewardTrainer

    data = rows(exported["trl-preference"])
    dpo = DPOTrainer(
        model=str(tiny_model_dir), args=DPOConfig(output_dir=str(tmp_path / "dpo"), **OFF), train_dataset=data
    )
    assert dpo.train().training_loss == pytest.approx(0.6931, abs=1e-2), "nothing is preferred yet"
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_dir)
    model = AutoModelForSequenceClassification.from_pretrained(tiny_model_dir, num_labels=1)
    model.config.pad_token_id = tokenizer.pad_token_id
    judge = RewardTrainer(
        model=model, args=RewardConfig(output_dir=str(tmp_path / "rm"), **OFF), train_dataset=data,
        processing_class=tokenizer,
    )  # fmt: skip
    assert judge.train().training_loss > 0


def test_trl_rewards_prompts(exported: dict[str, Path], tiny_model_dir: Path, tmp_path: Path) -> None:
    from trl import GRPOConfig, GRPOTrainer

    seen: list[str] = []

    def reward(completions: list[Any], reference: list[str], **_: Any) -> list[float]:
        seen.extend(reference)
        return [float(len(one[0]["content"])) for one in completions]

    arguments = GRPOConfig(output_dir=str(tmp_path), num_generations=2, max_completion_length=8, **OFF)
    trainer = GRPOTrainer(
        model=str(tiny_model_dir), reward_funcs=reward, args=arguments, train_dataset=rows(exported["trl-grpo"])
    )
    trainer.train()
    assert seen and set(seen) <= {item.reference for item in items()}


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    write_rows(tmp_path / "items.jsonl", items())
    done = compeer("cer", "export", str(tmp_path / "items.jsonl"), "--format", "trl-prm", "--out", str(tmp_path / "x"))
    assert done.returncode == 1 and "nothing to learn 4" in done.stderr and not (tmp_path / "x").exists()
    done = compeer("cer", "export", str(tmp_path / "items.jsonl"), "--format", "csv", "--out", str(tmp_path / "x"))
    assert done.returncode == 1 and "trl-preference" in done.stderr
