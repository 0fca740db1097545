"""Many answers on a CPU: what the model itself would write, whatever stands beside it."""

from __future__ import annotations

from random import Random
from typing import Any

from compeer.policy.rollout.many import Many

END = 2
RNG = Random(5)
PROMPTS = [[RNG.randrange(3, 97) for _ in range(RNG.randrange(2, 40))] for _ in range(70)]  # more than a portion


def greedy(model: Any, prompt: list[int], tokens: int) -> list[int]:
    import torch

    ids: list[int] = []
    while len(ids) < tokens and END not in ids:
        with torch.no_grad():
            ids.append(int(model(torch.tensor([prompt + ids])).logits[0, -1].argmax()))
    return ids


def test_without_chance_it_writes_what_the_model_would(grouped: Any) -> None:
    heard: list[int] = []
    asked: dict[str, Any] = {"tokens": 24, "temperature": 1e-5, "end": END, "seed": 0}
    written = Many(grouped.get_base_model()).write(PROMPTS, **asked, say=heard.append)
    assert written == [greedy(grouped, prompt, 24) for prompt in PROMPTS]
    assert heard == [60, 70]


def test_draws_follow_the_probabilities_and_the_seed(grouped: Any) -> None:
    import torch

    prompt, many = PROMPTS[0], Many(grouped.get_base_model())
    first, again, other = (
        many.write([prompt] * 600, tokens=12, temperature=0.8, end=END, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again != other
    assert {len(ids) == 12 or ids[-1] == END for ids in first} == {True}
    assert len({len(ids) for ids in first}) > 1, "some end before others"
    with torch.no_grad():
        known = (grouped(torch.tensor([prompt])).logits[0, -1] / 0.8).softmax(-1)
    seen = torch.bincount(torch.tensor([ids[0] for ids in first]), minlength=97) / 600
    assert float((seen - known).abs().max()) < 5 * float((known * (1 - known) / 600).sqrt().max())
