"""Key-value caches for several conversations in one transformers model, so that each token is encoded once.

Both caches have the same interface: conversations branch (one history becomes four candidates), grow block by block,
and take tokens back.

`PaddedCache` serves GPUs and vision models. All conversations share one cache. Blocks of different length are padded,
and an explicit mask says which places count, so a row's result does not depend on its neighbours. Taking tokens back
copies nothing: their places no longer count. Positions are explicit too, because models with three-dimensional
positions (Qwen-VL) continue after an image at another position than the number of tokens. A model with sliding windows
counts padding as distance; this matters only beyond the window.

`RaggedCache` serves text models on a CPU, where a padded token costs as much as any other. The new tokens of all
conversations stand in one long row, which is all that embeddings, projections and norms need. Attention alone is told
where each conversation begins (`AttentionSpan`). Each conversation keeps its keys and values in a store with room at
the end. Branching shares the store, and the first one to grow takes a copy. Query heads that share a key become
further rows of one attention call, so nothing is repeated for them either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention

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


RAGGED_ATTENTION = "compeer_ragged"
_RAGGED_MODELS = {"llama", "mistral", "qwen2", "qwen3"}  # tokens meet in attention alone, placed by their position
_PASS_TOKENS = 1024  # new tokens in one pass; more are no faster on a CPU
_BLOCK = 256  # new tokens that attend at once: a long block computes no more than it needs
_ROOM = 512  # places at the end of a store for later turns
_NO_MASK = torch.zeros((1, 1, 1, 1))  # transformers takes a four-dimensional mask as it is, and makes none


class AttentionSpan(NamedTuple):
    """New tokens of one conversation: from `start` in the long row, after `before` tokens of their own."""

    store: torch.Tensor
    start: int
    new: int
    before: int
    mask: torch.Tensor


def use_ragged_attention(model: Any) -> bool:
    """Let a text model on a CPU attend without padding, if it can. Whether it does now."""
    config = model.config
    plain = getattr(config, "_attn_implementation", None) == "sdpa" and not getattr(config, "sliding_window", None)
    if model.device.type != "cpu" or not plain or config.model_type not in _RAGGED_MODELS:
        return False
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(RAGGED_ATTENTION, ragged_attention)
    AttentionMaskInterface.register(RAGGED_ATTENTION, sdpa_mask)
    model.set_attn_implementation(RAGGED_ATTENTION)
    return True


def is_ragged(model: Any) -> bool:
    return getattr(model.config, "_attn_implementation", None) == RAGGED_ATTENTION


class RaggedCache:
    """Conversations in a model without padding, with the interface of `PaddedCache`."""

    def __init__(self, model: Any, count: int = 1) -> None:
        self.model = model
        self.tokens: list[list[int]] = [[] for _ in range(count)]
        # keys and values of each conversation: (layers, 2, groups, places, size); None before its first token
        self._stores: list[torch.Tensor | None] = [None] * count
        self._shared: list[bool] = [False] * count

    def __len__(self) -> int:
        return len(self.tokens)

    def branch(self, parents: Sequence[int]) -> RaggedCache:
        """New conversations that continue these. One may have several children; this object does not change."""
        grown = RaggedCache(self.model, len(parents))
        for row, parent in enumerate(parents):
            grown.tokens[row] = list(self.tokens[parent])
            grown._stores[row] = self._stores[parent]
            grown._shared[row] = self._shared[parent] = True
        return grown

    def keep(self, row: int, count: int) -> None:
        """Take back all tokens of a conversation except the first `count`."""
        del self.tokens[row][count:]

    def extend(
        self, blocks: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]] | None = None
    ) -> list[torch.Tensor]:
        """Encode one block per row; the logits at the wanted places of each block, (places, vocabulary)."""
        wanted = wanted or [()] * len(blocks)
        found = [torch.empty(0) for _ in blocks]
        for rows in _passes(blocks):
            ids: list[int] = []
            positions: list[int] = []
            spans: list[AttentionSpan] = []
            columns: list[int] = []
            for row in rows:
                before, start, block = len(self.tokens[row]), len(ids), blocks[row]
                spans += self._spans(row, start, len(block))
                columns += [start + place for place in wanted[row]]
                positions += range(before, before + len(block))
                ids += block
                self.tokens[row] += block
            logits = self.model(
                input_ids=torch.tensor([ids]),
                position_ids=torch.tensor([positions]),
                attention_mask=_NO_MASK,
                use_cache=False,
                logits_to_keep=torch.tensor(columns or [0]),
                spans=spans,
            ).logits[0]
            counts = [len(wanted[row]) for row in rows]
            for row, read in zip(rows, logits[: len(columns)].float().split(counts), strict=True):
                found[row] = read
        return found

    def _spans(self, row: int, start: int, count: int) -> Iterator[AttentionSpan]:
        """A block in the pieces in which it attends."""
        known = len(self.tokens[row])
        store = self._store(row, known, known + count)
        heads_per_key = self.model.config.num_attention_heads // store.shape[2]
        for at in range(0, count, _BLOCK):
            new = min(_BLOCK, count - at)
            yield AttentionSpan(
                store, start + at, new, known + at, _causal_mask(heads_per_key, new, known + at, store.dtype)
            )

    def _store(self, row: int, known: int, needed: int) -> torch.Tensor:
        """The conversation's own store with at least `needed` places, the known ones filled."""
        store = self._stores[row]
        if store is None or self._shared[row] or store.shape[3] < needed:
            config = self.model.config
            size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
            shape = (config.num_hidden_layers, 2, config.num_key_value_heads, needed + _ROOM, size)
            own = torch.empty(shape, dtype=self.model.dtype)
            if store is not None:
                own[:, :, :, :known] = store[:, :, :, :known]
            self._stores[row], self._shared[row] = own, False
            return own
        return store


