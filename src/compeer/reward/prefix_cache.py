"""Attention over a long shared cache on a CPU, without copying the cache for every query head.

Models with grouped heads keep one key and one value for several query heads. With a mask, transformers repeats both for
every query head before it attends: for a few new tokens over a long conversation that costs as much as the attention
itself. Here the query heads of a group stand behind one another as further rows of one attention instead; the numbers
are the same, a third of the time of attention is saved. Judges live on short blocks over long caches, so it is theirs.

Conversations under way in a transformers model, side by side, each token of them encoded once.

They share a key-value cache. They branch (one history becomes four candidates) and grow block by block; blocks of
different length are padded, and an explicit mask says which places of the cache count, so a row's result does not
depend on its neighbours. Taking tokens back needs no copying either: their places no longer count. Blocks end in the
same column, so that logits are computed for the last few columns alone.

Positions are explicit as well. After pictures, models with three-dimensional positions (Qwen-VL) continue elsewhere
than at the number of tokens, so every row knows its next position.

A model with sliding windows counts padding as distance; that matters only beyond the window.

Conversations under way in a text model on a CPU, side by side and without padding.

They do for a CPU what `branches` does for a GPU. There rows of one length are what is fast; here every padded token is
computed like any other and costs as much. So the new tokens of all conversations stand behind one another in one long
row, which is all that embeddings, projections and norms need, and attention alone is told where each conversation
begins: every one attends to its own keys and values and to nothing else.

Each conversation keeps its keys and values in a store with room at its end. Growing writes into that room; branching
shares the store, and who grows first takes a copy. Taking tokens back only moves the end.

The query heads that share a key stand behind one another as further rows of one attention, so that nothing is copied
for them either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention

from compeer.models.request import ModelError

ATTENTION = "compeer_folded"


def use_folded(model: Any) -> bool:
    """Let a text model on a CPU attend this way, where its heads are grouped. Whether it does now."""
    config = model.config
    heads, kept = (getattr(config, name, None) for name in ("num_attention_heads", "num_key_value_heads"))
    plain = getattr(config, "_attn_implementation", None) == "sdpa" and not hasattr(config, "vision_config")
    if model.device.type != "cpu" or not plain or not heads or not kept or heads == kept:
        return False
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(ATTENTION, folded)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    model.set_attn_implementation(ATTENTION)
    return True


def folded(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers asks of an attention function: queries (rows, heads, new, size) over keys (rows, groups, all,
    size), and the result as (rows, new, heads, size)."""
    rows, heads, new, size = query.shape
    groups, places = key.shape[1], key.shape[2]
    if attention_mask is None:
        found = scaled_dot_product_attention(query, key, value, is_causal=new > 1, scale=scaling, enable_gqa=True)
        return found.transpose(1, 2).contiguous(), None
    together = heads // groups
    found = scaled_dot_product_attention(
        query.reshape(rows, groups, together * new, size),
        key,
        value,
        attn_mask=_tall(attention_mask, (rows, together, new, places), query.dtype),
        scale=scaling,
    )
    return found.reshape(rows, heads, new, size).transpose(1, 2).contiguous(), None


def _tall(mask: torch.Tensor, shape: tuple[int, int, int, int], dtype: torch.dtype) -> torch.Tensor:
    """The mask for heads that stand behind one another, as what is added to the scores. Every layer of a model asks
    with the same mask, so the last answer is kept; which thread it was made for does not matter."""
    global _last
    known, made = _last
    if known is not mask:
        rows, together, new, places = shape
        added = mask
        if mask.dtype == torch.bool:
            added = torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, float("-inf"))
        added = added.expand(rows, 1, new, places).unsqueeze(2).expand(rows, 1, together, new, places)
        made = added.reshape(rows, 1, together * new, places)
        _last = (mask, made)
    return made


_last: tuple[torch.Tensor | None, torch.Tensor] = (None, torch.empty(0))


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


RAGGED_ATTENTION = "compeer_ragged"
_MODELS = {"llama", "mistral", "qwen2", "qwen3"}  # a token sees others through attention alone, placed by its position
_TOGETHER = 1024  # new tokens in one pass, of whole conversations; more of them bring nothing on a CPU
_BLOCK = 256  # new tokens that attend at once: a long block sees no more than it has to
_ROOM = 512  # places at the end of a store for the turns to come


class Stretch(NamedTuple):
    """New tokens of one conversation: from `start` on in the long row, after `before` tokens of their own."""

    store: torch.Tensor
    start: int
    new: int
    before: int
    mask: torch.Tensor


