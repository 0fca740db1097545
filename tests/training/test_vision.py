"""A vision model is trained on rows with and without pictures in one run; its tower stays as it was."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.training.small import in_child, item, kill_me

from compeer.dialogue import write_rows
from compeer.reward.case import case_of
from compeer.reward.local_judge import LocalJudge
from compeer.reward.train import JudgeTraining, _items, train
from compeer.training.model import Lora


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch
    from PIL import Image

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("pictures")
    for number, size in enumerate(((60, 80), (120, 90), (100, 70))):
        Image.effect_noise(size, 80).convert("RGB").save(folder / f"{number}.png")
    items = [item(number, images=(f"{number % 3}.png",) if number % 2 else ()) for number in range(6)]
    write_rows(folder / "train.jsonl", items)
    return folder


def config(data: Path, base: Path, out: str, **changes: Any) -> JudgeTraining:
    values: dict[str, Any] = {
        "out": str(data / out),
        "base": str(base),
        "train": (str(data / "train.jsonl"),),
        "kind": "orm",
        "batch_size": 2,
        "learning_rate": 1e-2,
        "epochs": 2,
        "save_every": 1,
        "log_every": 1,
    }
    return JudgeTraining(**values | changes)


def test_mixed_rows_train_score_and_resume_and_the_tower_is_untouched(data: Path, tiny_vision_dir: Path) -> None:
    import torch
    from safetensors.torch import load_file

    from compeer.training.watch import ProgressWatch

    done = train(config(data, tiny_vision_dir, "calm"))
    assert done.results["train"]["rows with pictures"] == 3 and done.results["train"]["rows"] == 6
    before, after = load_file(tiny_vision_dir / "model.safetensors"), load_file(Path(done.model) / "model.safetensors")
    assert set(before) == set(after), "under the names of the base"
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    tower = {name for name in before if "visual" in name and "merger" not in name}
    assert tower and not tower & changed
    assert {"visual.merger.mlp.0.weight", "model.embed_tokens.weight"} <= changed

    judge = LocalJudge(done.model)
    settings = config(data, tiny_vision_dir, "unused")
    found = asyncio.run(judge.judge([case_of(one) for one in _items(settings.train, settings)]))
    assert len(found) == 6 and all(one.failure is None and one.preference for one in found)

    usual = ProgressWatch.on_step_end

    def deadly(self: ProgressWatch, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        usual(self, args, state, control, **kwargs)
        if state.global_step == 3:
            kill_me()

    ProgressWatch.on_step_end = deadly  # type: ignore[method-assign]
    try:
        assert in_child(lambda: train(config(data, tiny_vision_dir, "killed"))) == -signal.SIGKILL  # type: ignore[arg-type, return-value]
    finally:
        ProgressWatch.on_step_end = usual  # type: ignore[method-assign]
    again = train(config(data, tiny_vision_dir, "killed"))
    files = [Path(one.model) / "model.safetensors" for one in (done, again)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_an_adapter_of_a_vision_model_opens_beside_it(data: Path, tiny_vision_dir: Path) -> None:
    import peft
    import transformers

    done = train(config(data, tiny_vision_dir, "adapter", lora=Lora(r=4), epochs=1, save_every=9))
    model = transformers.AutoModelForImageTextToText.from_pretrained(tiny_vision_dir)
    opened = peft.PeftModel.from_pretrained(model, done.model)
    assert any("merger" in name for name, _ in opened.named_modules() if "lora_A" in name)
    settings = config(data, tiny_vision_dir, "unused")
    judge = LocalJudge(done.model)
    found = asyncio.run(judge.judge([case_of(one) for one in _items(settings.train, settings)]))
    assert all(one.failure is None for one in found)
