"""GRPO on a tiny model and a toy judge behind HTTP: TRL computes the paper's equations, pictures mix in, all is watched."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from tests.endpoints.letter_judge import LetterJudge
from tests.endpoints.process import ROOT, environment
from tests.policy import toy
from tests.policy.seeker_server import SeekerServer

from compeer.dialogue import write_rows
from compeer.errors import UserError
from compeer.policy.advantage import Level, advantages, objective
from compeer.policy.grpo.alerts import Alerts
from compeer.policy.grpo.run import GrpoSession, train
from compeer.policy.grpo.trainer import AlertCallback, StepOrder
from compeer.training.run import Record, open_run


@pytest.fixture(scope="module")
def judge() -> Iterator[str]:
    with LetterJudge() as service:
        yield service.url


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(next(folder.glob("*.safetensors")))


@pytest.mark.parametrize("level", ["token", "normalised", "output"])
def test_trl_computes_equations_2_and_3_on_a_real_batch(
    level: Level, tiny_model_dir: Path, judge: str, tmp_path: Path
) -> None:
    import torch

    config = toy.config(tmp_path, tiny_model_dir, judge, temperature=0.7, level=level, rollout="transformers")
    session = GrpoSession(config, quiet=True)
    run = session.open()
    trainer, opened, _ = session.trainer(run)
    trainer.model.train()
    inputs = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    rows = trainer.reward_funcs[0]._rows
    by_text = dict(zip([row.output for row in rows], advantages([row.reward for row in rows], 4), strict=True))
    texts = opened.tokenizer.batch_decode(inputs["completion_ids"], skip_special_tokens=True)
    assert inputs["advantages"].tolist() == pytest.approx([by_text[text] for text in texts], abs=1e-5)

    # equation 2, with an old policy from which the new one has moved, so that some ratios are clipped
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
    with torch.no_grad():
        logits = opened.model(input_ids=ids, attention_mask=mask).logits[:, :-1] / 0.7
    found = logits.log_softmax(-1).gather(-1, ids[:, 1:, None]).squeeze(-1)[:, -inputs["completion_ids"].shape[1] :]
    torch.manual_seed(3)
    old = found + torch.randn_like(found) * (0.02 if level == "output" else 0.4)  # a product of many ratios moves far
    inputs["old_per_token_logps"] = old
    trainer.current_gradient_accumulation_steps = 1
    loss = float(trainer.compute_loss(trainer.model, inputs))
    lengths = inputs["completion_mask"].sum(1).tolist()
    new_rows, old_rows = ([row[:size].tolist() for row, size in zip(one, lengths, strict=True)] for one in (found, old))
    values = inputs["advantages"].tolist()
    assert loss == pytest.approx(-objective(new_rows, old_rows, values, level=level), abs=1e-4)
    assert loss != pytest.approx(-objective(new_rows, new_rows, values, level=level), abs=1e-3)
    others = {one: objective(new_rows, old_rows, values, level=one) for one in get_args(Level) if one != level}
    assert all(loss != pytest.approx(-other, abs=1e-4) for other in others.values()), others
    session.close()
    run.close()


def test_text_and_pictures_train_in_one_run_and_the_tower_stays(
    tiny_vision_dir: Path, judge: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image
    from trl import GRPOTrainer

    usual, placed = GRPOTrainer._get_per_token_logps_and_entropies, []

    def look(self: Any, model: Any, ids: Any, mask: Any, kept: int, **options: Any) -> Any:
        if (kinds := options.get("mm_token_type_ids")) is not None:
            pictures = ids[:, :-kept] == self.processing_class.image_token_id
            placed.append(bool(pictures.any()) and bool((pictures == (kinds[:, :-kept] == 1)).all()))
        return usual(self, model, ids, mask, kept, **options)

    monkeypatch.setattr(GRPOTrainer, "_get_per_token_logps_and_entropies", look)
    paths = []
    for number in range(3):
        paths.append(str(tmp_path / f"{number}.png"))
        size = (60 + 50 * number, 60)  # different numbers of tokens, so that prompts are padded
        Image.new("RGB", size, (80 * number, 90, 20)).save(paths[-1])
    config = toy.settings(tmp_path, tiny_vision_dir, judge, steps=4, batch=2, micro_batch=4, learning_rate=1e-3)
    write_rows(tmp_path / "items.jsonl", toy.items(tuple(paths))[:5])
    second = {"spec": judge, "every": 2, "prompts": 5, "data": config["data"]}
    result = train(toy.config_of(config | {"epochs": 4, "second_judge": second}), quiet=True)
    samples = [row for row in lines(tmp_path / "run/samples.jsonl") if not row.get("held_out")]
    pictured = {f"t{number}#1" for number in range(3)}
    kinds = [
        {row["id"].partition("/")[0] in pictured for row in samples if row["step"] == step} for step in range(1, 5)
    ]
    assert set().union(*kinds) == {True, False}, "both were trained on"
    assert placed and all(placed), "the model is told where the pictures are, beside the padding"
    assert all(len(kind) == 1 for kind in kinds), "a step is all text or all pictures"
    assert result["steps"] == 4
    compared = [line for line in lines(tmp_path / "run/metrics.jsonl") if "eval_judge/second" in line]
    assert [line["step"] for line in compared] == [0, 2, 4]
    before, after = weights(tiny_vision_dir), weights(tmp_path / "run/model")
    changed = {name for name in after if not after[name].equal(before[name])}
    assert any("merger" in name for name in changed) and any("layers" in name for name in changed)
    assert not any("visual" in name and "merger" not in name for name in changed)


def test_a_second_judge_is_asked_and_leaves_the_training_as_it_is(
    tiny_model_dir: Path, judge: str, tmp_path: Path
) -> None:
    found = []
    with LetterJudge("o") as other:
        for name in ("with", "without"):
            folder = tmp_path / name
            folder.mkdir()
            config = toy.settings(folder, tiny_model_dir, judge, steps=3, reward={"soft": True})
            if name == "with":
                extra = [item for item in toy.items() if item.id in ("t1#1", "t2#1")]
                write_rows(folder / "extra.jsonl", extra)
                config["second_judge"] = {
                    "spec": other.url, "every": 2, "prompts": 8, "data": [str(folder / "extra.jsonl")],
                }  # fmt: skip
            train(toy.config_of(config), quiet=True)
            found.append(weights(folder / "run/model"))
    assert all(found[0][name].equal(found[1][name]) for name in found[0])
    compared = [line for line in lines(tmp_path / "with/run/metrics.jsonl") if "eval_judge/gap" in line]
    assert [line["step"] for line in compared] == [0, 2, 3], "at first, every second step, and at the end"
    assert all(
        line["eval_judge/training"] - line["eval_judge/second"] == pytest.approx(line["eval_judge/gap"])
        for line in compared
    )


def test_embedder_and_judge_are_loaded_before_the_configuration_of_the_trainer(
    tiny_model_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under ZeRO-3 transformers shards whatever is loaded after it, and the first reward fails."""
    from compeer.policy.grpo import run as grpo_run

    config = toy.config_of(toy.settings(tmp_path, tiny_model_dir, f"hf:{tiny_model_dir}"))
    first, second = GrpoSession(config, quiet=True), GrpoSession(config, quiet=True)
    loaded: list[tuple[bool, bool]] = []

    def arguments(*_: Any, **__: Any) -> Any:
        session = first if not loaded else second
        assert session.judge is not None
        loaded.append((bool(session.reward.embedder._functions), session.judge.judge._scorer is not None))  # type: ignore[attr-defined]
        raise InterruptedError

    monkeypatch.setattr(grpo_run, "grpo_arguments", arguments)
    try:
        run = first.open()  # asks the judge; the other processes do not
        for rank, session in enumerate((first, second)):
            monkeypatch.setenv("RANK", str(rank))
            with pytest.raises(InterruptedError):
                session.trainer(run)
        run.close()
    finally:
        first.close()
        second.close()
    assert loaded == [(True, True), (True, True)]


