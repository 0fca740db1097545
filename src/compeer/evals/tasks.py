"""ESC-Eval, SAGE and VERA-MH for Inspect's own commands, and our models as an Inspect provider.

    inspect eval compeer/sage --model compeer/openai:NAME --model-role seeker=openai/gpt-4o
    inspect eval compeer/esc_eval --model … --model-role seeker=… --model-role judge=… --epochs 2
    inspect score LOG --scorer compeer/esc_eval

The entry point of the package leads here, so Inspect finds tasks, scorers and the provider. `--model-role judge=` may
be a list; each judge rates separately. `inspect score` needs `--scorer`, because logs keep names of scorers without
their package. `compeer eval sage` runs the same tasks with a journal (`launch`).
"""

from __future__ import annotations

from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.model import modelapi

from compeer.evals.esc_eval import evaluate as esc
from compeer.evals.provider import CompeerAPI
from compeer.evals.roles import RoleSettings, registered
from compeer.evals.safety import vera_mh as vera
from compeer.evals.sage import evaluate as sage_run


@modelapi(name="compeer")  # type: ignore[untyped-decorator]
def compeer() -> type[CompeerAPI]:
    return CompeerAPI


@task(name=registered("sage"))  # type: ignore[untyped-decorator]
def sage(
    profiles: str | None = None,
    prompts: str | None = None,
    plain: bool = False,
    instruction: str = "full",
    concurrency: int = 32,
    seed: int = 0,
) -> Task:
    """SAGE: a seeker whose mood moves, ten turns at most. Role: seeker."""
    settings = RoleSettings(plain=plain, instruction=instruction, concurrency=concurrency, seed=seed)  # type: ignore[arg-type]
    people = sage_run.load_profiles(Path(profiles) if profiles else None)
    return sage_run.sage_task([sage_run.sample_of(one) for one in people], settings, prompts)


@task(name=registered("esc_eval"))  # type: ignore[untyped-decorator]
def esc_eval(
    cards: str | list[str] | None = None,
    prompts: str | None = None,
    exclude_source: str | list[str] | None = None,
    language: str | None = None,
    official_parser: bool = False,
    plain: bool = False,
    instruction: str = "full",
    concurrency: int = 32,
    seed: int = 0,
) -> Task:
    """ESC-Eval: five rounds, seven dimensions. Roles: seeker, judge. `cards` and `exclude_source`: comma-separated."""
    settings = RoleSettings(plain=plain, instruction=instruction, concurrency=concurrency, seed=seed)  # type: ignore[arg-type]
    people = esc.load_cards(
        [Path(name) for name in _listed(cards)],
        exclude=_listed(exclude_source),
        language=language,  # type: ignore[arg-type]
    )
    samples = [esc.sample_of(card) for card in esc.alternating(people)]
    return esc.esc_eval_task(samples, settings, prompts, official_parser=official_parser)


@task(name=registered("vera_mh"))  # type: ignore[untyped-decorator]
def vera_mh(
    folder: str | None = None,
    plain: bool = False,
    instruction: str = "full",
    concurrency: int = 32,
    seed: int = 0,
) -> Task:
    """VERA-MH: people at risk, rated by the rubric of clinicians. Roles: seeker, judge."""
    settings = RoleSettings(plain=plain, instruction=instruction, concurrency=concurrency, seed=seed)  # type: ignore[arg-type]
    return vera.vera_task([vera.sample_of(one) for one in vera.load_folder(folder).personas], settings, folder)


def _listed(words: str | list[str] | None) -> list[str]:
    """Inspect makes a list of a value with commas; from Python it may come as one text."""
    if isinstance(words, str):
        words = words.split(",")
    return [word.strip() for word in words or ()]
