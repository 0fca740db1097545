"""A decoder for models of the Llama kind whose every step is one launch: a CUDA graph over fixed memory.

transformers writes a token of a small model in some 25 ms on a fast GPU, nearly all of it Python and the starting of
some thousand kernels; the arithmetic itself takes one or two. Here everything a step touches lies at a fixed place: the
weights with the adapter added to them, the keys and values of all tokens, the mask, the tokens written so far. So the
kernels of a step can be recorded once and started together for every further token.

    decoder = Decoder(base, rows=64, places=1024)
    decoder.load(base)                                   # the weights of this step of training
    written = decoder.write(prompts, which, tokens=320, temperature=1.0, end=2, seed=7)

A prompt is read once, however many outputs it gets: `which` says for each row which prompt it continues. On a CPU the
same steps run one by one over the places written so far; there it is the sharing of one reading of the weights by all
rows that makes it fast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import torch
from torch.nn.functional import embedding, scaled_dot_product_attention, silu

_LOOK = 16  # tokens after which it is asked whether all outputs have ended; asking makes the GPU wait


class Written(msgspec.Struct, frozen=True):
    """Outputs, the end token included, and the log-probability of each of their tokens."""

    ids: list[list[int]]
    logprobs: list[list[float]]


class _Layer(msgspec.Struct):
    before: torch.Tensor
    attention: torch.Tensor  # query, key and value in one
    out: torch.Tensor
    between: torch.Tensor
    rise: torch.Tensor  # gate and up in one
    down: torch.Tensor

    def load(self, layer: Any) -> None:
        attention, wide = layer.self_attn, layer.mlp
        self.before.copy_(layer.input_layernorm.weight)
        self.between.copy_(layer.post_attention_layernorm.weight)
        parts = (attention.q_proj, attention.k_proj, attention.v_proj)
        self.attention.copy_(torch.cat([merged(part) for part in parts]))
        self.rise.copy_(torch.cat([merged(wide.gate_proj), merged(wide.up_proj)]))
        self.out.copy_(merged(attention.o_proj))
        self.down.copy_(merged(wide.down_proj))


def suits(base: Any) -> bool:
    """Whether this is a model that the decoder knows."""
    config = base.config
    plain = not getattr(config, "attention_bias", False) and not getattr(config, "mlp_bias", False)
    return bool(config.model_type == "llama" and plain and config.hidden_act == "silu")


def merged(linear: Any) -> torch.Tensor:
    """The weight of a linear layer with its adapters in it."""
    weight: torch.Tensor = getattr(linear, "base_layer", linear).weight.detach().float()
    for name in getattr(linear, "active_adapters", ()):
        if name in linear.lora_A:
            low, high = linear.lora_A[name].weight.detach(), linear.lora_B[name].weight.detach()
            weight = weight + linear.scaling[name] * (high.float() @ low.float())
    return weight


class Decoder:
    """Memory for `rows` outputs of `places` tokens each, prompt and output together, for a model shaped like `base`."""

    @torch.no_grad()
    def __init__(self, base: Any, *, rows: int, places: int) -> None:
        config, like = base.config, base.get_input_embeddings().weight
        self.rows, self.places, self.eps = rows, places, config.rms_norm_eps
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.size = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.device, self.dtype = like.device, like.dtype
        self.words = torch.empty_like(like)
        self.head = torch.empty_like(base.get_output_embeddings().weight, dtype=self.dtype)
        self.last = self._empty(config.hidden_size)
        self.layers = [self._layer(config) for _ in base.model.layers]
        shape = (rows, self.groups, places, self.size)
        self.memory = [(torch.zeros(shape, **self._kind), torch.zeros(shape, **self._kind)) for _ in self.layers]
        everywhere = torch.arange(places, device=self.device)[None]
        cos, sin = base.model.rotary_emb(torch.empty(1, 1, 1, **self._kind), everywhere)
        self.cos, self.sin = cos[0].clone(), sin[0].clone()
        # the state of a generation
        whole = {"dtype": torch.long, "device": self.device}
        self.mask = torch.zeros((rows, 1, 1, places), device=self.device)
        self.at, self.count = torch.zeros(1, **whole), torch.zeros(1, **whole)
        self.position, self.token = torch.zeros(rows, **whole), torch.zeros(rows, **whole)
        self.written = torch.zeros((rows, places), **whole)
        self.told = torch.zeros((rows, places), device=self.device)
        self.done = torch.zeros(rows, dtype=torch.bool, device=self.device)
        self.noise = torch.ones((rows, self.head.shape[0]), device=self.device)
        self.temperature, self.end = torch.ones(1, device=self.device), torch.zeros(1, **whole)
        self._graph: Any = None

    @property
    def _kind(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "device": self.device}

    def _empty(self, *shape: int) -> torch.Tensor:
        return torch.zeros(shape, **self._kind)

    def _layer(self, config: Any) -> _Layer:
        width, inner = config.hidden_size, config.intermediate_size
        mine, shared = self.heads * self.size, self.groups * self.size
        return _Layer(
            before=self._empty(width),
            attention=self._empty(mine + 2 * shared, width),
            out=self._empty(width, mine),
            between=self._empty(width),
            rise=self._empty(2 * inner, width),
            down=self._empty(width, inner),
        )

    @torch.no_grad()
    def load(self, base: Any) -> None:
        """Take over the weights as they are now."""
        self.words.copy_(base.get_input_embeddings().weight)
        self.head.copy_(merged(base.get_output_embeddings()))
        self.last.copy_(base.model.norm.weight)
        for mine, theirs in zip(self.layers, base.model.layers, strict=True):
            mine.load(theirs)

    @torch.no_grad()
    def write(
        self,
        prompts: Sequence[Sequence[int]],
        which: Sequence[int],
        *,
        tokens: int,
        temperature: float,
        end: int,
        seed: int,
    ) -> Written:
        """Continue `prompts[which[row]]` in each row by at most `tokens` tokens, drawn from the whole distribution."""
        if len(which) != self.rows or max(map(len, prompts)) + tokens > self.places:
            raise ValueError(
                f"{len(which)} rows of {max(map(len, prompts))} + {tokens} tokens do not fit this decoder."
            )
        with torch.autocast(self.device.type, enabled=False):
            if self.device.type == "cuda" and self._graph is None:
                self._record()
            draws = torch.Generator(self.device).manual_seed(seed)
            self.temperature.fill_(temperature)
            self.end.fill_(end)
            last = self._read(prompts, which)
            self.noise.exponential_(generator=draws)
            self._choose(last)
            for number in range(1, tokens):
                if number % _LOOK == 0 and bool(self.done.all()):
                    break
                self.noise.exponential_(generator=draws)
                if self._graph is None:
                    self._step()
                else:
                    self._graph.replay()
        return self._cut(end)

    def _record(self) -> None:
        """Record a step, after a few that let the libraries set themselves up."""
        side: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.at.zero_(), self.count.zero_()
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self.at.zero_(), self.count.zero_()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._step()

    def _read(self, prompts: Sequence[Sequence[int]], which: Sequence[int]) -> torch.Tensor:
        """Put the prompts into memory, aligned at their ends; the hidden state of each row's last token."""
        longest = max(map(len, prompts))
        ids = torch.zeros((len(prompts), longest), dtype=torch.long)
        real = torch.zeros((len(prompts), longest), dtype=torch.bool)
        for row, prompt in enumerate(prompts):
            ids[row, longest - len(prompt) :] = torch.tensor(prompt)
            real[row, longest - len(prompt) :] = True
        ids, real = ids.to(self.device), real.to(self.device)
        rows = torch.tensor(which, device=self.device)
        position = (real.long().cumsum(1) - 1).clamp(min=0)
        seen = real[:, None, None, :] & torch.ones(longest, longest, dtype=torch.bool, device=self.device).tril()
        seen = seen | torch.eye(
            longest, dtype=torch.bool, device=self.device
        )  # padding looks at itself, not at nothing
        hidden = embedding(ids, self.words)
        cos, sin = self.cos[position][:, None], self.sin[position][:, None]
        together = self.heads // self.groups
        for layer, (keys, values) in zip(self.layers, self.memory, strict=True):
            query, key, value = self._parts(layer, hidden, cos, sin)
            keys[:, :, :longest], values[:, :, :longest] = key[rows], value[rows]
            found = scaled_dot_product_attention(
                query,
                key.repeat_interleave(together, 1),
                value.repeat_interleave(together, 1),
                attn_mask=seen,
            )
            hidden = self._rest(layer, hidden, found.transpose(1, 2).flatten(2))
        self.mask.fill_(float("-inf"))
        self.mask[:, 0, 0, :longest].masked_fill_(real[rows], 0.0)
        self.at.fill_(longest)
        self.count.zero_()
        self.done.zero_()
        self.position.copy_(real.sum(1)[rows])
        return hidden[rows, -1]

    def _step(self) -> None:
        """Read the tokens written last, and write the next ones. What it changes lies at fixed places."""
        upto = int(self.at) + 1 if self.device.type == "cpu" else self.places  # a recorded step cannot ask
        mask = self.mask[..., :upto]
        hidden = embedding(self.token, self.words)[:, None]
        cos, sin = self.cos[self.position][:, None, None], self.sin[self.position][:, None, None]
        self.mask.index_fill_(3, self.at, 0.0)
        for layer, (keys, values) in zip(self.layers, self.memory, strict=True):
            query, key, value = self._parts(layer, hidden, cos, sin)
            keys.index_copy_(2, self.at, key)
            values.index_copy_(2, self.at, value)
            query = query.view(self.rows, self.groups, self.heads // self.groups, self.size)
            scores = (query @ keys[:, :, :upto].transpose(2, 3)).float() * self.size**-0.5 + mask
            found = scores.softmax(-1).to(self.dtype) @ values[:, :, :upto]
            hidden = self._rest(layer, hidden, found.reshape(self.rows, 1, -1))
        self.at.add_(1)
        self.position.add_(1)
        self._choose(hidden[:, 0])

    def _parts(self, layer: _Layer, hidden: Any, cos: Any, sin: Any) -> tuple[Any, Any, Any]:
        """Query, key and value: rows x heads x tokens x size, turned by their positions."""
        rows, new = hidden.shape[:2]
        made = self._normed(hidden, layer.before) @ layer.attention.T
        made = made.view(rows, new, -1, self.size).transpose(1, 2)
        query, key, value = made.split([self.heads, self.groups, self.groups], 1)
        return _turned(query, cos, sin), _turned(key, cos, sin), value

    def _rest(self, layer: _Layer, hidden: Any, found: Any) -> Any:
        hidden = hidden + found @ layer.out.T
        gate, up = (self._normed(hidden, layer.between) @ layer.rise.T).chunk(2, -1)
        return hidden + (silu(gate) * up) @ layer.down.T

    def _normed(self, hidden: Any, weight: Any) -> Any:
        exact = hidden.float()
        exact = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + self.eps)
        return weight * exact.to(self.dtype)

    def _choose(self, last: Any) -> None:
        """Draw a token for each row: the largest of p / e, where e is exponential noise, is a draw from p."""
        scores = (self._normed(last, self.last) @ self.head.T).float() / self.temperature
        known = scores.log_softmax(-1)
        self.token.copy_((known - self.noise.clamp_min(1e-30).log()).argmax(-1))
        self.written.index_copy_(1, self.count, self.token[:, None])
        self.told.index_copy_(1, self.count, known.gather(1, self.token[:, None]))
        self.done.logical_or_(self.token == self.end)
        self.count.add_(1)

    def _cut(self, end: int) -> Written:
        """Each row up to its end token."""
        count = int(self.count)
        ids, told = self.written[:, :count].tolist(), self.told[:, :count].tolist()
        lengths = [row.index(end) + 1 if end in row else count for row in ids]
        return Written(
            [row[:length] for row, length in zip(ids, lengths, strict=True)],
            [row[:length] for row, length in zip(told, lengths, strict=True)],
        )


def _turned(states: Any, cos: Any, sin: Any) -> Any:
    """Rotary positions: the two halves of a head are the two coordinates that are turned."""
    first, second = states.chunk(2, -1)
    return states * cos + torch.cat([-second, first], -1) * sin
