"""Answers to many prompts on a CPU: the decoder of the rollouts, with rows that have ended taken out.

On a GPU a step costs the same however many rows have ended, and everything lies at fixed places. On a CPU it costs what
it computes. So prompts of like length go together, and rows leave as they end.

    answers = Many(base).write(prompts, tokens=400, temperature=0.7, end=2, seed=0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from compeer.policy.rollout.decoder import Decoder

_PORTION = 60  # prompts that are written together
_READ = 8  # prompts that are read together
_LOOK = 8  # tokens after which rows that have ended are taken out
_ENDED = 0.25  # the share of them that is worth the copying


class Many:
    """Writes in portions, prompts of like length together; what comes out hangs on the seed and the prompts alone."""

    def __init__(self, base: Any) -> None:
        self.base = base

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        tokens: int,
        temperature: float,
        end: int,
        seed: int,
        say: Callable[[int], None] = lambda done: None,
    ) -> list[list[int]]:
        """At most `tokens` tokens for each prompt, the end token included; `say` hears how many are done."""
        order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
        written: list[list[int]] = [[] for _ in prompts]
        for start in range(0, len(order), _PORTION):
            portion = order[start : start + _PORTION]
            rows = _Rows(self.base, [prompts[number] for number in portion], tokens)
            found = rows.answers(tokens, temperature, end, torch.Generator().manual_seed(seed + start))
            for number, ids in zip(portion, found, strict=True):
                written[number] = ids
            say(start + len(portion))
        return written


class _Rows(Decoder):
    """One portion: a row for each prompt, and fewer as they end."""

    def __init__(self, base: Any, prompts: Sequence[Sequence[int]], tokens: int) -> None:
        super().__init__(base, rows=len(prompts), places=max(map(len, prompts)) + tokens)
        self.load(base)
        self.prompts = prompts

    @torch.no_grad()
    def answers(self, tokens: int, temperature: float, end: int, draws: torch.Generator) -> list[list[int]]:
        self.draws = draws
        self.temperature.fill_(temperature)
        self.end.fill_(end)
        self._choose(self._read_all())
        rows = torch.arange(len(self.prompts))  # whose answer each row is
        found: dict[int, list[int]] = {}
        for number in range(1, tokens):
            if number % _LOOK == 0 and int(self.done.sum()) >= _ENDED * self.rows:
                found |= self._kept(rows[self.done], self.done)
                rows = rows[~self.done]
                if not len(rows):
                    break
                self._leave(~self.done)
            self._step()
        found |= self._kept(rows, torch.ones(len(rows), dtype=torch.bool))
        cut = (found[row] for row in range(len(self.prompts)))
        return [ids[: ids.index(end) + 1] if end in ids else ids for ids in cut]

    def _kept(self, whose: torch.Tensor, which: torch.Tensor) -> dict[int, list[int]]:
        if not len(whose):
            return {}
        return dict(zip(whose.tolist(), self.written[which, : int(self.count)].tolist(), strict=True))

    def _leave(self, left: torch.Tensor) -> None:
        """Go on with these rows alone."""
        self.rows = int(left.sum())
        self.memory = [(keys[left], values[left]) for keys, values in self.memory]
        for name in ("mask", "position", "token", "written", "told", "done"):
            setattr(self, name, getattr(self, name)[left].clone())

    def _read_all(self) -> torch.Tensor:
        """Read the prompts a few at a time, and put what is remembered of them side by side, aligned at their ends."""
        longest = max(map(len, self.prompts))
        rows, memory, mask = self.rows, self.memory, self.mask
        last, positions = [], []
        for start in range(0, rows, _READ):
            part = self.prompts[start : start + _READ]
            count, length = len(part), max(map(len, part))
            shape = (count, self.groups, length, self.size)
            self.memory = [(torch.zeros(shape, **self._kind), torch.zeros(shape, **self._kind)) for _ in self.layers]
            self.mask, self.position = torch.zeros((count, 1, 1, length)), torch.zeros(count, dtype=torch.long)
            last.append(self._read(part, range(count)))
            positions.append(self.position)
            here, there = slice(start, start + count), slice(longest - length, longest)
            for (keys, values), (new_keys, new_values) in zip(memory, self.memory, strict=True):
                keys[here, :, there], values[here, :, there] = new_keys, new_values
            mask[here] = float("-inf")
            mask[here, ..., there] = self.mask
        self.memory, self.mask, self.position = memory, mask, torch.cat(positions)
        self.at.fill_(longest)
        return torch.cat(last)

    def _choose(self, last: Any) -> None:
        """Draw a token for each row where a random number falls among the summed-up probabilities."""
        weights = (self._normed(last, self.last) @ self.head.T).float().div_(float(self.temperature))
        sums = weights.sub_(weights.amax(-1, keepdim=True)).exp_().cumsum_(-1)
        drawn = torch.rand(len(sums), 1, generator=self.draws) * sums[:, -1:]
        self.token = torch.searchsorted(sums, drawn, right=True)[:, 0].clamp_(max=sums.shape[1] - 1)
        self.written.index_copy_(1, self.count, self.token[:, None])
        self.done.logical_or_(self.token == self.end)
        self.count.add_(1)
