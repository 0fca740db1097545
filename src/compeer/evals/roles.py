"""Who talks and who judges: the supporter under test, the seeker that is played, the judges.

Each role sees its own conversation and nothing of the others' secrets. The supporter's history begins with the
seeker's first words; it never sees a persona, a card or a greeting. The seeker hears replies, never the reasoning
before them. With reasoning the supporter gets our contract as its system prompt, a grammar where its home knows one,
and further tries where it does not; plain, it gets the benchmark's prompt. Either way what was thought is split off
by `compeer.reasoning`, so a model that thinks in its own way is heard properly too.

All calls of a run pass one gate, whichever model they go to: `concurrency` is what is in flight in all. Around each
call Inspect keeps events, copies and counters of its own, about 3 ms of processor time. Where the journal holds what
was said anyway, calls to our own homes can go past that (`log_calls`).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from typing import Any

import msgspec
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
)

from compeer.evals.provider import is_ours
from compeer.evals.result import Said
from compeer.reasoning import parse, system_prompt, with_thinking
from compeer.reasoning.ontology import Language
from compeer.reasoning.prompt import Length
from compeer.reasoning.schema import has_words

#: what a supporter that says nothing is heard to say; servers refuse empty messages
SILENCE = "……"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How the roles are asked. `max_tokens` None: 2,000 with reasoning, 600 plain."""

    plain: bool = False
    instruction: Length = "full"  # the contract's prompt: "brief" for models trained on it
    grammar: bool = True
    attempts: int = 3  # for an output that does not keep the contract, a plan without a change
    temperature: float = 0.7
    max_tokens: int | None = None
    seeker_temperature: float = 0.7
    seeker_tokens: int = 500
    judge_tokens: int = 256
    seed: int = 0
    concurrency: int = 32
    log_calls: bool = (
        True  # in Inspect's log; without it a call to one of our homes costs a third of the processor time
    )

    @property
    def supporter_tokens(self) -> int:
        return self.max_tokens or (600 if self.plain else 2000)


class Calls:
    """The calls of one sample: seeded by its name and their number, counted, and let through the gate one by one."""

    def __init__(self, case: str, settings: Settings, gate: asyncio.Semaphore) -> None:
        self.case, self.settings, self.gate = case, settings, gate
        self.counts: Counter[str] = Counter()

    async def ask(
        self,
        model: Model,
        messages: list[ChatMessage],
        *,
        temperature: float,
        max_tokens: int,
        **extra: Any,
    ) -> str:
        """What a model writes, its thinking included."""
        ours = is_ours(model)
        config = GenerateConfig(
            temperature=temperature,
            max_tokens=max_tokens,
            seed=self._seed() if ours else None,
            extra_body=extra or None if ours else None,
        )
        async with self.gate:
            self.counts["calls"] += 1
            if ours and not self.settings.log_calls:
                output = await model.api.generate(messages, [], "none", config)
            else:
                output = await model.generate(messages, config=config)
        if output.usage:
            self.counts["tokens_read"] += output.usage.input_tokens + (output.usage.input_tokens_cache_read or 0)
            self.counts["tokens_written"] += output.usage.output_tokens
        return whole(output)

    def _seed(self) -> int:
        words = f"{self.settings.seed}/{self.case}/{self.counts['calls']}"
        return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=4).digest()) >> 1


class Supporter:
    """The model under test, with its own view of the conversation."""

    def __init__(self, model: Model, calls: Calls, language: Language, prompt: str) -> None:
        self.model, self.calls, self.language = model, calls, language
        settings = calls.settings
        system = prompt if settings.plain else system_prompt(language, length=settings.instruction)
        self.messages: list[ChatMessage] = [ChatMessageSystem(content=system)] if system.strip() else []

    async def answer(self, heard: str) -> Said:
        """The reply to what the seeker said, with what was thought before it."""
        self.messages.append(ChatMessageUser(content=heard))
        raw, reply = await self._plain() if self.calls.settings.plain else await self._reasoned()
        if not has_words(reply):
            self.calls.counts["silent"] += 1
            reply = SILENCE
        self.messages.append(ChatMessageAssistant(content=reply))
        return Said("supporter", reply, reasoning=raw.strip().removesuffix(reply).strip() or None)

    async def _plain(self) -> tuple[str, str]:
        raw = await self._ask()
        return raw, parse(raw).response

    async def _reasoned(self) -> tuple[str, str]:
        """The first complete output, else the one with the fewest problems."""
        settings = self.calls.settings
        fill = {"reasoning": self.language} if settings.grammar else {}
        tried = []
        for _ in range(settings.attempts):
            raw = await self._ask(**fill)
            parsed = parse(raw)
            tried.append((len(parsed.problems), raw, parsed.response))
            if parsed.complete:
                break
            self.calls.counts["asked_again"] += len(tried) < settings.attempts
        problems, raw, reply = min(tried, key=lambda one: one[0])
        self.calls.counts["replies"] += 1
        self.calls.counts["incomplete"] += problems > 0
        return raw, reply

    async def _ask(self, **extra: Any) -> str:
        settings = self.calls.settings
        return await self.calls.ask(
            self.model,
            list(self.messages),  # it grows, and what was asked is logged
            temperature=settings.temperature,
            max_tokens=settings.supporter_tokens,
            **extra,
        )


async def ask_seeker(model: Model, calls: Calls, messages: list[ChatMessage]) -> str:
    """What the seeker writes, without what it thought."""
    settings = calls.settings
    raw = await calls.ask(model, messages, temperature=settings.seeker_temperature, max_tokens=settings.seeker_tokens)
    return parse(raw).response


def whole(output: ModelOutput) -> str:
    """An output as it was written: some providers take the thinking apart, and the contract wants it whole."""
    content = output.message.content
    if isinstance(content, str):
        return content
    thought = "\n".join(part.reasoning for part in content if part.type == "reasoning")
    said = "".join(part.text for part in content if part.type == "text")
    return with_thinking(thought, said)
