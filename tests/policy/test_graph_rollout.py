"""The decoder of graph rollouts: the model's own probabilities, draws from them, and a step of GRPO with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.policy.test_rollout import trainer_on

from compeer.errors import UserError
from compeer.policy.rollout.graph import graph_rollout

PROMPTS = [[5, 9, 30, 22], [4, 4, 7, 8, 60, 61, 62, 63]]
END = 2


def decoder(model: Any, rows: int) -> Any:
    from compeer.policy.rollout.decoder import Decoder

    made = Decoder(model.get_base_model(), rows=rows, places=64)
    made.load(model.get_base_model())
    return made


def test_every_token_has_the_probability_that_the_model_gives_it(grouped: Any) -> None:
    import torch

    written = decoder(grouped, 6).write(PROMPTS, [0, 0, 0, 1, 1, 1], tokens=30, temperature=0.9, end=END, seed=3)
    for row, (ids, told) in enumerate(zip(written.ids, written.logprobs, strict=True)):
        prompt = PROMPTS[row // 3]
        with torch.no_grad():
            scores = grouped(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1] / 0.9
        known = scores.log_softmax(-1)[torch.arange(len(ids)), torch.tensor(ids)]
        assert torch.allclose(known, torch.tensor(told), atol=1e-4)


def test_an_output_ends_with_its_end_token_and_a_seed_repeats_it(grouped: Any) -> None:
    made = decoder(grouped, 6)
    first, again, other = (
        made.write(PROMPTS, [0, 0, 0, 1, 1, 1], tokens=30, temperature=0.9, end=END, seed=seed) for seed in (3, 3, 4)
    )
    assert first == again and first.ids != other.ids
    assert any(END in ids for ids in first.ids)
    assert all(END not in ids[:-1] for ids in first.ids)
    assert all(len(ids) == 30 for ids in first.ids if END not in ids)


def test_tokens_are_drawn_from_the_whole_distribution(grouped: Any) -> None:
    import torch

    made, seen = decoder(grouped, 400), torch.zeros(97)
    for seed in range(5):
        written = made.write(PROMPTS[:1], [0] * 400, tokens=1, temperature=1.0, end=END, seed=seed)
        for ids in written.ids:
            seen[ids[0]] += 1
    with torch.no_grad():
        expected = 2000 * grouped(torch.tensor(PROMPTS[:1])).logits[0, -1].softmax(-1)
    often = expected > 5
    distance = ((seen - expected)[often] ** 2 / expected[often]).sum()
    assert distance < 2 * int(often.sum())  # chi-square: its mean is the number of classes


def test_what_does_not_fit_is_refused(grouped: Any) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        decoder(grouped, 1).write(PROMPTS, [1], tokens=60, temperature=1.0, end=END, seed=0)


def test_a_step_of_grpo_learns_from_what_was_drawn(tiny_model_dir: Path, tmp_path: Path) -> None:
    trainer = trainer_on(tiny_model_dir, tmp_path, graph_rollout(), max_steps=2)
    before = {
        name: weight.detach().clone() for name, weight in trainer.model.named_parameters() if weight.requires_grad
    }
    trainer.train()
    logged = [line for line in trainer.state.log_history if "sampling/sampling_logp_difference/max" in line]
    assert len(logged) == 2  # the second step draws with the weights of the first
    assert all(line["sampling/sampling_logp_difference/max"] < 1e-3 for line in logged)
    changed = [
        name for name, weight in trainer.model.named_parameters() if name in before and (weight != before[name]).any()
    ]
    assert changed


def test_a_bent_distribution_is_refused(tiny_model_dir: Path, tmp_path: Path) -> None:
    trainer = trainer_on(tiny_model_dir, tmp_path, graph_rollout(), top_p=0.9)
    with pytest.raises(UserError, match=r"top_p is 0\.9"):
        graph_rollout().generate([[1, 2]], trainer)
