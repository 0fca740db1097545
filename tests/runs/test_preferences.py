"""Preferences among a model's own replies: written side by side, read in one row, learned; on a tiny Qwen2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("peft")

import torch
from runs.supporter import preferences
from runs.supporter.device import END, encoded, open_base, rendered


def asked(text: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "Be kind."}, {"role": "user", "content": text}]


SAID = ["I lost my job.", "my cat is ill and i cannot sleep, what now", "hi"]


def test_replies_written_side_by_side_are_those_of_the_prompt_alone(tiny_qwen2_dir: Path) -> None:
    """Two replies per prompt at a temperature near 0 are both the greedy one, in a batch of prompts of unlike length."""
    model, tokenizer = open_base(str(tiny_qwen2_dir))
    model, end = model.float(), tokenizer.convert_tokens_to_ids(END)
    prompts = [encoded(rendered(asked(text)), tokenizer)[0] for text in SAID]
    found = preferences._replies(model, tokenizer, prompts, end, (1e-5, 1e-5))
    for place, prompt in enumerate(prompts):
        ids = torch.tensor([prompt])
        whole = model.generate(ids, max_new_tokens=preferences.MOST, do_sample=False, eos_token_id=end)
        greedy = tokenizer.decode([one for one in whole[0, len(prompt) :].tolist() if one != end]).strip()
        assert found[2 * place : 2 * place + 2] == [greedy, greedy]


def rated(count: int) -> list[dict[str, Any]]:
    """Moments at which the shorter reply is liked."""
    return [
        {
            "id": f"m{at}",
            "messages": asked(f"{SAID[at % 3]} {at}"),
            "replies": {"Oh no.": 4.0, "As an assistant I can": 1.0},
        }
        for at in range(count)
    ]


def test_a_reply_has_the_same_likelihood_beside_others_as_alone(tiny_qwen2_dir: Path) -> None:
    model, tokenizer = open_base(str(tiny_qwen2_dir))
    model = model.float()
    one = rated(1)[0]
    row = preferences._packed(one, tokenizer)
    assert row is not None and row["pairs"] == [(0, 1, 3.0)]
    with torch.no_grad():
        logits = model(input_ids=row["ids"], attention_mask=row["mask"], position_ids=row["places"]).logits[
            0, row["from"]
        ]
        words = logits.log_softmax(-1).gather(1, row["words"][:, None])[:, 0]
        together = torch.zeros(2).index_add(0, row["owner"], words)
        for number, reply in enumerate(one["replies"]):
            prompt = encoded(rendered(one["messages"]), tokenizer)[0]
            answer = tokenizer(reply + END, add_special_tokens=False)["input_ids"]
            alone = model(input_ids=torch.tensor([prompt + answer])).logits[0].log_softmax(-1)
            told = sum(alone[len(prompt) - 1 + at, word] for at, word in enumerate(answer))
            assert together[number] == pytest.approx(float(told), abs=1e-3)


def test_what_readers_liked_becomes_likelier(
    tiny_qwen2_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = [row | {"id": f"e{row['id']}", "likelihood": 0.3} for row in rated(8)]  # as everyday moments are
    monkeypatch.setattr(preferences, "rated", lambda: rated(16))
    monkeypatch.setattr(preferences, "everyday_rows", lambda: written)
    monkeypatch.setattr(preferences, "LEARNING", preferences.LEARNING | {"first_layer": 1, "rate": 1e-2, "epochs": 4})
    preferences.learn(str(tiny_qwen2_dir), str(tmp_path / "adapter"))
    job = json.loads((tmp_path / "adapter" / "job.json").read_text("utf-8"))
    assert job["moments"] == 22 and job["log"][-1]["kept_out_right"] == 1.0
    assert job["log"][-1]["loss"] < job["log"][0]["loss"] - 0.1
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text("utf-8"))
    assert 0 not in config["layers_to_transform"]


def test_only_replies_that_readers_told_apart_are_compared() -> None:
    one = rated(1)[0] | {"replies": {"a": 2.0, "b": 1.5}}
    assert preferences._packed(one, None) is None