def ragged_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    spans: Sequence[AttentionSpan] | None = None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function of transformers: queries (1, heads, new, size), keys and values of the same tokens
    (1, groups, new, size), result (1, new, heads, size). Without spans it is transformers' own attention."""
    if spans is None:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        plain = ALL_ATTENTION_FUNCTIONS["sdpa"]
        return plain(module, query, key, value, attention_mask, scaling=scaling, **options)  # type: ignore[no-any-return]
    _one, heads, new, size = query.shape
    groups = key.shape[1]
    found = query.new_empty((1, new, heads, size))
    for store, start, count, before, mask in spans:
        own, end = slice(start, start + count), before + count
        keys, values = store[module.layer_idx]
        keys[:, before:end] = key[0, :, own]
        values[:, before:end] = value[0, :, own]
        seen = scaled_dot_product_attention(
            query[:, :, own].reshape(1, groups, -1, size),
            keys[None, :, :end],
            values[None, :, :end],
            attn_mask=mask,
            scale=scaling,
        )
        found[0, own] = seen.view(heads, count, size).transpose(0, 1)
    return found, None


def _passes(blocks: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The rows that have a block, as many per pass as are worth it."""
    rows: list[int] = []
    tokens = 0
    for row, block in enumerate(blocks):
        if rows and tokens + len(block) > _PASS_TOKENS:
            yield rows
            rows, tokens = [], 0
        if block:
            rows.append(row)
            tokens += len(block)
    if rows:
        yield rows


def _causal_mask(heads_per_key: int, new: int, before: int, dtype: torch.dtype) -> torch.Tensor:
    """Added to the scores: 0 for earlier tokens, minus infinity for later tokens of the block."""
    mask = torch.zeros((new, before + new), dtype=dtype)
    mask[:, before:] = torch.full((new, new), float("-inf"), dtype=dtype).triu_(1)
    return mask.repeat(heads_per_key, 1)[None, None]
