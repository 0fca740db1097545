"""The roles of a dialogue: the supporter under test, the simulated seeker, the judges.

Each role sees its own conversation and none of the others' secrets. The supporter's history begins with the seeker's
first words; it never sees a persona, a card or a greeting. The seeker hears replies, never the reasoning before them.
In reasoning mode the supporter gets our contract as its system prompt, a grammar where its home supports one, and
further attempts where it does not; in plain mode it gets the benchmark's prompt. In both modes `compeer.reasoning`
splits off the thinking, so a model that thinks in its own format is heard properly too.

All calls of a run pass one semaphore, whichever model they go to: `concurrency` is the total in flight. Around each
call Inspect keeps events, copies and counters of its own, about 3 ms of processor time. The journal keeps what was
said anyway, so calls to our own homes can skip that (`log_calls`).
"""

from __future__ import annotations

import asyncio
import hashlib
import site
from collections import Counter
from collections.abc import Callable, Mapping
from math import isnan, nan
from typing import Any
from weakref import WeakKeyDictionary

import msgspec
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    Model,
    ModelOutput,
    model_roles,
)
from inspect_ai.scorer import Metric, SampleScore, metric
from inspect_ai.solver import TaskState

from compeer.evals.provider import is_ours, role_name
from compeer.evals.result import TranscriptTurn
from compeer.reasoning import parse, system_prompt, with_thinking
from compeer.reasoning.ontology import Language
from compeer.reasoning.prompt import Length
from compeer.reasoning.schema import has_words
from compeer.typed import from_plain

#: stands for an empty reply in a history; servers refuse empty messages
SILENCE = "……"


def registered(name: str) -> str:
    """The name under which Inspect finds a task or scorer as `compeer/NAME`, in an editable installation too.

    Inspect puts the name of an installed package before it. An editable package counts as installed only where its
    distribution has the name that is imported, and ours is called compeer-esc.
    """
    installed = (*site.getsitepackages(), site.getusersitepackages())
    return name if __file__.startswith(installed) else f"compeer/{name}"


class RoleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the roles are asked. `max_tokens` None means 2,000 with reasoning, 600 plain."""

    plain: bool = False
    instruction: Length = "full"  # the contract's prompt: "brief" for models trained on it
    grammar: bool = True
    attempts: int = 3  # for an output outside the contract, or a plan without a change
    temperature: float = 0.7
    max_tokens: int | None = None
    seeker_temperature: float = 0.7
    seeker_tokens: int = 500
    judge_tokens: int = 256
    seed: int = 0
    concurrency: int = 32
    log_calls: bool = True  # in Inspect's log; without it a call to our homes takes a third of the processor time

    @property
    def supporter_tokens(self) -> int:
        return self.max_tokens or (600 if self.plain else 2000)


#: one semaphore per event loop, that is per run: solver and scorer of a task share it
_GATES: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _gate(concurrency: int) -> asyncio.Semaphore:
    return _GATES.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(concurrency))


class Calls:
    """The calls of one sample: seeded by the case's name and their number, counted, limited by the run's semaphore."""

    def __init__(self, case: str, settings: RoleSettings, counts: Mapping[str, int] | None = None) -> None:
        self.case, self.settings, self.gate = case, settings, _gate(settings.concurrency)
        self.counts: Counter[str] = Counter(counts or {})

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

    async def answer(self, heard: str) -> TranscriptTurn:
        """The reply to what the seeker said, with what was thought before it."""
        self.messages.append(ChatMessageUser(content=heard))
        raw = await self._ask() if self.calls.settings.plain else await self._reasoned()
        reply = parse(raw).response
        if not has_words(reply):
            self.calls.counts["silent"] += 1
            reply = SILENCE
        self.messages.append(ChatMessageAssistant(content=reply))
        return TranscriptTurn("supporter", reply, reasoning=raw.strip().removesuffix(reply).strip() or None)

    async def _reasoned(self) -> str:
        """The first complete output, else the one with the fewest problems."""
        settings = self.calls.settings
        fill = {"reasoning": self.language} if settings.grammar else {}
        tried = []
        for _ in range(settings.attempts):
            raw = await self._ask(**fill)
            parsed = parse(raw)
            tried.append((len(parsed.problems), raw))
            if parsed.complete:
                break
            self.calls.counts["asked_again"] += len(tried) < settings.attempts
        problems, raw = min(tried, key=lambda one: one[0])
        self.calls.counts["replies"] += 1
        self.calls.counts["incomplete"] += problems > 0
        return raw

    async def _ask(self, **extra: Any) -> str:
        settings = self.calls.settings
        return await self.calls.ask(
            self.model,
            list(self.messages),  # a copy: the list grows, and Inspect logs what was asked
            temperature=settings.temperature,
            max_tokens=settings.supporter_tokens,
            **extra,
        )


async def ask_seeker(model: Model, calls: Calls, messages: list[ChatMessage]) -> str:
    """What the seeker writes, without its thinking."""
    settings = calls.settings
    raw = await calls.ask(model, messages, temperature=settings.seeker_temperature, max_tokens=settings.seeker_tokens)
    return parse(raw).response


def whole(output: ModelOutput) -> str:
    """An output as it was written. Some providers split off the thinking; the contract needs the whole text."""
    content = output.message.content
    if isinstance(content, str):
        return content
    thought = "\n".join(part.reasoning for part in content if part.type == "reasoning")
    said = "".join(part.text for part in content if part.type == "text")
    return with_thinking(thought, said)


async def role_play(
    supporter: Supporter,
    seeker: Model,
    role: str,
    opening: str,
    turns: int,
    ends: Callable[[str], bool] = lambda words: False,
) -> list[TranscriptTurn]:
    """A dialogue with a seeker that plays a role, after an opening that it alone hears.

    For the seeker the supporter is the user. Words of the seeker that end the dialogue are not answered.
    """
    heard: list[ChatMessage] = [ChatMessageSystem(content=role), ChatMessageUser(content=opening)]
    said: list[TranscriptTurn] = []
    for _ in range(turns):
        words = await ask_seeker(seeker, supporter.calls, list(heard))
        words = words if has_words(words) else SILENCE
        said.append(TranscriptTurn("seeker", words))
        if len(said) > 1 and ends(words):
            break
        reply = await supporter.answer(words)
        said.append(reply)
        heard += [ChatMessageAssistant(content=words), ChatMessageUser(content=reply.text)]
    return said


async def ask_judge(judge: Model, calls: Calls, text: str, **extra: Any) -> str:
    """What a judge writes about a dialogue, greedily and without its thinking."""
    asked: list[ChatMessage] = [ChatMessageUser(content=text)]
    raw = await calls.ask(judge, asked, temperature=0.0, max_tokens=calls.settings.judge_tokens, **extra)
    return parse(raw).response


def judges() -> list[Model]:
    """The models of Inspect's role "judge": one, several, or none."""
    found: Any = model_roles().get("judge")
    return list(found) if isinstance(found, list) else [found] if found else []


def begun(state: TaskState, settings: RoleSettings) -> Calls:
    """The calls of a sample; for a scorer, after those that were made while the dialogue was held.

    A sample that is played more than once has the epoch in its name.
    """
    case = str(state.sample_id) if state.epoch == 1 else f"{state.sample_id} (epoch {state.epoch})"
    return Calls(case, settings, state.metadata.get("counts"))


def played(state: TaskState, supporter: Supporter, said: list[TranscriptTurn]) -> TaskState:
    """The state after a dialogue: what was said for the scorer, the supporter's side for Inspect's viewer."""
    state.metadata |= {"said": msgspec.to_builtins(said), "counts": dict(supporter.calls.counts)}
    state.messages = list(supporter.messages)
    state.output = ModelOutput.from_content(role_name(supporter.model), supporter.messages[-1].text)
    return state


def said_in(state: TaskState) -> list[TranscriptTurn]:
    """What was said, as `played` left it."""
    return from_plain(state.metadata["said"], list[TranscriptTurn])


@metric  # type: ignore[untyped-decorator]
def mean_given() -> Metric:
    """The mean of the ratings that there are."""

    def mean_of(scores: list[SampleScore]) -> float:
        given = [value for one in scores if not isnan(value := one.score.as_float())]
        return sum(given) / len(given) if given else nan

    return mean_of


def counting(name: str, holds: Callable[[float], bool]) -> Metric:
    """A metric: how many scores this holds for."""

    @metric(name=name)  # type: ignore[untyped-decorator]
    def counted() -> Metric:
        def count(scores: list[SampleScore]) -> int:  # Inspect reads the type
            return sum(holds(one.score.as_float()) for one in scores)

        return count

    return counted()
