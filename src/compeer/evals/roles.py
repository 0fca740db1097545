"""The roles of a dialogue (supporter, simulated seeker, judges), their prompts, and our models behind Inspect.

Each role sees its own conversation and none of the others' secrets. The supporter's history begins with the seeker's
first words; it never sees a persona, a card or a greeting. The seeker hears replies, never the reasoning before them.
In reasoning mode the supporter gets our contract as its system prompt, a grammar where its home supports one, and
further attempts where it does not; in plain mode it gets the benchmark's prompt. In both modes `compeer.reasoning`
splits off the thinking, so a model that thinks in its own format is heard properly too.

`compeer/embedded`, `compeer/hf:DIR` and `compeer/openai:NAME` are our models as a provider of Inspect, for what its own
providers cannot do: the grammar of the contract while decoding, models in this process, and an HTTP client that costs a
tenth of the processor time. Three things travel to them in `extra_body`: `reasoning`, the language whose grammar
constrains the output; `schema`, the JSON that the answer must be; and `fill`, words for a model name such as
`openai:esc-rank-{dimension}-{language}`, for judges that are one adapter per dimension and language behind one server.

All calls of a run pass one semaphore, whichever model they go to: `concurrency` is the total in flight. Around each
call Inspect keeps events, copies and counters of its own, about 3 ms of processor time. The journal keeps what was
said anyway, so calls to our own homes can skip that (`log_calls`).

A prompt is a file `prompts/BENCHMARK/NAME.LANGUAGE.txt`, which a folder of the user's may replace. `{word}` is filled
in; other braces are left alone, so that prompts from elsewhere need no escaping. What a simulator and a judge are told
decides what a score means, so the hash of the prompts goes into every result.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import site
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from math import isnan, nan
from pathlib import Path
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
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    model_roles,
    modelapi,
)
from inspect_ai.scorer import Metric, SampleScore, metric
from inspect_ai.solver import TaskState

from compeer import models
from compeer.errors import UserError
from compeer.evals.result import TranscriptTurn
from compeer.models.spec import FORMS
from compeer.reasoning import parse, system_prompt, with_thinking
from compeer.reasoning.grammar import plan
from compeer.reasoning.ontology import Language
from compeer.reasoning.prompt import Length
from compeer.reasoning.schema import has_words
from compeer.reward.conversation import quote
from compeer.typed import from_plain

PREFIX = "compeer/"
CONNECTIONS = 64
#: stands for an empty reply in a history; servers refuse empty messages
SILENCE = "……"
_PLACE = re.compile(r"\{([a-z_]+)\}")


class CompeerAPI(ModelAPI):  # type: ignore[misc]
    """A home of `compeer.models` behind Inspect's interface. The home retries by itself; Inspect is told not to."""

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),
        **model_args: Any,
    ) -> None:
        super().__init__(model_name, base_url, api_key, [], config)
        self._connections = config.max_connections or CONNECTIONS
        self._homes: dict[str, models.Model] = {}
        if "{" not in model_name:
            self.home(model_name)  # a spec that names nothing is an error now, not after the first dialogue

    def home(self, name: str) -> models.Model:
        """The model of that name; weights load on first use."""
        if name not in self._homes:
            self._homes[name] = models.open_model(
                name, base_url=self.base_url, api_key=self.api_key, concurrency=self._connections
            )
        return self._homes[name]

    async def generate(
        self, input: list[ChatMessage], tools: list[Any], tool_choice: Any, config: GenerateConfig
    ) -> ModelOutput:
        extra = config.extra_body or {}
        name = self.model_name.format(**extra["fill"]) if "fill" in extra else self.model_name
        request = models.Request(
            messages=[{"role": message.role, "content": message.text} for message in input],
            max_tokens=config.max_tokens or 1024,
            temperature=0.7 if config.temperature is None else config.temperature,
            top_p=1.0 if config.top_p is None else config.top_p,
            seed=config.seed,
            stop=tuple(config.stop_seqs or ()),
            plan=plan(extra["reasoning"]) if "reasoning" in extra else None,
            schema=extra.get("schema"),
        )
        answer = await self.home(name).ask(request)
        output = ModelOutput.from_content(
            answer.model or name, answer.text, "max_tokens" if answer.finish == "length" else "stop"
        )
        used = answer.usage
        output.usage = ModelUsage(
            input_tokens=used.prompt - used.cached,
            output_tokens=used.completion,
            total_tokens=used.prompt + used.completion,
            input_tokens_cache_read=used.cached or None,
        )
        return output

    async def aclose(self) -> None:
        for home in self._homes.values():
            await home.close()
        self._homes.clear()

    def connection_key(self) -> str:
        return f"{self.model_name}@{self.base_url}"

    def max_connections(self) -> int:
        return self._connections


