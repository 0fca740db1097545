"""Answers of a trained model to many moments at once, without a grammar.

The decoder of the GRPO rollouts writes them. It draws from the distribution of `hf:embedded+ADAPTER`, which decodes
the rows of a batch one by one in Python so that an answer does not depend on its neighbours: right for a conversation,
a minute for two hundred moments. Every model draws with the same noise; another `draw` is another noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from compeer.models.checkpoint import open_checkpoint
from compeer.models.request import Request
from compeer.policy.rollout.decoder import Decoder
from compeer.policy.rollout.many import Many
from runs.miniature.pieces import Work, say


class Written(msgspec.Struct, frozen=True):
    """An answer, and whether it ended by itself (`stop`) or at the limit (`length`)."""

    text: str
    finish: str


def answer(work: Work, adapter: str, requests: Sequence[Request], draw: int = 0) -> list[Written]:
    """One answer to each request; all have the temperature and the limit of the first."""
    device = None if work.settings.device == "auto" else work.settings.device
    opened = open_checkpoint(work.base, adapter, device)
    tokenizer = opened.tokenizer
    prompts: list[list[int]] = [
        tokenizer.encode(
            tokenizer.apply_chat_template(list(request.messages), tokenize=False, add_generation_prompt=True),
            add_special_tokens=False,
        )
        for request in requests
    ]
    end, seed = tokenizer.eos_token_id, work.settings.seed * 100_003 + draw * 1_000_003
    asked = {"tokens": requests[0].max_tokens, "temperature": requests[0].temperature, "end": end}
    if opened.model.device.type == "cpu":
        written = Many(opened.model).write(
            prompts, **asked, seed=seed, say=lambda done: say(f"{done} of {len(prompts)} answers")
        )
    else:
        written = _on_a_gpu(opened.model, prompts, min(work.settings.sample.batch, len(prompts)), seed, asked)
    answers = []
    for ids in written:
        ended = ids[-1] == end
        text = tokenizer.decode(ids[:-1] if ended else ids, skip_special_tokens=True)
        answers.append(Written(text, "stop" if ended else "length"))
    return answers


def _on_a_gpu(model: Any, prompts: list[list[int]], size: int, seed: int, asked: dict[str, Any]) -> list[list[int]]:
    """In batches of prompts of like length: every step reads as much memory as the longest of them asks for."""
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
    written: list[list[int]] = [[] for _ in prompts]
    for start in range(0, len(order), size):
        part = order[start : start + size]
        found = _batch(model, [prompts[number] for number in part], seed + start, asked)
        for number, ids in zip(part, found, strict=True):
            written[number] = ids
    return written


def _batch(model: Any, prompts: list[list[int]], seed: int, asked: dict[str, Any]) -> list[list[int]]:
    """In memory that is free again when it returns, before the next batch takes its own."""
    decoder = Decoder(model, rows=len(prompts), places=max(map(len, prompts)) + asked["tokens"])
    decoder.load(model)
    return decoder.write(prompts, range(len(prompts)), seed=seed, **asked).ids
