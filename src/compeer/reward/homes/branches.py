"""Conversations under way in a transformers model, side by side, each token of them encoded once.

They share a key-value cache. They branch (one history becomes four candidates) and grow block by block; blocks of
different length are padded, and an explicit mask says which places of the cache count, so a row's result does not
depend on its neighbours. Taking tokens back needs no copying either: their places no longer count. Blocks end in the
same column, so that logits are computed for the last few columns alone.

Positions are explicit as well. After pictures, models with three-dimensional positions (Qwen-VL) continue elsewhere
than at the number of tokens, so every row knows its next position.

A model with sliding windows counts padding as distance; that matters only beyond the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from compeer.models.request import ModelError


class Branches:
    """Some conversations in a model. `tokens` are those of each row that count, in order."""

    def __init__(self, model: Any, count: int = 1, axes: int = 1) -> None:
        from transformers import DynamicCache

        self.model, self.axes = model, axes
        self.cache: Any = DynamicCache()  # without a config: every layer keeps all of its places
        self.mask = torch.zeros((count, 0), dtype=torch.bool, device=model.device)
        self.tokens: list[list[int]] = [[] for _ in range(count)]
        self.positions: list[int] = [0] * count

    def __len__(self) -> int:
        return len(self.tokens)

    def branch(self, parents: Sequence[int]) -> Branches:
        """New rows that continue these ones; a row may have several, and this object stays as it is."""
        grown = Branches(self.model, len(parents), self.axes)
        chosen = torch.tensor(list(parents), dtype=torch.long, device=self.mask.device)
        for number, layer in enumerate(self.cache.layers):
            if getattr(layer, "keys", None) is None:
                raise ModelError(
                    f"{type(self.model).__name__} does not keep keys and values for every layer, so conversations "
                    "cannot share what was encoded. Use a judge with plain attention."
                )
            grown.cache.update(layer.keys.index_select(0, chosen), layer.values.index_select(0, chosen), number)
        grown.mask = self.mask.index_select(0, chosen)
        grown.tokens = [list(self.tokens[parent]) for parent in parents]
        grown.positions = [self.positions[parent] for parent in parents]
        return grown

    def keep(self, row: int, count: int) -> None:
        """Take back all tokens of a row but the first `count`; never those of a picture."""
        surplus = len(self.tokens[row]) - count
        if surplus > 0:
            places = self.mask[row].nonzero().squeeze(-1)
            self.mask[row, places[count:]] = False
            self.positions[row] -= surplus
            del self.tokens[row][count:]

    def extend(
        self,
        blocks: Sequence[Sequence[int]],
        wanted: Sequence[Sequence[int]] | None = None,
        *,
        positions: dict[int, torch.Tensor] | None = None,
        pictures: dict[str, torch.Tensor] | None = None,
    ) -> list[torch.Tensor]:
        """Encode one block a row, and the logits at the wanted places of each block, (places, vocabulary).

        `positions` replaces the positions of a row's block (axes, tokens); `pictures` goes to the model as it is.
        """
        wanted = wanted or [()] * len(blocks)
        width = max(map(len, blocks))
        if width == 0:
            return [torch.empty(0) for _ in blocks]
        device = self.mask.device
        # Padding stands before a block. It must see something, or it becomes not-a-number: where a row has nothing yet,
        # padding stands behind and sees the block.
        behind = self.mask.shape[1] == 0 or not bool(self.mask.any(dim=1).all())
        ids = torch.zeros((len(blocks), width), dtype=torch.long)
        real = torch.zeros((len(blocks), width), dtype=torch.bool)
        where = torch.zeros((self.axes, len(blocks), width), dtype=torch.long)
        starts = [0 if behind else width - len(block) for block in blocks]
        for row, (block, start) in enumerate(zip(blocks, starts, strict=True)):
            inside = slice(start, start + len(block))
            ids[row, inside] = torch.tensor(list(block), dtype=torch.long)
            real[row, inside] = True
            if positions and row in positions:
                where[:, row, inside] = positions[row]
                self.positions[row] = int(positions[row].max()) + 1
            else:
                where[:, row, inside] = self.positions[row] + torch.arange(len(block))
                self.positions[row] += len(block)
            self.tokens[row].extend(block)
        asked = [[start + place for place in places] for start, places in zip(starts, wanted, strict=True)]
        columns = sorted({column for places in asked for column in places}) or [0]
        real = real.to(device)
        visible = torch.cat([self.mask, torch.ones_like(real) if behind else real], dim=1)
        output = self.model(
            input_ids=ids.to(device),
            attention_mask=visible.long(),
            position_ids=(where if self.axes > 1 else where[0]).to(device),
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=torch.tensor(columns, device=device),
            **(pictures or {}),
        )
        self.mask = torch.cat([self.mask, real], dim=1)
        at = {column: number for number, column in enumerate(columns)}
        return [output.logits[row, [at[column] for column in places]].float() for row, places in enumerate(asked)]
