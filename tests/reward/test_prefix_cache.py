"""Conversations without padding give what padded rows give, and do not write into one another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from compeer.reward import prefix_cache as ragged
from compeer.reward.prefix_cache import RAGGED_ATTENTION, PaddedCache, RaggedCache, use_ragged_attention


@pytest.fixture(scope="module")
def plain(tiny_model_dir: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(tiny_model_dir)


@pytest.fixture(scope="module")
def model(tiny_model_dir: Path) -> Any:
    opened = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
    assert use_ragged_attention(opened) and opened.config._attn_implementation == RAGGED_ATTENTION
    return opened


def walked(rows: PaddedCache | RaggedCache) -> torch.Tensor:
    """A history, three branches of it that grow and shrink, and the history again after them."""
    rows.extend([list(range(10, 60))])
    grown = rows.branch([0, 0, 0])
    found = grown.extend([[7, 8, 9], [5], list(range(30, 45))], [[2], [0], [13, 14]])
    grown.keep(2, 55)
    found += grown.extend([[3, 4], [9] * 6, [11]], [[1], [5], [0]])
    fewer = grown.branch([2, 0])
    found += fewer.extend([[21], [22, 23]], [[0], [0, 1]])
    rows.keep(0, 40)
    found += rows.extend([[3, 3]], [[0, 1]])
    found += grown.extend([[1], [2], [3]], [[0], [0], [0]])  # what it keeps was shared with both
    return torch.cat(found)


@pytest.mark.parametrize(("together", "block", "room"), [(1024, 256, 512), (16, 4, 1)])
def test_logits_are_those_of_padded_rows(
    plain: Any, model: Any, monkeypatch: pytest.MonkeyPatch, together: int, block: int, room: int
) -> None:
    """Also where everything comes in small pieces and every store is too small for the next turn."""
    for name, value in (("_PASS_TOKENS", together), ("_BLOCK", block), ("_ROOM", room)):
        monkeypatch.setattr(ragged, name, value)
    with torch.inference_mode():
        expected, found = walked(PaddedCache(plain)), walked(RaggedCache(model))
    assert found.shape == expected.shape
    assert torch.allclose(found, expected, atol=1e-4)


def test_conversations_without_a_common_beginning_start_together(plain: Any, model: Any) -> None:
    with torch.inference_mode():
        found = RaggedCache(model, 3).extend([[4, 5, 6], [], [7]], [[2], [], [0]])
        alone = [plain(input_ids=torch.tensor([block])).logits[0, -1] for block in ([4, 5, 6], [7])]
    assert found[1].numel() == 0
    assert torch.allclose(torch.cat([found[0], found[2]]), torch.stack(alone), atol=1e-4)


def test_what_is_computed_is_what_is_new(model: Any) -> None:
    computed: list[int] = []
    embed = model.get_input_embeddings()
    hook = embed.register_forward_hook(lambda _module, given, _found: computed.append(given[0].numel()))
    with torch.inference_mode():
        rows = RaggedCache(model)
        rows.extend([list(range(50))])
        rows.branch([0, 0]).extend([[1] * 40, [2]])
    hook.remove()
    assert computed == [50, 41]


def test_a_model_whose_tokens_meet_elsewhere_is_left_as_it_is(tiny_model_dir: Path) -> None:
    for name, value in (("sliding_window", 8), ("model_type", "mamba")):
        opened = AutoModelForCausalLM.from_pretrained(tiny_model_dir)
        setattr(opened.config, name, value)
        assert not use_ragged_attention(opened)
        assert opened.config._attn_implementation == "sdpa"


def test_called_like_any_other_it_answers_like_any_other(plain: Any, model: Any) -> None:
    ids, mask = torch.tensor([[4, 5, 6, 7], [0, 0, 8, 9]]), torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1]])
    with torch.inference_mode():
        expected = plain(input_ids=ids, attention_mask=mask).logits
        found = model(input_ids=ids, attention_mask=mask).logits
        assert torch.allclose(found[:, 2:], expected[:, 2:], atol=1e-4)
        written = [one.generate(ids[:1], max_new_tokens=6, do_sample=False) for one in (plain, model)]
    assert torch.equal(*written)