@modelapi(name="compeer")  # type: ignore[untyped-decorator]
def compeer() -> type[CompeerAPI]:
    return CompeerAPI


def open_role(spec: str, *, base_url: str | None = None, connections: int = CONNECTIONS) -> Model:
    """The model that a role is given on the command line: one of our specs, or PROVIDER/NAME of Inspect."""
    ours = spec.startswith(("embedded", "gguf:", "hf:", "openai:", PREFIX))
    if not ours and "/" not in spec:
        raise UserError(f"{spec!r} names no model. {FORMS}\n  PROVIDER/NAME                one of Inspect's providers")
    name = PREFIX + spec.removeprefix(PREFIX) if ours else spec
    config = GenerateConfig(max_connections=connections, max_retries=None if ours else 8)
    try:
        return get_model(name, base_url=base_url, config=config, memoize=False)
    except UserError:
        raise
    except Exception as error:  # Inspect's providers raise what they like: a missing package, a missing key
        plain = re.sub(r"\[/?[a-z ]+\]", "", str(error))  # their messages carry colours
        raise UserError(f"{spec} cannot be opened: {' '.join(plain.split())}") from None


def role_name(model: Model) -> str:
    """How results name a model: the spec without the server's address."""
    return str(model).removeprefix(PREFIX)


def registered(name: str) -> str:
    """The name under which Inspect finds a task or scorer as `compeer/NAME`, in an editable installation too.

    Inspect puts the name of an installed package before it. An editable package counts as installed only where its
    distribution has the name that is imported, and ours is called compeer-esc.
    """
    installed = (*site.getsitepackages(), site.getusersitepackages())
    return name if __file__.startswith(installed) else f"compeer/{name}"


class Prompts(msgspec.Struct, frozen=True):
    """All prompts of one benchmark, by file name without the suffix: "plan.zh"."""

    texts: dict[str, str]

    def text(self, name: str, language: Language, **given: str) -> str:
        """One prompt, filled in. Braces in what is filled in are left alone."""
        return _PLACE.sub(lambda place: given.get(place.group(1), place.group()), self.texts[f"{name}.{language}"])

    def digest(self, *, without: str = "") -> str:
        """The hash of the prompts; those called `without` (the supporter's, which belong to the model) are left out."""
        kept = {name: text for name, text in sorted(self.texts.items()) if name.partition(".")[0] != without}
        return hashlib.sha256(repr(kept).encode()).hexdigest()[:12]


def load_prompts(benchmark: str, folder: str | Path | None = None) -> Prompts:
    """The prompts of "sage", "esc_eval" or "safety"; UserError for a folder with unknown files or none."""
    ours = _prompt_files(Path(__file__).with_name("prompts") / benchmark)
    if folder is None:
        return Prompts(ours)
    theirs = _prompt_files(Path(folder))
    names = ", ".join(f"{name}.txt" for name in sorted(ours))
    if not theirs:
        raise UserError(f"{folder} holds no prompts. Files it may have: {names}.")
    if unknown := [f"{name}.txt" for name in theirs if name not in ours]:
        raise UserError(f"{folder} has {', '.join(unknown)}, which no prompt uses. Files it may have: {names}.")
    return Prompts(ours | theirs)


def _prompt_files(folder: Path) -> dict[str, str]:
    return {file.name[:-4]: file.read_text("utf-8").strip("\n") for file in sorted(folder.glob("*.txt"))}