def use_ragged(model: Any) -> bool:
    """Let a text model on a CPU attend this way, if it is of a kind that can. Whether it does now."""
    config = model.config
    plain = getattr(config, "_attn_implementation", None) == "sdpa" and not getattr(config, "sliding_window", None)
    if model.device.type != "cpu" or not plain or config.model_type not in _MODELS:
        return False
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(RAGGED_ATTENTION, attend)
    AttentionMaskInterface.register(RAGGED_ATTENTION, sdpa_mask)
    model.set_attn_implementation(RAGGED_ATTENTION)
    return True


def is_ragged(model: Any) -> bool:
    return getattr(model.config, "_attn_implementation", None) == RAGGED_ATTENTION


class Ragged:
    """Some conversations in a model, to be used like `Branches`. `tokens` are those of each, in order."""

    def __init__(self, model: Any, count: int = 1) -> None:
        self.model = model
        self.tokens: list[list[int]] = [[] for _ in range(count)]
        # keys and values of each conversation: (layers, 2, groups, places, size); None before its first token
        self._stores: list[torch.Tensor | None] = [None] * count
        self._shared: list[bool] = [False] * count

    def __len__(self) -> int:
        return len(self.tokens)

    def branch(self, parents: Sequence[int]) -> Ragged:
        """New conversations that continue these ones; one may have several, and this object stays as it is."""
        grown = Ragged(self.model, len(parents))
        for row, parent in enumerate(parents):
            grown.tokens[row] = list(self.tokens[parent])
            grown._stores[row] = self._stores[parent]
            grown._shared[row] = self._shared[parent] = True
        return grown

    def keep(self, row: int, count: int) -> None:
        """Take back all tokens of a conversation but the first `count`."""
        del self.tokens[row][count:]

    def extend(
        self, blocks: Sequence[Sequence[int]], wanted: Sequence[Sequence[int]] | None = None
    ) -> list[torch.Tensor]:
        """Encode one block a row, and the logits at the wanted places of each block, (places, vocabulary)."""
        wanted = wanted or [()] * len(blocks)
        found = [torch.empty(0) for _ in blocks]
        for rows in _together(blocks):
            ids: list[int] = []
            positions: list[int] = []
            stretches: list[Stretch] = []
            columns: list[int] = []
            for row in rows:
                before, start, block = len(self.tokens[row]), len(ids), blocks[row]
                stretches += self._stretches(row, start, len(block))
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
                stretches=stretches,
            ).logits[0]
            counts = [len(wanted[row]) for row in rows]
            for row, read in zip(rows, logits[: len(columns)].float().split(counts), strict=True):
                found[row] = read
        return found

    def _stretches(self, row: int, start: int, count: int) -> Iterator[Stretch]:
        """A block in the pieces in which it attends."""
        known = len(self.tokens[row])
        store = self._store(row, known, known + count)
        folds = self.model.config.num_attention_heads // store.shape[2]
        for at in range(0, count, _BLOCK):
            new = min(_BLOCK, count - at)
            mask = _mask(folds, new, known + at, store.dtype)
            yield Stretch(store, start + at, new, known + at, mask)

    def _store(self, row: int, known: int, needed: int) -> torch.Tensor:
        """The conversation's own store, with so many places at least, the known ones filled."""
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


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    stretches: Sequence[Stretch] | None = None,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers asks of an attention function: queries (1, heads, new, size), the keys and values of the same
    tokens (1, groups, new, size), and the result as (1, new, heads, size). Somebody who calls the model as any other
    names no stretches, and is served as any other."""
    if stretches is None:
        return folded(module, query, key, value, attention_mask, scaling=scaling)
    _one, heads, new, size = query.shape
    groups = key.shape[1]
    found = query.new_empty((1, new, heads, size))
    for store, start, count, before, mask in stretches:
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


def _together(blocks: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """The rows that have a block, as many in a pass as are good for it."""
    rows: list[int] = []
    tokens = 0
    for row, block in enumerate(blocks):
        if rows and tokens + len(block) > _TOGETHER:
            yield rows
            rows, tokens = [], 0
        if block:
            rows.append(row)
            tokens += len(block)
    if rows:
        yield rows


def _mask(folds: int, new: int, before: int, dtype: torch.dtype) -> torch.Tensor:
    """What is added to the scores: nothing for what came before, minus infinity for what comes later in the block."""
    mask = torch.zeros((new, before + new), dtype=dtype)
    mask[:, before:] = torch.full((new, new), float("-inf"), dtype=dtype).triu_(1)
    return mask.repeat(folds, 1)[None, None]


_NO_MASK = torch.zeros((1, 1, 1, 1))  # transformers leaves a mask of four dimensions as it is, and makes none
