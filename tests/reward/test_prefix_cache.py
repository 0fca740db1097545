"""Conversations in one cache give what each gives alone, and do not write into one another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from compeer.reward.prefix_cache import PaddedCache


@pytest.fixture(scope="module")
def model(tiny_model_dir: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(tiny_model_dir)


def last(model: Any, tokens: list[int], count: int = 1) -> torch.Tensor:
    """The logits of the last tokens of a conversation that is read from its beginning, alone."""
    return torch.as_tensor(model(input_ids=torch.tensor([tokens])).logits[0, -count:])


def test_rows_that_branch_grow_and_shrink_give_what_each_gives_alone(model: Any) -> None:
    """A history, three branches of it, fewer of these, and the history again after them."""
    history = list(range(10, 60))
    with torch.inference_mode():
        rows = PaddedCache(model)
        rows.extend([history])
        grown = rows.branch([0, 0, 0])
        found = grown.extend([[7, 8, 9], [5], list(range(30, 45))], [[2], [0], [13, 14]])
        alone = [
            last(model, [*history, 7, 8, 9]),
            last(model, [*history, 5]),
            last(model, [*history, *range(30, 45)], 2),
        ]
        grown.keep(2, 55)
        found += grown.extend([[3, 4], [9] * 6, [11]], [[1], [5], [0]])
        alone += [last(model, [*history, 7, 8, 9, 3, 4]), last(model, [*history, 5, *[9] * 6])]
        alone += [last(model, [*history, *range(30, 35), 11])]
        found += grown.branch([2, 0]).extend([[21], [22, 23]], [[0], [0, 1]])
        alone += [last(model, [*history, *range(30, 35), 11, 21])]
        alone += [last(model, [*history, 7, 8, 9, 3, 4, 22, 23], 2)]
        rows.keep(0, 40)
        found += rows.extend([[3, 3]], [[0, 1]])
        alone += [last(model, [*history[:40], 3, 3], 2)]
        found += grown.extend([[1], [2], [3]], [[0], [0], [0]])  # what it keeps was shared with both
        alone += [last(model, [*history, 7, 8, 9, 3, 4, 1]), last(model, [*history, 5, *[9] * 6, 2])]
        alone += [last(model, [*history, *range(30, 35), 11, 3])]
    assert torch.allclose(torch.cat(found), torch.cat(alone), atol=1e-4)


def test_conversations_without_a_common_beginning_start_together(model: Any) -> None:
    with torch.inference_mode():
        found = PaddedCache(model, 3).extend([[4, 5, 6], [], [7]], [[2], [], [0]])
        alone = [last(model, [4, 5, 6]), last(model, [7])]
    assert found[1].numel() == 0
    assert torch.allclose(torch.cat([found[0], found[2]]), torch.cat(alone), atol=1e-4)