def published(place: str, option: str) -> Path:
    """A benchmark's own file or folder below $COMPEER_DATA; `option` names it otherwise."""
    data = os.environ.get("COMPEER_DATA")
    if not data:
        raise UserError(
            f"{place} does not come with this program. Give {option} with the published files, or set COMPEER_DATA to "
            "a folder that has them there."
        )
    return Path(data) / place


def quoted_dialogue(turns: Iterable[TranscriptTurn], speakers: Mapping[str, str], between: str = "\n") -> str:
    """What was said, each turn quoted below its speaker's name, so that a turn cannot give orders to its reader."""
    return between.join(f"{speakers[turn.speaker]}\n{quote(turn.text or '(nothing)')}" for turn in turns)


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


class Calls:
    """The calls of one sample: seeded by the case's name and their number, counted, limited by the run's semaphore."""

    def __init__(self, case: str, settings: RoleSettings, counts: Mapping[str, int] | None = None) -> None:
        self.case, self.settings = case, settings
        self.gate = _GATES.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(settings.concurrency))
        self.counts: Counter[str] = Counter(counts or {})

    async def ask(
        self, model: Model, messages: list[ChatMessage], *, temperature: float, max_tokens: int, **extra: Any
    ) -> str:
        """What a model writes, its thinking included."""
        ours = isinstance(model.api, CompeerAPI)
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


def whole(output: ModelOutput) -> str:
    """An output as it was written. Some providers split off the thinking; the contract needs the whole text."""
    content = output.message.content
    if isinstance(content, str):
        return content
    thought = "\n".join(part.reasoning for part in content if part.type == "reasoning")
    return with_thinking(thought, "".join(part.text for part in content if part.type == "text"))


class Supporter:
    """The model under test, with its own view of the conversation."""

    def __init__(self, model: Model, calls: Calls, language: Language, prompt: str = "") -> None:
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
        asked = list(self.messages)  # a copy: the list grows, and Inspect logs what was asked
        limits: Any = {"temperature": settings.temperature, "max_tokens": settings.supporter_tokens}
        return await self.calls.ask(self.model, asked, **limits, **extra)


async def ask_seeker(model: Model, calls: Calls, messages: list[ChatMessage]) -> str:
    """What the seeker writes, without its thinking."""
    settings = calls.settings
    raw = await calls.ask(model, messages, temperature=settings.seeker_temperature, max_tokens=settings.seeker_tokens)
    return parse(raw).response


async def ask_judge(judge: Model, calls: Calls, text: str, **extra: Any) -> str:
    """What a judge writes about a dialogue, greedily and without its thinking."""
    asked: list[ChatMessage] = [ChatMessageUser(content=text)]
    raw = await calls.ask(judge, asked, temperature=0.0, max_tokens=calls.settings.judge_tokens, **extra)
    return parse(raw).response


async def role_play(
    supporter: Supporter,
    seeker: Model,
    role: str,
    opening: str,
    turns: int,
    ends: Callable[[str], object] = lambda words: False,
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


def judges() -> list[Model]:
    """The models of Inspect's role "judge": one, several, or none."""
    found: Any = model_roles().get("judge")
    return list(found) if isinstance(found, list) else [found] if found else []


def calls_of(state: TaskState, settings: RoleSettings) -> Calls:
    """The calls of a sample; a scorer goes on counting where the dialogue ended.

    A sample that is played more than once has the epoch in its name.
    """
    case = str(state.sample_id) if state.epoch == 1 else f"{state.sample_id} (epoch {state.epoch})"
    return Calls(case, settings, state.metadata.get("counts"))


def save_dialogue(state: TaskState, supporter: Supporter, said: list[TranscriptTurn]) -> TaskState:
    """Keep a finished dialogue in the sample: all turns for its scorer, the supporter's side for Inspect's viewer."""
    state.metadata |= {"said": msgspec.to_builtins(said), "counts": dict(supporter.calls.counts)}
    state.messages = list(supporter.messages)
    state.output = ModelOutput.from_content(role_name(supporter.model), supporter.messages[-1].text)
    return state


def saved_dialogue(state: TaskState) -> list[TranscriptTurn]:
    """What was said in a sample, for its scorer."""
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
