"""The judge is trained: it learns what it is shown, says what it is, and refuses what would spoil it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.endpoints.process import ROOT
from tests.training.small import item, small_model

from compeer.cer.item import QUESTIONS, Item
from compeer.config import load
from compeer.dialogue import write_rows
from compeer.errors import UserError
from compeer.reward.case import case_of
from compeer.reward.local_judge import LocalJudge
from compeer.reward.train import JudgeTraining, RowSettings, Trained, rows, train
from compeer.reward.verdict import Kind

ITEMS = [item(number) for number in range(32)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("judge")
    write_rows(folder / "train.jsonl", ITEMS)
    write_rows(folder / "valid.jsonl", [item(number) for number in range(40, 44)])
    small_model(folder / "base", ITEMS)
    return folder


def config(home: Path, out: str, **changes: Any) -> JudgeTraining:
    values: dict[str, Any] = {
        "out": str(home / out),
        "base": str(home / "base"),
        "train": (str(home / "train.jsonl"),),
        "batch_size": 2,
        "learning_rate": 3e-3,
        "warmup": 0.02,
        "save_every": 1000,
        "epochs": 16,
    }
    return JudgeTraining(**values | changes)


def accuracy(model: str, kind: Kind, items: list[Item]) -> dict[str, float]:
    """The share of right verdicts for each question, the pair shown in the order in which it was learnt."""
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    judge = LocalJudge(model)
    assert judge.kind == kind
    for first in (True, False):
        chosen = [one for one in items if next(rows(one, RowSettings(kind=kind))).candidate_first is first]
        order = "candidate_first" if first else "reference_first"
        found = asyncio.run(judge.judge([case_of(one) for one in chosen], orders=order))  # type: ignore[arg-type]
        for one, judgement in zip(chosen, found, strict=True):
            assert judgement.failure is None
            verdicts = {name: step.value for name, step in zip(QUESTIONS, judgement.steps, strict=False)}
            for question, value in (verdicts | {"preference": judgement.preference}).items():
                if value is not None:
                    asked[question] += 1
                    right[question] += value == getattr(one.labels, question)
    return {question: right[question] / count for question, count in asked.items()}


class TestLearning:
    @pytest.mark.parametrize(
        ("kind", "parts", "epochs"),
        [
            ("unified", {"history", "emotion", "strategy", "preference"}, 14),
            ("prm", {"history", "emotion", "strategy"}, 11),
            ("orm", {"preference"}, 12),
        ],
    )
    def test_32_items_are_learnt_by_heart(self, home: Path, kind: Kind, parts: set[str], epochs: int) -> None:
        trained = train(config(home, f"overfit-{kind}", kind=kind, epochs=epochs))
        found = accuracy(trained.model, kind, ITEMS)
        assert set(found) == parts
        assert min(found.values()) >= 0.95, found
        run = Path(trained.run)
        lines = [msgspec.json.decode(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]
        losses = [line["loss"] for line in lines if "loss" in line]
        assert losses[-1] < 0.2 * losses[0]
        assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")


class TestResult:
    @pytest.fixture(scope="class")
    def trained(self, home: Path) -> Trained:
        settings = config(home, "whole", epochs=1, batch_size=8, valid=(str(home / "valid.jsonl"),), save_every=None)
        return train(settings, "# mine\n")

    def test_the_folder_says_what_the_judge_is(self, home: Path, trained: Trained) -> None:
        told = msgspec.json.decode((Path(trained.model) / "judge.json").read_bytes())
        assert told["kind"] == "unified" and told["base"] == str(home / "base") and told["max_length"] == 4096
        assert told["languages"] == ["en"] and told["labels"] == ["human"] and told["revision"].startswith("compeer ")

    def test_the_card_names_data_licences_seed_and_limits(self, home: Path, trained: Trained) -> None:
        card = (Path(trained.run) / "README.md").read_text()
        noted = msgspec.json.decode((Path(trained.run) / "run.json").read_bytes())
        assert noted["data"]["train"][0]["sha256"] in card and "CC0" in card and "- Seed: 0" in card
        assert noted["base"]["sha256"] in card and "## Limits" in card and "learning_rate: 0.003" in card
        assert (Path(trained.model) / "README.md").read_text() == card

    def test_the_best_checkpoint_on_the_validation_rows_is_the_result(self, trained: Trained) -> None:
        from safetensors.torch import load_file

        results = trained.results
        lines = [msgspec.json.decode(line) for line in (Path(trained.run) / "metrics.jsonl").read_bytes().splitlines()]
        losses = {line["step"]: line["eval_loss"] for line in lines if "eval_loss" in line}
        assert len(losses) == 4 and results["best_step"] == min(losses, key=lambda step: losses[step])
        assert results["eval_loss"] == min(losses.values())
        best = load_file(Path(trained.run) / "checkpoints" / f"checkpoint-{results['best_step']}" / "model.safetensors")
        saved = load_file(Path(trained.model) / "model.safetensors")
        assert all((best[name] == saved[name]).all() for name in saved)

    def test_transformers_opens_it_as_any_model(self, trained: Trained) -> None:
        import transformers

        model = transformers.AutoModelForCausalLM.from_pretrained(trained.model)
        tokenizer = transformers.AutoTokenizer.from_pretrained(trained.model)
        assert model.get_input_embeddings().num_embeddings == len(tokenizer)
        assert (
            tokenizer.chat_template
            == transformers.AutoTokenizer.from_pretrained(trained.model + "/../../base").chat_template
        )

    def test_a_finished_training_is_not_done_again(self, home: Path, trained: Trained) -> None:
        before = (Path(trained.model) / "model.safetensors").stat().st_mtime_ns
        settings = config(home, "whole", epochs=1, batch_size=8, valid=(str(home / "valid.jsonl"),), save_every=None)
        again = train(settings)
        assert again.already and again.results == trained.results
        assert (Path(trained.model) / "model.safetensors").stat().st_mtime_ns == before

    def test_other_data_or_settings_are_refused_by_name(self, home: Path, trained: Trained) -> None:
        settings = config(home, "whole", epochs=1, batch_size=8, valid=(str(home / "valid.jsonl"),), save_every=None)
        other = msgspec.structs.replace(settings, train=(str(home / "valid.jsonl"),))
        with pytest.raises(UserError, match="the train data was"):
            train(other)
        with pytest.raises(UserError, match=r"learning_rate was 0\.003, is 0\.001"):
            train(msgspec.structs.replace(settings, learning_rate=1e-3))


class TestRefusing:
    def test_items_of_a_test_set(self, home: Path, tmp_path: Path) -> None:
        write_rows(tmp_path / "mixed.jsonl", [item(0), item(1, split="test")])
        with pytest.raises(UserError, match=r"mixed\.jsonl: item small/1 belongs to a test set"):
            train(config(home, "tested", train=(str(tmp_path / "mixed.jsonl"),)))

    def test_a_file_without_a_single_label(self, home: Path, tmp_path: Path) -> None:
        from compeer.cer.item import Labels

        write_rows(tmp_path / "bare.jsonl", [item(0, labels=Labels())])
        with pytest.raises(UserError, match="nothing to train on"):
            train(config(home, "bare", train=(str(tmp_path / "bare.jsonl"),)))

    def test_a_broken_line_is_named(self, home: Path, tmp_path: Path) -> None:
        (tmp_path / "broken.jsonl").write_bytes(msgspec.json.encode(item(0)) + b'\n{"id": "x", "round": "two"}\n')
        with pytest.raises(UserError, match=r"broken\.jsonl, line 2"):
            train(config(home, "broken", train=(str(tmp_path / "broken.jsonl"),)))

    def test_pictures_for_a_model_that_cannot_see_unless_they_are_dropped(self, home: Path, tmp_path: Path) -> None:
        from PIL import Image

        from compeer.models.checkpoint import ChatTokenizer, open_tokenizer
        from compeer.reward.train import _items, make

        Image.new("RGB", (60, 60)).save(tmp_path / "a.png")
        write_rows(tmp_path / "seen.jsonl", [item(0, images=("a.png",))])
        settings = config(home, "seen", train=(str(tmp_path / "seen.jsonl"),))
        with pytest.raises(UserError, match=r"a\.png, and this model cannot see"):
            train(settings)
        dropped = msgspec.structs.replace(settings, pictures="drop")
        words = ChatTokenizer(*open_tokenizer(str(home / "base")))
        assert make(_items(dropped.train, dropped), dropped, words, 4096).counts["rows"] == 1


class TestConfig:
    def write(self, folder: Path, text: str) -> Path:
        (folder / "judge.yaml").write_text(text)
        return folder / "judge.yaml"

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ("out: a\nbase: b\ntrain: []\n", r"length >= 1.*\$\.train"),
            ("out: a\nbase: b\ntrain: [x]\nkind: both\n", r"both.*\$\.kind"),
            ("out: a\nbase: b\ntrain: [x]\nlearning_rate: -1\n", r"> 0.*\$\.learning_rate"),
            ("out: a\nbase: b\ntrain: [x]\nlora: {rank: 4}\n", r"rank.*\$\.lora"),
            ("out: a\nbase: b\ntrain: [x]\nlerning_rate: 1\n", "lerning_rate"),
            ("out: a\ntrain: [x]\n", "base"),
            ("- out\n", "must be a list of settings"),
            ("out: [\n", "is not usable"),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path: Path, text: str, named: str) -> None:
        with pytest.raises(UserError, match=named):
            load(self.write(tmp_path, text), JudgeTraining)

    def test_the_paper_s_values_are_the_defaults(self, tmp_path: Path) -> None:
        settings = load(self.write(tmp_path, "out: a\nbase: b\ntrain: [x]\n"), JudgeTraining)
        assert settings.learning_rate == 1e-5 and settings.batch_size == 64 and settings.kind == "unified"
        assert settings.lora is None

    def test_changes_on_the_command_line(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "out: a\nbase: b\ntrain: [x]\nlearning_rate: 1e-4\n")
        settings = load(path, JudgeTraining, ["lora.r=8", "epochs=2", "valid=[y, z]", "out=c"])
        assert settings.lora and settings.lora.r == 8 and settings.lora.alpha == 32
        assert (settings.epochs, settings.valid, settings.out, settings.learning_rate) == (2, ("y", "z"), "c", 1e-4)
        with pytest.raises(UserError, match="Write NAME=VALUE"):
            load(path, JudgeTraining, ["epochs"])

    @pytest.mark.parametrize("path", sorted((ROOT / "configs" / "reward").glob("*.yaml")), ids=lambda path: path.name)
    def test_every_shipped_configuration_is_read(self, path: Path) -> None:
        settings = load(path, JudgeTraining)
        assert settings.learning_rate > 0