#: where `make test` puts DeepSpeed and the extension that it compiles
DEEPSPEED = Path(sys.prefix) / "deepspeed"


@pytest.mark.skipif(not (DEEPSPEED / "ready").exists(), reason="DeepSpeed is installed by hand, or by make test")
def test_rewards_are_computed_under_zero_3(tiny_model_dir: Path, tmp_path: Path) -> None:
    more = {"steps": 2, "batch": 2, "micro_batch": 8, "judge": None, "reward": {"source": "rules", "reweight": True}}
    config = toy.settings(tmp_path, tiny_model_dir, "") | more
    (tmp_path / "config.json").write_text(json.dumps(config))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    deepspeed = {
        "PATH": f"{DEEPSPEED / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(DEEPSPEED),
        "TORCH_EXTENSIONS_DIR": str(DEEPSPEED / "extensions"),
    }
    done = subprocess.run(
        [*launch, "-m", "tests.policy.zero3", str(tmp_path / "config.json")], cwd=ROOT,
        env=environment() | {"OMP_NUM_THREADS": "1"} | deepspeed, capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1])["steps"] == 2


def test_a_step_is_watched_from_every_side(tiny_model_dir: Path, judge: str, tmp_path: Path) -> None:
    result = train(toy.config(tmp_path, tiny_model_dir, judge, steps=2, reward={"soft": True}, samples=5), quiet=True)
    run = Path(result["run"])
    line = next(line for line in lines(run / "metrics.jsonl") if line["step"] == 2)
    wanted = ["reward", "entropy", "frac_reward_zero_std", "diversity/distinct_1", "diversity/distinct_2",
              "diversity/distinct_3", "diversity/self_similarity", "diversity/strategies", "length/reply_words",
              "part/preference", "part/format", "redundancy/s_in", "redundancy/s_hi", "redundancy/tau", "redundancy/raised", "problem/no-think",
              "judge/cases", "judge/unanswered", "seconds/judge", "seconds/embedder", "seconds/other", "seconds/writing",
              "seconds/judging", "seconds/learning"]  # fmt: skip
    assert [name for name in wanted if name not in line] == []
    assert (
        line["seconds/judge"] < line["seconds/judging"] and min(line["seconds/writing"], line["seconds/learning"]) > 0
    )
    assert line["step_time"] == pytest.approx(
        sum(line[f"seconds/{name}"] for name in ("writing", "judging", "learning")), rel=0.5
    )
    assert line["judge/cases"] == 12 and line["problem/no-think"] == 1.0 and 0 < line["redundancy/tau"] <= 1
    samples = lines(run / "samples.jsonl")
    assert [row["step"] for row in samples] == [1] * 5 + [2] * 5
    assert set(samples[0]["parts"]) == {"history", "emotion", "strategy", "preference", "format"}
    assert {"output", "reply", "reward", "total", "s_in", "s_hi", "tau", "raised", "problems"} <= set(samples[0])
    for name in ("run.json", "config.yaml", "curves.png", "model/config.json"):
        assert (run / name).is_file(), name
    card = (run / "README.md").read_text()
    assert "CC0-1.0" in card and f"compeer chat --model hf:{run / 'model'}" in card and "not a therapist" in card
    record = json.loads((run / "run.json").read_text())
    assert record["judge"] == {"rule": "letter", "letter": "e", "orders": "one"}
    assert record["data"]["train"][0]["rows"] == 12 and len(record["data"]["train"][0]["sha256"]) == 64
    assert train(toy.config(tmp_path, tiny_model_dir, judge, steps=2, reward={"soft": True}, samples=5)) == result, (
        "done"
    )


