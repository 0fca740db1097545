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
from typing import Any

from compeer.models.embedded import Embedded
from compeer.models.endpoint import Endpoint
from compeer.models.request import Model, ModelError

Messages = Sequence[dict[str, Any]]
_RAISED = 100.0
_HIGHER = (30.0, 60.0, 90.0)  # tried in turn; too high and the shares become too small for a float


class Weigher:
    """A llama.cpp model that can weigh tokens, in this process or behind a server. `adapter`: which one of a model in
    this process is at work."""

    def __init__(self, model: Embedded | Endpoint, adapter: int | None = 0) -> None:
        self.model, self.adapter = model, adapter
        self._tokens: dict[str, list[int]] = {}

    async def tokenize(self, text: str) -> list[int]:
        """The tokens of a text that stands at the beginning of an answer."""
        if text not in self._tokens:
            model, body = self.model, {"content": text}
            if isinstance(model, Embedded):
                told = await asyncio.to_thread(lambda: model.load().request("POST", "/tokenize", body))
            else:
                told = await model.post("/tokenize", body)
            self._tokens[text] = [int(token) for token in told["tokens"]]
        return self._tokens[text]

    async def odds(self, messages: Messages, given: Sequence[int], among: Sequence[int]) -> list[float]:
        """The probability of each of these tokens as the next one after `given`, relative to the others."""
        drawn, model = (await self.tokenize("."))[-1], self.model
        if isinstance(model, Embedded):
            prompt = await model.prompt(messages, self.adapter)
        else:
            written = (await model.post("/apply-template", {"messages": list(messages)}))["prompt"]
        for higher in _HIGHER:
            how = weighing(among, drawn, higher)
            if isinstance(model, Embedded):
                answer = await model.completion({"prompt": [prompt.text, *given], **how}, prompt)
            else:
                answer = await model.post("/v1/completions", {"model": model.model, "prompt": [written, *given], **how})
            if found := shares(answer, among):
                return found
        raise ModelError(f"{model.name} does not tell how likely its answers are.")

    async def weigh(self, messages: Messages, answers: Sequence[str]) -> dict[str, float]:
        """The probability of each answer as the beginning of the model's turn after these messages, of all together.

        Answers may share their first tokens; one must not be the beginning of another.
        """
        return await self._divided(messages, {answer: tuple(await self.tokenize(answer)) for answer in answers}, ())

    async def _divided(
        self, messages: Messages, answers: dict[str, tuple[int, ...]], given: tuple[int, ...]
    ) -> dict[str, float]:
        """The shares of these answers, all of which begin with the tokens given."""
        if len(answers) == 1:
            return dict.fromkeys(answers, 1.0)
        groups: dict[int, dict[str, tuple[int, ...]]] = {}
        for answer, tokens in answers.items():
            if len(tokens) <= len(given):
                raise ModelError(f"The answer {answer!r} is the beginning of another one; they cannot be told apart.")
            groups.setdefault(tokens[len(given)], {})[answer] = tokens
        odds = await self.odds(messages, given, list(groups)) if len(groups) > 1 else [1.0]
        found: dict[str, float] = {}
        for share, (token, group) in zip(odds, groups.items(), strict=True):
            below = await self._divided(messages, group, (*given, token))
            found |= {answer: round(share * part, 12) for answer, part in below.items()}
        return {answer: found[answer] for answer in answers}


async def weigher(model: Model, adapter: int | None = 0) -> Weigher | None:
    """A `Weigher` for this model; None if it does not tell probabilities."""
    known = isinstance(model, Embedded) or (isinstance(model, Endpoint) and await model.dialect() == "llamacpp")
    return Weigher(model, adapter) if known else None  # type: ignore[arg-type]


async def weigh(model: Model, messages: Messages, answers: Sequence[str], adapter: int | None = 0) -> dict[str, float]:
    """`Weigher.weigh` by a model; ModelError for one that does not tell probabilities."""
    found = await weigher(model, adapter)
    if found is None:
        raise ModelError(f"{model.name} does not tell how likely its answers are.")
    return await found.weigh(messages, answers)


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
    """The share of each token, in their order; empty if the answer has none of them.

    >>> told = [{"id": 9, "prob": 0.6}, {"id": 7, "prob": 0.3}, {"id": 4, "prob": 0.1}]
    >>> shares({"choices": [{"logprobs": {"content": [{"top_probs": told}]}}]}, [4, 7])
    [0.25, 0.75]
    """
    tokens = (answer["choices"][0].get("logprobs") or {}).get("content") or []
    told = {entry["id"]: float(entry["prob"]) for entry in tokens[0]["top_probs"]} if tokens else {}
    found = [told.get(token, 0.0) for token in among]
    return [round(share / sum(found), 12) for share in found] if sum(found) > 0 else []
