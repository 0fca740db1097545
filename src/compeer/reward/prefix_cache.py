"""A key-value cache for several conversations in one transformers model, so that each token is encoded once.

Conversations branch (one history becomes four candidates), grow block by block, and take tokens back. All share one
cache. Blocks of different length are padded, and an explicit mask says which places count, so a row's result does not
depend on its neighbours. Taking tokens back copies nothing: their places no longer count. Positions are explicit too,
because models with three-dimensional positions (Qwen-VL) continue after an image at another position than the number of
tokens. A model with sliding windows counts padding as distance; this matters only beyond the window.

Rows without padding were tried for text models on a CPU, where a padded token costs as much as any other: a judgement
took 0.87 of the processor time, which was not worth an attention function of our own inside transformers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from compeer.models.request import ModelError


class PaddedCache:
    """Conversations in a model, padded to equal length. `tokens` are those of each row that count, in order."""

    def __init__(self, model: Any, count: int = 1, axes: int = 1) -> None:
        from transformers import DynamicCache

        self.model, self.axes = model, axes
        self.cache: Any = DynamicCache()  # without a config every layer keeps all of its places
        self.mask = torch.zeros((count, 0), dtype=torch.bool, device=model.device)
        self.tokens: list[list[int]] = [[] for _ in range(count)]
        self.positions: list[int] = [0] * count

    def __len__(self) -> int:
        return len(self.tokens)

    def branch(self, parents: Sequence[int]) -> PaddedCache:
        """New rows that continue these rows. A row may have several children; this object does not change."""
        grown = PaddedCache(self.model, len(parents), self.axes)
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
        """Take back all tokens of a row except the first `count`; never those of an image."""
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
        """Encode one block per row; the logits at the wanted places of each block, (places, vocabulary).

        `positions` replaces the positions of a row's block, (axes, tokens). `pictures` goes to the model as it is.
        """
        wanted = wanted or [()] * len(blocks)
        width = max(map(len, blocks))
        if width == 0:
            return [torch.empty(0) for _ in blocks]
        device = self.mask.device
        # Padding stands before a block, so that all blocks end in the same column. It must see something, or it
        # becomes not-a-number: where a row is still empty, padding stands behind the block and sees it.
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
