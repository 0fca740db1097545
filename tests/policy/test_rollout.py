"""Rollouts by llama.cpp: exact tokens, the trained distribution, the adapter of the step, and a correction that counts."""

from __future__ import annotations

import json
import math
import pkgutil
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compeer.errors import UserError
from compeer.policy import trl_internals
from compeer.policy.llamacpp_rollouts import LlamaCppRollout, places
from compeer.policy.trl_internals import ATTRIBUTES, INTERNALS, MOST, correct, share_prompts, weights

PROMPTS = [[{"role": "user", "content": said}] for said in ("I lost my job.", "My dog died.", "I can't sleep at all.")]


def trainer_on(
    folder: Path, out: Path, rollout: LlamaCppRollout | None = None, lora: bool = True, **settings: Any
) -> Any:
    """TRL's own trainer with the tiny Llama and, unless told otherwise, an adapter on all its layers."""
    import peft
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer

    arguments = {
        "output_dir": str(out), "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": [],
        "disable_tqdm": True, "per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 8,
        "learning_rate": 0.05, "logging_steps": 1, "save_strategy": "no", "seed": 5, **settings,
    }  # fmt: skip
    torch.manual_seed(1)
    return GRPOTrainer(
        AutoModelForCausalLM.from_pretrained(folder),
        reward_funcs=lengths,
        args=GRPOConfig(**arguments),
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in PROMPTS * 4]),
        processing_class=AutoTokenizer.from_pretrained(folder),
        peft_config=peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM") if lora else None,
        rollout_func=rollout,
    )


def lengths(completions: list[Any], **_: Any) -> list[float]:
    return [float(len(completion[0]["content"].encode())) for completion in completions]


