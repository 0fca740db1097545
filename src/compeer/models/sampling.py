"""Choosing tokens for transformers: grammar, temperature, nucleus and seed, row by row of a batch.

transformers draws all rows of a batch from one random stream with one temperature. Here each row has its
own: the processor masks what the grammar forbids, draws by the Gumbel trick from the row's generator, and
leaves only the chosen token, which greedy decoding then takes. So a request's answer does not depend on
which others share its batch (up to rounding). Grammars are run by llguidance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from compeer.models.request import ModelError, Request
from compeer.reasoning.grammar import after_prefix, regex


class Row:
    """The decoding state of one request."""

    def __init__(self, request: Request, llg_tokenizer: Any, prompt_length: int) -> None:
        self.request = request
        self.prompt_length = prompt_length
        self.generator = torch.Generator().manual_seed(request.seed) if request.seed is not None else None
        self.first: tuple[tuple[int, float], ...] = ()
        self.matcher = _matcher(request, llg_tokenizer)
        self.seen = 0  # tokens already given to the matcher
        self.stopped_at: int | None = None  # its length when a stop string or its own limit ended it


class Chooser:
    """A logits processor (transformers' protocol) that leaves one token a row."""

    def __init__(self, rows: Sequence[Row], eos: int) -> None:
        self.rows, self.eos = rows, eos

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        chosen = torch.full_like(scores, float("-inf"))
        for number, row in enumerate(self.rows):
            written = input_ids[number, row.prompt_length :].tolist()
            chosen[number, self._choose(row, written, scores[number].float())] = 0.0
        return chosen

    def _choose(self, row: Row, written: list[int], logits: torch.Tensor) -> int:
        if row.request.logprobs and not written:
            top = torch.log_softmax(logits, -1).topk(row.request.logprobs)
            row.first = tuple(zip(top.indices.tolist(), top.values.tolist(), strict=True))
        if row.request.penalty != 1.0 and written:
            repeated = torch.tensor(sorted(set(written[-256:])), device=logits.device)
            values = logits[repeated]
            logits = logits.clone()
            penalty = row.request.penalty
            logits[repeated] = torch.where(values > 0, values / penalty, values * penalty)
        if row.matcher is not None:
            for token in written[row.seen :]:
                row.matcher.consume_token(token)
            row.seen = len(written)
            if row.matcher.is_stopped():
                return self.eos
            logits = _masked(logits, row.matcher.compute_bitmask())
        if row.request.temperature == 0:
            return int(logits.argmax())
        probabilities = torch.softmax(logits / row.request.temperature, -1)
        if row.request.top_p < 1.0:
            ordered, order = probabilities.sort(descending=True)
            dropped = ordered.cumsum(-1) - ordered > row.request.top_p
            probabilities[order[dropped]] = 0.0
        noise = torch.empty(probabilities.shape).exponential_(generator=row.generator).to(probabilities.device)
        return int((probabilities / noise).argmax())


class StopAt:
    """A stopping criterion (transformers' protocol): a row ends where one of its stop strings appears."""

    def __init__(self, rows: Sequence[Row], tokenizer: Any) -> None:
        self.rows, self.tokenizer = rows, tokenizer

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        done = [self._stopped(row, input_ids[number]) for number, row in enumerate(self.rows)]
        return torch.tensor(done, device=input_ids.device)

    def _stopped(self, row: Row, ids: torch.Tensor) -> bool:
        written = ids[row.prompt_length :]
        if row.stopped_at is None and (len(written) >= row.request.max_tokens or self._at_stop(row, written)):
            row.stopped_at = len(written)
        return row.stopped_at is not None

    def _at_stop(self, row: Row, written: torch.Tensor) -> bool:
        if not row.request.stop:
            return False
        tail = self.tokenizer.decode(written[-32:], skip_special_tokens=True)
        return any(stop in tail for stop in row.request.stop)


def _matcher(request: Request, llg_tokenizer: Any) -> Any:
    import llguidance

    if request.plan is not None:
        grammar = llguidance.LLMatcher.grammar_from_regex(regex(after_prefix(request.plan)))
    elif request.schema is not None:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(request.schema)
    else:
        return None
    matcher = llguidance.LLMatcher(llg_tokenizer, grammar)
    if matcher.is_error():
        raise ModelError(f"The grammar cannot be used with this model's tokenizer: {matcher.get_error()}")
    return matcher


def _masked(logits: torch.Tensor, bitmask: bytes) -> torch.Tensor:
    """Logits with every token the grammar forbids at minus infinity. The mask is one bit a token, low bit first."""
    # a model's vocabulary may be padded beyond the tokenizer's; `count` fills up with zeros
    bits = np.unpackbits(np.frombuffer(bitmask, dtype=np.uint8), count=logits.shape[-1], bitorder="little")
    return logits.masked_fill(torch.from_numpy(bits == 0).to(logits.device), float("-inf"))
