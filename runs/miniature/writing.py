"""Answers of a trained model to many moments at once, without a grammar.

transformers generates them in batches of prompts of similar length. (`hf:embedded+ADAPTER` decodes row by row, so that
an answer does not depend on its neighbours: right for a conversation, slow for two hundred moments.) Every model draws
from the same seed; another `draw` is another seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from compeer.models.checkpoint import open_checkpoint
from compeer.models.request import Request
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
    prompts = [
        tokenizer.apply_chat_template(list(request.messages), tokenize=False, add_generation_prompt=True)
        for request in requests
    ]
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
    seed = work.settings.seed * 100_003 + draw * 1_000_003
    answers: dict[int, Written] = {}
    for start in range(0, len(order), work.settings.sample.batch):
        part = order[start : start + work.settings.sample.batch]
        written = _batch(opened.model, tokenizer, [prompts[number] for number in part], requests[0], seed + start)
        answers |= dict(zip(part, written, strict=True))
        say(f"{len(answers)} of {len(prompts)} answers")
    return [answers[number] for number in range(len(prompts))]


def _batch(model: Any, tokenizer: Any, prompts: list[str], request: Request, seed: int) -> list[Written]:
    import torch

    given = tokenizer(prompts, add_special_tokens=False, padding=True, padding_side="left", return_tensors="pt").to(
        model.device
    )
    torch.manual_seed(seed)
    made = model.generate(
        **given,
        max_new_tokens=request.max_tokens,
        do_sample=True,
        temperature=request.temperature,
        top_k=0,
        top_p=1.0,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    written = []
    for ids in made[:, given["input_ids"].shape[1] :].tolist():
        ended = tokenizer.eos_token_id in ids
        ids = ids[: ids.index(tokenizer.eos_token_id)] if ended else ids
        written.append(Written(tokenizer.decode(ids, skip_special_tokens=True), "stop" if ended else "length"))
    return written