@pytest.fixture(scope="module")
def trainer(tiny_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = trainer_on(tiny_model_dir, tmp_path_factory.mktemp("trainer"))
    made.model.train()
    made.current_gradient_accumulation_steps = 1  # as in a run
    return made


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPEER_THREADS", "1")


@pytest.fixture
def rollout(tiny_gguf: Path, trainer: Any) -> Iterator[LlamaCppRollout]:
    """With a trainer as it was before any rollout touched it, at a step of its own."""
    found = dict(vars(trainer)), dict(vars(trainer.model.get_base_model())), trainer.state.global_step
    made = LlamaCppRollout(tiny_gguf)
    yield made
    made.close()
    for thing, before in ((trainer, found[0]), (trainer.model.get_base_model(), found[1])):
        vars(thing).clear()
        vars(thing).update(before)
    trainer.state.global_step = found[2]


def scramble(trainer: Any, seed: int, size: float = 0.2) -> None:
    """Another adapter, as after a large step."""
    import torch

    torch.manual_seed(seed)
    with torch.no_grad():
        for name, weight in trainer.model.named_parameters():
            if ".lora_" in name:
                weight.normal_(0, size)


def scored(trainer: Any, made: dict[str, Any]) -> list[list[float]]:
    """The log-probabilities of the same tokens in transformers and peft."""
    import torch

    found = []
    with torch.no_grad():
        for prompt, written in zip(made["prompt_ids"], made["completion_ids"], strict=True):
            logits = trainer.model(torch.tensor([prompt + written])).logits[0, len(prompt) - 1 : -1]
            told = torch.log_softmax(logits.double() / trainer.temperature, -1)
            found.append(told.gather(-1, torch.tensor(written)[:, None])[:, 0].tolist())
    return found


def furthest(one: list[list[float]], other: list[list[float]]) -> float:
    pairs = [pair for row in zip(one, other, strict=True) for pair in zip(*row, strict=True)]
    return max(abs(a - b) for a, b in pairs if not math.isnan(a))


def test_outputs_are_tokens_with_the_log_probabilities_of_the_trained_model(
    rollout: LlamaCppRollout, trainer: Any
) -> None:
    rows = [PROMPTS[0]] * 4 + [PROMPTS[1]] + [PROMPTS[2]] * 3
    scramble(trainer, 1)
    made = rollout(rows, trainer)
    assert made["prompt_ids"] == trainer._tokenize_prompts(rows)[0]
    assert len(made["completion_ids"]) == len(made["logprobs"]) == 8
    ends = trainer.eos_token_ids
    for written, told in zip(made["completion_ids"], made["logprobs"], strict=True):
        assert 1 <= len(written) == len(told) <= 8
        assert not set(written[:-1]) & set(ends)
        assert len(written) == 8 or written[-1] in (*ends, 0), "it ends at the limit or at an end token"
    assert sum(not math.isnan(value) for told in made["logprobs"] for value in told) > 20
    assert furthest(made["logprobs"], scored(trainer, made)) < 0.05
    assert len({tuple(written) for written in made["completion_ids"][:4]}) == 4, "each has a draw of its own"


def test_a_temperature_is_that_of_the_loss(rollout: LlamaCppRollout, trainer: Any) -> None:
    trainer.temperature = 0.6
    scramble(trainer, 1)
    made = rollout([PROMPTS[0]] * 4, trainer)
    assert furthest(made["logprobs"], scored(trainer, made)) < 0.05


def test_first_tokens_are_drawn_from_the_whole_distribution(rollout: LlamaCppRollout, trainer: Any) -> None:
    import torch

    scramble(trainer, 2)
    trainer.max_completion_length = 1
    made = [rollout([PROMPTS[0]] * 64, trainer) for _ in range(10)]
    ids = torch.tensor([written[0] for batch in made for written in batch["completion_ids"]])
    with torch.no_grad():
        likely = trainer.model(torch.tensor(made[0]["prompt_ids"][:1])).logits[0, -1].double().softmax(-1)
    often = torch.bincount(ids, minlength=len(likely)).double()
    expected = likely * len(ids)
    common = expected >= 5
    rest = torch.stack([often[~common].sum(), expected[~common].sum()])
    square = ((often - expected)[common] ** 2 / expected[common]).sum() + (rest[0] - rest[1]) ** 2 / rest[1]
    degrees = int(common.sum())
    assert degrees >= 8 and rest[1] > 30, "a model that is sure of itself would prove nothing"
    assert square < degrees + 5 * math.sqrt(2 * degrees)


def test_draws_hang_on_the_step_and_are_repeated_by_a_resumed_run(
    rollout: LlamaCppRollout, trainer: Any, tiny_gguf: Path
) -> None:
    rows = [PROMPTS[0]] * 4 + [PROMPTS[1]] * 4
    first, second = rollout(rows, trainer), rollout(rows, trainer)
    assert first["completion_ids"] != second["completion_ids"], "two calls in one step"
    trainer.state.global_step += 1
    later = rollout(rows, trainer)
    assert later["completion_ids"] not in (first["completion_ids"], second["completion_ids"])
    trainer.model.eval()
    held_out = rollout(rows, trainer)
    trainer.model.train()
    assert held_out["completion_ids"] != later["completion_ids"]
    again = LlamaCppRollout(tiny_gguf)
    try:
        assert repr(again(rows, trainer)) == repr(later), "a new process at this step, without the evaluation"
    finally:
        again.close()


def test_the_adapter_is_the_one_of_the_step(rollout: LlamaCppRollout, trainer: Any) -> None:
    rows = [PROMPTS[0]] * 4
    scramble(trainer, 1)
    rollout(rows, trainer)
    server = rollout._server
    rollout(rows, trainer)
    assert rollout._server is server, "within a step llama.cpp goes on as it is"
    scramble(trainer, 2)
    trainer.state.global_step += 1
    made = rollout(rows, trainer)
    assert furthest(made["logprobs"], scored(trainer, made)) < 0.05
    scramble(trainer, 3)
    assert furthest(made["logprobs"], scored(trainer, made)) > 0.5, "the comparison tells adapters apart"


def test_the_outputs_of_a_group_differ(rollout: LlamaCppRollout, trainer: Any) -> None:
    made = rollout([PROMPTS[0]] * 5 + [PROMPTS[1]], trainer)
    assert len({tuple(written) for written in made["completion_ids"][:5]}) == 5
    assert furthest(made["logprobs"], scored(trainer, made)) < 0.05


def test_a_long_batch_gets_the_room_it_needs(rollout: LlamaCppRollout, trainer: Any) -> None:
    rollout([PROMPTS[0]] * 2, trainer)
    long = [{"role": "user", "content": "I can not go on like this. " * 60}]
    made = rollout([PROMPTS[0], long, long, long], trainer)
    assert len(made["prompt_ids"][1]) > 600
    assert furthest(made["logprobs"], scored(trainer, made)) < 0.05


def test_a_probability_is_given_to_the_token_it_belongs_to_or_to_none() -> None:
    assert places([1, 2, 3], [1, 2, 3]) == [0, 1, 2]
    assert places([9, 1, 9, 9, 2, 9], [1, 2]) == [1, 4]
    assert places([7, 7, 7], [7]) == [None]
    assert places([1, 7, 2, 7, 3], [1, 7, 3]) == [0, None, 4]
    assert places([1, 7, 2, 7, 3], [1, 7, 7, 3]) == [0, 1, 3, 4]


@pytest.mark.parametrize(
    ("name", "value"), [("top_p", 0.9), ("top_k", 40), ("min_p", 0.05), ("repetition_penalty", 1.1)]
)
def test_another_distribution_than_the_trained_one_is_refused(
    name: str, value: float, rollout: LlamaCppRollout, trainer: Any
) -> None:
    setattr(trainer, name, value)
    with pytest.raises(UserError, match=name):
        rollout([PROMPTS[0]], trainer)


def test_a_model_without_an_adapter_is_refused(tiny_model_dir: Path, tmp_path: Path, rollout: LlamaCppRollout) -> None:
    whole = trainer_on(tiny_model_dir, tmp_path, lora=False)
    with pytest.raises(UserError, match="LoRA"):
        rollout([PROMPTS[0]], whole)


def test_weights_are_ratios_cut_at_the_most_and_one_where_nothing_is_known() -> None:
    import torch

    trained = torch.tensor([[-1.0, -1.0, -1.0, -1.0, -1.0]])
    sampled = torch.tensor([[-1.0, -1.4, -3.0, math.nan, 0.0]])
    mask = torch.tensor([[1, 1, 1, 1, 0]])
    found = weights(trained, sampled, mask)
    assert found.tolist()[0] == pytest.approx([1.0, math.exp(0.4), 2.0, 1.0, 1.0])


def batch_of(trainer: Any, sampled: Any | None = None) -> dict[str, Any]:
    """A batch as TRL makes it, of two groups with prompts of different lengths."""
    import torch

    made = torch.Generator().manual_seed(4)
    pad = trainer.processing_class.pad_token_id
    prompts = torch.randint(20, 700, (2, 9), generator=made).repeat_interleave(4, 0)
    prompt_mask = torch.ones_like(prompts)
    prompt_mask[4:, :3], prompts[4:, :3] = 0, pad
    written = torch.randint(20, 700, (8, 6), generator=made)
    written_mask = torch.ones_like(written)
    written_mask[2, 1:], written[2, 1:] = 0, pad
    order = torch.tensor([3, 6, 0, 7, 2, 1, 5, 4])  # TRL shuffles
    batch = {
        "prompt_ids": prompts[order], "prompt_mask": prompt_mask[order], "completion_ids": written[order],
        "completion_mask": written_mask[order], "advantages": torch.linspace(-1, 1.5, 8),
        "num_items_in_batch": written_mask.sum(),
    }  # fmt: skip
    return batch if sampled is None else batch | {"sampling_per_token_logps": sampled}


def scores(trainer: Any, batch: dict[str, Any]) -> Any:
    import torch

    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    return trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, 6, compute_entropy=True)[:2]