def test_alerts_are_shown_and_kept_and_not_repeated_after_a_resume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = open_run(tmp_path / "run", Record(kind="policy", config={}, data={}, base={}))

    def watched(watching: AlertCallback, steps: range) -> None:
        for step in steps:
            numbers = {"reward": 0.0, "diversity/distinct_2": (0.8 if step <= 20 else 0.3) + step % 3 / 100}
            run.log({"step": step, **numbers})
            watching.on_log(None, SimpleNamespace(global_step=step, max_steps=60), None, numbers)

    watched(AlertCallback(run, Alerts(window=5, baseline=20)), range(1, 41))
    assert [one["step"] for one in run.alerts()] == [23] and "word pairs" in run.alerts()[0]["alert"]
    told = capsys.readouterr().err
    assert "Alert at step 23: The share of different word pairs in the replies has fallen from 0.81" in told
    watched(AlertCallback(run, Alerts(window=5, baseline=20), quiet=True), range(41, 61))
    assert len(run.alerts()) == 1 and capsys.readouterr().err == ""
    run.close()


def test_it_goes_on_from_the_adapter_of_another_run(tiny_model_dir: Path, judge: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    begun = train(toy.config(first, tiny_model_dir, judge, steps=2, lora={"r": 4, "alpha": 8}), quiet=True)
    assert begun["opens_as"] == f"hf:{tiny_model_dir}+{first / 'run/model'}"
    more = toy.settings(second, first / "run", judge, steps=1, learning_rate=1e-12)
    ended = train(toy.config_of(more), quiet=True)
    assert ended["opens_as"] == f"hf:{tiny_model_dir}+{second / 'run/model'}"
    before, after = weights(first / "run/model"), weights(second / "run/model")
    assert set(before) == set(after) and any(bool(before[name].any()) for name in before if "lora_B" in name)
    assert all(before[name].allclose(after[name], atol=1e-9) for name in before)
    with pytest.raises(UserError, match="has r 4 and alpha 8; lora asks for r 16"):
        train(toy.config_of(more | {"lora": {}, "out": str(second / "other")}), quiet=True)


def test_conversations_with_a_seeker_are_a_matter_of_the_settings(
    tiny_model_dir: Path, judge: str, tmp_path: Path
) -> None:
    with SeekerServer() as seeker:
        talk = {
            "seeker": "openai:seeker",
            "base_url": seeker.base_url,
            "talks": {"turns": 2},
            "weights": {"emotion": 0.5},
        }
        train(toy.config(tmp_path, tiny_model_dir, judge, steps=1, conversation=talk), quiet=True)
    line = next(line for line in lines(tmp_path / "run/metrics.jsonl") if "reward" in line)
    assert line["talk/ended/incomplete"] == 1.0, "what this model writes is no turn of a conversation"
    assert line["reward"] == pytest.approx(line["talk/judge"] - 0.5, abs=1e-5)
    assert json.loads((tmp_path / "run/run.json").read_text())["judge"]["seeker"]["model"].startswith("openai:seeker")


def test_one_judge_is_no_prm_and_orm(tiny_model_dir: Path, judge: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"source is prm\+orm, and .* is one judge; give two, as PRM,ORM"):
        train(toy.config(tmp_path, tiny_model_dir, judge, variant="por", reward={}), quiet=True)


def test_the_order_is_that_of_the_epoch_and_no_step_mixes_kinds() -> None:
    rng = random.Random(1)
    pictured = [rng.random() < 0.4 for _ in range(23)]
    epoch = 0
    order = StepOrder(pictured, 4, group=3, repeats=2, seed=5, epoch=lambda: epoch)
    drawn = list(order)
    assert len(drawn) == len(order) == order.steps * 4 * 3 * 2
    steps = [drawn[start : start + 12] for start in range(0, len(drawn), 12)]
    assert all(steps[at] == steps[at + 1] for at in range(0, len(steps), 2)), "each step as often as it is accumulated"
    assert all(step[at] == step[at + 1] == step[at + 2] for step in steps for at in range(0, 12, 3)), "whole groups"
    assert all(len({pictured[place] for place in step}) == 1 for step in steps)
    assert set(drawn) == set(range(23)), "nothing is left out"
    epoch = 1
    other = list(order)
    assert other != drawn and list(StepOrder(pictured, 4, 3, 2, 5, lambda: 1)) == other
    assert list(StepOrder([False, True, False], 2)) == [0, 2, 1, 1], "without an epoch they keep their order"


def test_too_few_prompts_and_a_split_group_are_refused_before_a_model_is_loaded(
    tmp_path: Path, tiny_model_dir: Path, judge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"A step needs 32 prompts, and there are 12 \(prompts 12"):
        train(toy.config(tmp_path, tiny_model_dir, judge, batch=32, micro_batch=8), quiet=True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UserError, match=r"3 prompts x 4 outputs = 12 outputs over 2 processes are 6 each"):
        train(toy.config(tmp_path, Path("no-such-model"), judge), quiet=True)


@pytest.mark.parametrize(
    ("more", "package", "said"),
    [
        ({"log_to": ["trackio"]}, "trackio", "log_to names trackio, which is not installed: pip install trackio"),
        ({"log_to": ["wandb"]}, "wandb", "log_to names wandb, which is not installed: pip install wandb"),
        ({"rollout": "vllm-server"}, "vllm", "rollout: vllm-server needs vLLM in this environment"),
    ],
)
def test_what_is_not_installed_is_named(
    more: dict[str, Any], package: str, said: str, tmp_path: Path, tiny_model_dir: Path, judge: str
) -> None:
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed here")
    with pytest.raises(UserError, match=said):
        train(toy.config(tmp_path, tiny_model_dir, judge, **more), quiet=True)
