"""Answers of a trained model to many moments at once, without a grammar.

On a GPU the decoder of the GRPO rollouts writes them. It draws from the same distribution as `hf:embedded+ADAPTER`,
which decodes the rows of a batch one by one in Python so that an answer does not depend on its neighbours: right for a
conversation, a minute for two hundred moments. Every model draws with the same noise. On a CPU llama.cpp writes the
embedded model's answers, which is many times faster.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from compeer.errors import UserError
from compeer.models.checkpoint import open_checkpoint
from compeer.models.request import Answer, Request, ask_all
from compeer.models.request import run as wait
from compeer.models.spec import open_model
from compeer.policy.rollout.decoder import Decoder
from runs.miniature.pieces import Work


class Written(msgspec.Struct, frozen=True):
    """An answer, and whether it ended by itself (`stop`) or at the limit (`length`)."""

    text: str
    finish: str


def answer(work: Work, adapter: str, requests: Sequence[Request]) -> list[Written]:
    """One answer to each request; all have the temperature and the limit of the first."""
    import torch

    device = None if work.settings.device == "auto" else work.settings.device
    if work.base == "embedded" and (device == "cpu" or not torch.cuda.is_available()):
        return _on_a_cpu(adapter, requests, work.settings.seed)
    opened = open_checkpoint(work.base, adapter, device)
    tokenizer = opened.tokenizer
    prompts: list[list[int]] = [
        tokenizer.encode(
            tokenizer.apply_chat_template(list(request.messages), tokenize=False, add_generation_prompt=True),
            add_special_tokens=False,
        )
        for request in requests
    ]
    tokens, size = requests[0].max_tokens, min(work.settings.sample.batch, len(requests))
    decoder = Decoder(opened.model, rows=size, places=max(map(len, prompts)) + tokens)
    decoder.load(opened.model)
    answers = []
    for start in range(0, len(prompts), size):
        part = prompts[start : start + size]
        written = decoder.write(
            part,
            [min(row, len(part) - 1) for row in range(size)],  # rows that are left over repeat the last
            tokens=tokens,
            temperature=requests[0].temperature,
            end=tokenizer.eos_token_id,
            seed=work.settings.seed * 100_003 + start,
        )
        for ids in written.ids[: len(part)]:
            ended = ids[-1] == tokenizer.eos_token_id
            text = tokenizer.decode(ids[:-1] if ended else ids, skip_special_tokens=True)
            answers.append(Written(text, "stop" if ended else "length"))
    return answers


def _on_a_cpu(adapter: str, requests: Sequence[Request], seed: int) -> list[Written]:
    seeded = [msgspec.structs.replace(one, seed=seed * 100_003 + number) for number, one in enumerate(requests)]

    async def ask() -> list[Answer]:
        model = open_model(f"embedded+{adapter}", slots=4)
        try:
            answers = await ask_all(model, seeded, concurrency=4)
        finally:
            await model.close()
        if failed := [one for one in answers if not isinstance(one, Answer)]:
            raise UserError(f"{adapter} gave no answer to {len(failed)} moments: {failed[0].reason}")
        return [one for one in answers if isinstance(one, Answer)]

    return [Written(one.text, "stop" if one.finish == "stop" else "length") for one in wait(ask())]