def gradient(trainer: Any, batch: dict[str, Any]) -> Any:
    import torch

    trainer.model.zero_grad()
    trainer._compute_loss(trainer.model, batch).backward()
    return torch.cat([w.grad.flatten() for _, w in sorted(trainer.model.named_parameters()) if w.grad is not None])


@pytest.mark.parametrize("name", INTERNALS)
def test_the_internals_of_trl_are_where_they_were(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None, INTERNALS[name]


def test_so_are_the_attributes(trainer: Any) -> None:
    for name, reason in ATTRIBUTES.items():
        assert hasattr(trainer, name), reason


def test_no_other_module_reaches_into_trl() -> None:
    """Names of GRPOTrainer that begin with an underscore appear in one file of the package."""
    from trl import GRPOTrainer

    inner = {f".{name}(" for name in vars(GRPOTrainer) if name.startswith("_") and not name.startswith("__")}
    source = Path(trl_internals.__file__)
    for path in source.parents[1].rglob("*.py"):
        if path != source:
            text = path.read_text(encoding="utf-8")
            assert "from trl.trainer" not in text and "from trl.kernels" not in text, path
            if "trainer" in text and "policy" in path.parts:
                assert not [name for name in inner if f"trainer{name}" in text], path


def test_a_group_scores_the_same_when_its_prompt_is_computed_once(rollout: LlamaCppRollout, trainer: Any) -> None:
    import torch

    scramble(trainer, 1)
    batch = batch_of(trainer)
    plain, before = scores(trainer, batch), gradient(trainer, batch)
    passed: list[int] = []
    body = trainer.model.get_base_model().model
    handle = body.register_forward_hook(lambda _, given, kwargs, out: passed.append(kwargs["input_ids"].numel()),
                                        with_kwargs=True)  # fmt: skip
    assert share_prompts(trainer)
    shared, after = scores(trainer, batch), gradient(trainer, batch)
    handle.remove()
    assert passed[:2] == [2 * 9, 8 * 5], "two prompts, and outputs without their last tokens"
    mask = batch["completion_mask"].bool()
    for one, other in zip(plain, shared, strict=True):
        assert torch.allclose(one[mask], other[mask], atol=1e-5)
    assert float(before.norm()) > 1e-3
    assert float((before - after).norm() / before.norm()) < 1e-4


def test_outputs_of_one_token_and_prompts_without_a_group_score_the_same(
    rollout: LlamaCppRollout, trainer: Any
) -> None:
    import torch

    scramble(trainer, 1)
    ids = torch.randint(20, 700, (3, 8), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    ask = trainer._get_per_token_logps_and_entropies
    plain = [ask(trainer.model, ids, mask, kept)[0] for kept in (1, 4)]
    share_prompts(trainer)
    shared = [ask(trainer.model, ids, mask, kept)[0] for kept in (1, 4)]
    for one, other in zip(plain, shared, strict=True):
        assert one.shape == other.shape
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("loss", ["grpo", "dapo"])
def test_the_loss_is_weighted_with_trained_over_sampled(loss: str, rollout: LlamaCppRollout, trainer: Any) -> None:
    """Against a loss written down here: -mean over tokens of weight x advantage x ratio to itself."""
    import torch

    trainer.loss_type = loss
    scramble(trainer, 1)
    batch = batch_of(trainer)
    logps = scores(trainer, batch)[0]
    shift = torch.linspace(-1.2, 0.8, logps.numel()).reshape(logps.shape)
    sampled = (logps - shift).detach()
    uncorrected = gradient(trainer, batch | {"sampling_per_token_logps": sampled})
    assert torch.equal(uncorrected, gradient(trainer, batch)), "TRL itself makes nothing of them"
    correct(trainer)
    found = gradient(trainer, batch | {"sampling_per_token_logps": sampled})

    mask = batch["completion_mask"]
    weight = torch.exp(shift).clamp(max=MOST)
    logps = scores(trainer, batch)[0]
    each = -weight * batch["advantages"][:, None] * torch.exp(logps - logps.detach()) * mask
    total = (each.sum(1) / mask.sum(1)).mean() if loss == "grpo" else each.sum() / mask.sum()
    trainer.model.zero_grad()
    total.backward()
    ours = torch.cat([w.grad.flatten() for _, w in sorted(trainer.model.named_parameters()) if w.grad is not None])
    assert float((found - ours).norm() / ours.norm()) < 1e-4
    assert float((found - uncorrected).norm() / uncorrected.norm()) > 0.1
    logged = trainer._metrics["train"]
    known = mask.bool()
    assert logged["sampling/importance_sampling_ratio/mean"][-1] == pytest.approx(float(weight[known].mean()), rel=1e-4)
    assert logged["sampling/sampling_logp_difference/max"][-1] == pytest.approx(
        float(shift[known].abs().max()), abs=1e-4
    )
    assert logged["sampling/cut"][-1] == pytest.approx(float((weight >= MOST)[known].float().mean()), abs=1e-4)


def test_outputs_used_again_are_weighted_by_what_the_policy_was(rollout: LlamaCppRollout, trainer: Any) -> None:
    """With several passes TRL brings the log-probabilities from before the first; the batch itself stays as it is."""
    import torch

    scramble(trainer, 1)
    batch = batch_of(trainer)
    logps = scores(trainer, batch)[0].detach()
    old = logps + 0.02
    plain = gradient(trainer, batch | {"old_per_token_logps": old})
    correct(trainer)
    given = batch | {"old_per_token_logps": old, "sampling_per_token_logps": old - math.log(1.5)}
    assert torch.allclose(gradient(trainer, given), 1.5 * plain, rtol=1e-3, atol=1e-7)
    assert torch.allclose(gradient(trainer, given), 1.5 * plain, rtol=1e-3, atol=1e-7), "also the second time"


def test_a_sampler_with_other_weights_is_found_out(rollout: LlamaCppRollout, trainer: Any) -> None:
    batch = batch_of(trainer)
    sampled = scores(trainer, batch)[0].detach() + 1.5
    correct(trainer)
    with pytest.raises(UserError, match="same weights"):
        trainer._compute_loss(trainer.model, batch | {"sampling_per_token_logps": sampled})


def test_a_run_trains_with_the_correction_and_resumes_to_the_same_weights(
    tiny_model_dir: Path, tiny_gguf: Path, tmp_path: Path
) -> None:
    import torch

    def run(name: str, steps: int, resume: Path | None = None) -> tuple[dict[str, Any], list[dict[str, float]]]:
        sampler = LlamaCppRollout(tiny_gguf)
        made = trainer_on(
            tiny_model_dir, tmp_path / name, sampler, max_steps=steps, save_strategy="steps", save_steps=1,
            lr_scheduler_type="constant",
        )  # fmt: skip
        made.train(resume_from_checkpoint=str(resume) if resume else None)
        sampler.close()
        adapter = {key: value.clone() for key, value in made.model.state_dict().items() if ".lora_" in key}
        return adapter, [line for line in made.state.log_history if "loss" in line]

    whole, log = run("whole", 2)
    shutil.copytree(tmp_path / "whole/checkpoint-1", tmp_path / "copied")
    resumed, _ = run("resumed", 2, tmp_path / "copied")
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)
    for line in log:
        assert 0 < line["sampling/sampling_logp_difference/mean"] < 0.05
        assert line["sampling/effective"] > 0.99
    assert json.loads((tmp_path / "copied/trainer_state.json").read_text())["global_step"] == 1
