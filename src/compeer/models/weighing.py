"""The probability of some tokens against each other, by llama.cpp in this process or behind HTTP.

Its server reports probabilities of the likeliest tokens, either before sampling (then a token that matters may not be
among them) or after. So the tokens in question are raised far above all others, equally, and the probabilities after
sampling are asked for: the result is their share among themselves.

`weigh` asks for whole words: how likely a model's turn would begin with each of a few answers. A question about a
conversation is asked as a last message behind it, so that the conversation itself is read once for the question and for
the reply that follows.

It reports none when the token that is drawn is half a character, as in Chinese it may well be. So one whole character
is raised still higher, for it to be drawn; it takes no part in the shares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from compeer.models.embedded import Embedded
from compeer.models.endpoint import Endpoint
from compeer.models.request import Model, ModelError

Messages = Sequence[dict[str, Any]]
_RAISED = 100.0
_HIGHER = (30.0, 60.0, 90.0)  # tried in turn; too high and the shares become too small for a float


class Weigher(Protocol):
    """A home that can weigh tokens."""

    async def tokenize(self, text: str) -> list[int]:
        """The tokens of a text that stands at the beginning of an answer."""
        ...

    async def odds(self, messages: Messages, given: Sequence[int], among: Sequence[int]) -> list[float]:
        """How likely each of these tokens comes next, of all of them together, after the tokens given already."""
        ...


async def weigher(model: Model) -> Weigher | None:
    """What weighs tokens for this model, if anything does."""
    if isinstance(model, Embedded):
        return EmbeddedWeigher(model)
    if isinstance(model, Endpoint) and await model.dialect() == "llamacpp":
        return ServerWeigher(model)
    return None


async def weigh(model: Model, messages: Messages, answers: Sequence[str]) -> dict[str, float]:
    """The probability of each answer as the beginning of the model's turn after these messages, of all together.

    Answers may share their first tokens; one must not be the beginning of another. ModelError for a model that does not
    tell probabilities.
    """
    found = await weigher(model)
    if found is None:
        raise ModelError(f"{model.name} does not tell how likely its answers are.")
    tokens = {answer: tuple(await found.tokenize(answer)) for answer in answers}
    return await _divided(found, messages, tokens, ())


async def _divided(
    home: Weigher, messages: Messages, answers: dict[str, tuple[int, ...]], given: tuple[int, ...]
) -> dict[str, float]:
    """The shares of these answers, all of which begin with the tokens given."""
    if len(answers) == 1:
        return dict.fromkeys(answers, 1.0)
    groups: dict[int, dict[str, tuple[int, ...]]] = {}
    for answer, tokens in answers.items():
        if len(tokens) <= len(given):
            raise ModelError(f"The answer {answer!r} is the beginning of another one; they cannot be told apart.")
        groups.setdefault(tokens[len(given)], {})[answer] = tokens
    odds = await home.odds(messages, given, list(groups)) if len(groups) > 1 else [1.0]
    found: dict[str, float] = {}
    for share, (token, group) in zip(odds, groups.items(), strict=True):
        below = await _divided(home, messages, group, (*given, token))
        found |= {answer: share * part for answer, part in below.items()}
    return found


class EmbeddedWeigher:
    """Weighs with the model in this process."""

    def __init__(self, model: Embedded) -> None:
        self.model = model
        self._drawn: int | None = None

    async def tokenize(self, text: str) -> list[int]:
        found = await asyncio.to_thread(lambda: self.model.load().request("POST", "/tokenize", {"content": text}))
        return [int(token) for token in found["tokens"]]

    async def odds(self, messages: Messages, given: Sequence[int], among: Sequence[int]) -> list[float]:
        if self._drawn is None:
            self._drawn = (await self.tokenize("."))[-1]
        prompt = await self.model.prompt(messages)
        for higher in _HIGHER:
            body = {"prompt": [prompt.text, *given], **weighing(among, self._drawn, higher)}
            if found := shares(await self.model.completion(body, prompt), among):
                return found
        raise ModelError(f"{self.model.name} does not tell how likely its answers are.")


class ServerWeigher:
    """Weighs with a llama.cpp server."""

    def __init__(self, model: Endpoint) -> None:
        self.model = model
        self._drawn: int | None = None

    async def tokenize(self, text: str) -> list[int]:
        return [int(token) for token in (await self.model.post("/tokenize", {"content": text}))["tokens"]]

    async def odds(self, messages: Messages, given: Sequence[int], among: Sequence[int]) -> list[float]:
        if self._drawn is None:
            self._drawn = (await self.tokenize("."))[-1]
        prompt = (await self.model.post("/apply-template", {"messages": list(messages)}))["prompt"]
        for higher in _HIGHER:
            body = {"model": self.model.model, "prompt": [prompt, *given], **weighing(among, self._drawn, higher)}
            if found := shares(await self.model.post("/v1/completions", body), among):
                return found
        raise ModelError(f"{self.model.name} does not tell how likely its answers are.")


def weighing(among: Sequence[int], drawn: int, higher: float) -> dict[str, Any]:
    """The fields of a completion request that weigh these tokens as the next one."""
    raised = [[token, _RAISED] for token in among]
    return {
        "logit_bias": raised if drawn in among else [*raised, [drawn, _RAISED + higher]],
        "n_probs": len(among) + 1,
        "post_sampling_probs": True,
        "samplers": ["temperature"],
        "temperature": 1.0,
        "max_tokens": 1,
        "cache_prompt": True,
    }


def shares(answer: dict[str, Any], among: Sequence[int]) -> list[float]:
    """The share of each token, in their order; nothing where none was told.

    >>> told = [{"id": 9, "prob": 0.6}, {"id": 7, "prob": 0.3}, {"id": 4, "prob": 0.1}]
    >>> shares({"choices": [{"logprobs": {"content": [{"top_probs": told}]}}]}, [4, 7])
    [0.25, 0.75]
    """
    tokens = (answer["choices"][0].get("logprobs") or {}).get("content") or []
    told = {entry["id"]: float(entry["prob"]) for entry in tokens[0]["top_probs"]} if tokens else {}
    found = [told.get(token, 0.0) for token in among]
    return [round(share / sum(found), 12) for share in found] if sum(found) > 0 else []
