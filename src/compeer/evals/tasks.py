"""ESC-Eval and SAGE as Inspect tasks: `inspect eval compeer/sage --model … --model-role seeker=…`.

The entry point of the package leads here, so Inspect finds the tasks and our provider (`compeer/openai:NAME`) by
itself. `compeer eval sage` runs the same tasks with a journal on top (`launch`).

    inspect eval compeer/sage --model compeer/openai:NAME --model-role seeker=openai/gpt-4o
    inspect eval compeer/esc_eval --model … --model-role seeker=… --model-role judge=…

`--model-role judge=` may be a list; each judge is kept apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import isnan, nan
from pathlib import Path
from typing import Any

import msgspec
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Model, ModelOutput, get_model, model_roles, modelapi
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, mean, metric, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from compeer.evals.esc_eval import dialogue as esc_eval_dialogue
from compeer.evals.esc_eval.card import DIMENSIONS, SCALE, Card, alternating, case_id, load_cards
from compeer.evals.esc_eval.scores import averaged
from compeer.evals.prompts import Prompts, load_prompts
from compeer.evals.provider import CompeerAPI, role_name
from compeer.evals.result import Finished, Said
from compeer.evals.roles import Calls, Settings, Supporter
from compeer.evals.sage import dialogue as sage_dialogue
from compeer.evals.sage.machine import SAGE, Profile, load_profiles
from compeer.policy.seeker import outcome

OnFinished = Callable[[Finished], None]


@modelapi(name="compeer")  # type: ignore[untyped-decorator]
def compeer() -> type[CompeerAPI]:
    return CompeerAPI


@task  # type: ignore[untyped-decorator]
def sage(
    profiles: str | None = None,
    prompts: str | None = None,
    plain: bool = False,
    instruction: str = "full",
    concurrency: int = 32,
    seed: int = 0,
) -> Task:
    """SAGE: a seeker whose mood moves, ten turns at most. Role: seeker."""
    settings = Settings(plain=plain, instruction=instruction, concurrency=concurrency, seed=seed)  # type: ignore[arg-type]
    people = load_profiles(Path(profiles) if profiles else None)
    return sage_task(people, load_prompts("sage", Path(prompts) if prompts else None), settings)


@task  # type: ignore[untyped-decorator]
def esc_eval(
    cards: str | None = None,
    prompts: str | None = None,
    exclude_source: str | None = None,
    language: str | None = None,
    official_parser: bool = False,
    plain: bool = False,
    instruction: str = "full",
    concurrency: int = 32,
    seed: int = 0,
) -> Task:
    """ESC-Eval: five rounds, seven dimensions. Roles: seeker, judge. `cards` and `exclude_source`: comma-separated."""
    settings = Settings(plain=plain, instruction=instruction, concurrency=concurrency, seed=seed)  # type: ignore[arg-type]
    people = load_cards(
        [Path(name) for name in _listed(cards)],
        exclude=_listed(exclude_source),
        language=language,  # type: ignore[arg-type]
    )
    texts = load_prompts("esc_eval", Path(prompts) if prompts else None)
    return esc_eval_task(alternating(people), texts, settings, by_official=official_parser)


def sage_task(
    profiles: list[Profile],
    prompts: Prompts,
    settings: Settings,
    *,
    longest: int | None = None,
    on_finished: OnFinished | None = None,
) -> Task:
    """The task over these people. `on_finished` is told of each sample when nothing more can happen to it."""
    people = {one.id: one for one in profiles}
    gate = asyncio.Semaphore(settings.concurrency)

    @solver(name="sage_dialogue")  # type: ignore[untyped-decorator]
    def play() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            profile = people[str(state.sample_id)]
            calls = Calls(profile.id, settings, gate)
            supporter = Supporter(get_model(), calls, profile.language, prompts.text("supporter", profile.language))
            model = get_model(role="seeker", required=True)
            seeker = sage_dialogue.Seeker(profile, model, calls, prompts, longest)
            done = await sage_dialogue.converse(supporter, seeker)
            if on_finished:
                on_finished(done)
            return _shown(state, supporter, done)

        return solve

    @scorer(name="sage", metrics=[mean(), stderr(), success(), failure()])  # type: ignore[untyped-decorator]
    def mood() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            done = state.metadata["finished"]["transcript"]
            return Score(value=done["scores"]["emotion"], answer=done["end"], metadata={"curve": done["curve"]})

        return score

    samples = [Sample(id=one.id, input=one.first_talk) for one in profiles]
    return Task(dataset=MemoryDataset(samples), solver=play(), scorer=mood(), name="sage")


def esc_eval_task(
    cards: list[Card],
    prompts: Prompts,
    settings: Settings,
    *,
    by_official: bool = False,
    on_finished: OnFinished | None = None,
) -> Task:
    """The task over these cards."""
    people = {case_id(card): card for card in cards}
    gate = asyncio.Semaphore(settings.concurrency)
    underway: dict[str, tuple[list[Said], Calls]] = {}  # between a dialogue and its judges

    @solver(name="esc_eval_dialogue")  # type: ignore[untyped-decorator]
    def play() -> Solver:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            card = people[str(state.sample_id)]
            calls = Calls(case_id(card), settings, gate)
            supporter = Supporter(get_model(), calls, card.tongue, prompts.text("supporter", card.tongue))
            seeker = get_model(role="seeker", required=True)
            said = await esc_eval_dialogue.converse(supporter, seeker, card, calls, prompts)
            underway[case_id(card)] = said, calls
            return _shown(state, supporter)

        return solve

    @scorer(name="esc_eval", metrics={"*": [mean_given(), ratings()]})  # type: ignore[untyped-decorator]
    def rate() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            card = people[str(state.sample_id)]
            said, calls = underway.pop(case_id(card))
            judges = _judges()
            replies = await esc_eval_dialogue.rate(judges, said, card.tongue, calls, prompts)
            done = esc_eval_dialogue.finished(card, said, replies, calls, by_official=by_official)
            if on_finished:
                on_finished(done)
            row = averaged(done.transcript, [role_name(judge) for judge in judges])
            given = {DIMENSIONS[key]: nan if value is None else value * SCALE for key, value in row.items()}
            return Score(value=given, metadata={"finished": msgspec.to_builtins(done)})

        return score

    samples = [Sample(id=case_id(card), input=card.base, metadata={"source": card.source}) for card in cards]
    return Task(dataset=MemoryDataset(samples), solver=play(), scorer=rate(), name="esc_eval")


@metric  # type: ignore[untyped-decorator]
def success() -> Metric:
    """How many seekers reached the top."""

    def count(scores: list[SampleScore]) -> int:
        return sum(outcome(one.score.as_float(), SAGE.rules) == "content" for one in scores)

    return count


@metric  # type: ignore[untyped-decorator]
def failure() -> Metric:
    """How many seekers fell below the threshold."""

    def count(scores: list[SampleScore]) -> int:
        return sum(outcome(one.score.as_float(), SAGE.rules) == "lost" for one in scores)

    return count


@metric  # type: ignore[untyped-decorator]
def mean_given() -> Metric:
    """The mean of the ratings that had a number."""

    def mean_of(scores: list[SampleScore]) -> float:
        given = [value for one in scores if not isnan(value := one.score.as_float())]
        return sum(given) / len(given) if given else nan

    return mean_of


@metric  # type: ignore[untyped-decorator]
def ratings() -> Metric:
    """How many ratings had a number."""

    def count(scores: list[SampleScore]) -> int:
        return sum(not isnan(one.score.as_float()) for one in scores)

    return count


def _judges() -> list[Model]:
    found: Any = model_roles().get("judge")
    if found is None:
        return [get_model(role="judge", required=True)]  # Inspect's own message
    return list(found) if isinstance(found, list) else [found]


def _shown(state: TaskState, supporter: Supporter, done: Finished | None = None) -> TaskState:
    """What Inspect's viewer shows: the conversation as the supporter saw it."""
    state.messages = list(supporter.messages)
    state.output = ModelOutput.from_content(role_name(supporter.model), supporter.messages[-1].text)
    if done is not None:
        state.metadata["finished"] = msgspec.to_builtins(done)
    return state


def _listed(words: str | None) -> list[str]:
    return [word.strip() for word in words.split(",")] if words else []
