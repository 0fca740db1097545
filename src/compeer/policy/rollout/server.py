"""llama.cpp as a sampler: one prompt in, several outputs with the log-probability of every token out.

The server runs in this process and is spoken to over its own HTTP side on the loopback interface, locked with a random
key: only that way it tells the ids of all tokens. The log-probabilities it tells are incomplete. A token that ends in
the middle of a character (an emoji is often three tokens, a Chinese character two) has none, so what is told has to be
laid beside the tokens again.
"""

from __future__ import annotations

import http.client
import math
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.models.embedded import start_server
from compeer.models.request import ModelError

_FIELDS = ["index", "tokens", "completion_probabilities"]


class Sample(msgspec.Struct, frozen=True):
    """An output: the ids of its tokens, the end token included, and their log-probabilities, NaN where untold."""

    ids: list[int]
    logprobs: list[float]


class Server:
    """llama.cpp with these weights and this adapter, until it is closed. `context`: tokens of all slots together."""

    def __init__(self, weights: Path, adapter: Path | None, *, slots: int, context: int, threads: int) -> None:
        self.slots, self.context = slots, context
        self._key = secrets.token_hex(16)
        self._server: Any = start_server(
            weights,
            adapter,
            slots=slots,
            context=context,
            key=self._key,
            brief=True,
            n_threads=threads,
        )
        self._address = str(self._server.listening_address).removeprefix("http://")
        # a server that is dropped before its loop runs never ends; this answer comes from the loop
        loaded = self._asked("GET", "/lora-adapters")
        if adapter and [entry["scale"] for entry in loaded] != [1.0]:
            raise ModelError(f"llama.cpp did not load the adapter {adapter}: it has {loaded}.")

    def sample(
        self,
        ids: Sequence[int],
        count: int,
        *,
        seed: int,
        tokens: int,
        temperature: float = 1.0,
        ignore_end: bool = False,
    ) -> list[Sample]:
        """`count` outputs of at most `tokens` tokens for one prompt, from the whole distribution at `temperature`."""
        answer = self._asked(
            "POST",
            "/completion",
            {
                "prompt": list(ids),
                "n_cmpl": count,
                "n_predict": tokens,
                "seed": seed,
                "temperature": temperature,
                "samplers": ["temperature"],
                "ignore_eos": ignore_end,
                "cache_prompt": True,
                "return_tokens": True,
                "n_probs": 1,
                # what is told is otherwise the distribution before the temperature
                "post_sampling_probs": temperature != 1.0,
                "response_fields": _FIELDS,
            },
        )
        found = sorted(answer if isinstance(answer, list) else [answer], key=lambda output: int(output["index"]))
        if len(found) != count or not all(output["tokens"] for output in found):
            raise ModelError(f"llama.cpp was asked for {count} outputs and gave {len(found)}, or an empty one.")
        return [_sample(output) for output in found]

    def close(self) -> None:
        self._server = None

    def _asked(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        if self._server is None:
            raise ModelError("This llama.cpp server is closed.")
        connection = http.client.HTTPConnection(self._address, timeout=3600)
        try:
            headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
            connection.request(method, path, msgspec.json.encode(body) if body else None, headers)
            answer = msgspec.json.decode(connection.getresponse().read())
        except (OSError, http.client.HTTPException, msgspec.DecodeError) as error:
            raise ModelError(f"llama.cpp stopped answering in the middle of a rollout: {error}.") from error
        finally:
            connection.close()
        if isinstance(answer, dict) and "error" in answer:
            raise ModelError(f"llama.cpp refused a rollout: {answer['error'].get('message')}.")
        return answer


def _sample(output: dict[str, Any]) -> Sample:
    ids = [int(token) for token in output["tokens"]]
    told = output.get("completion_probabilities", [])  # absent where there is nothing to tell
    values = [entry["logprob"] if "logprob" in entry else _log(entry["prob"]) for entry in told]
    logprobs = [math.nan] * len(ids)
    for place, value in zip(places(ids, [int(entry["id"]) for entry in told]), values, strict=True):
        if place is not None:
            logprobs[place] = float(value)
    return Sample(ids, logprobs)


def places(tokens: Sequence[int], told: Sequence[int]) -> list[int | None]:
    """Where each of `told`, a part of `tokens` in the same order, stands in it; None where there are several ways.

    >>> places([5, 6, 7, 8], [5, 7, 8])
    [0, 2, 3]
    >>> places([5, 6, 6, 8], [5, 6, 8])  # the first or the second 6?
    [0, None, 3]
    """
    first = _earliest(tokens, told)
    last = [len(tokens) - 1 - place for place in _earliest(tokens[::-1], told[::-1])][::-1]
    return [one if one == other else None for one, other in zip(first, last, strict=True)]


def _earliest(tokens: Sequence[int], told: Sequence[int]) -> list[int]:
    found: list[int] = []
    for token in told:
        begin = found[-1] + 1 if found else 0
        try:
            found.append(tokens.index(token, begin))
        except ValueError:
            raise ModelError("llama.cpp told the probability of a token that it did not write.") from None
    return found


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else math.nan
