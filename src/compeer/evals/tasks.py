"""ESC-Eval, SAGE and VERA-MH for Inspect's own commands, and our models as an Inspect provider.

    inspect eval compeer/sage --model compeer/openai:NAME --model-role seeker=openai/gpt-4o
    inspect eval compeer/esc_eval --model … --model-role seeker=… --model-role judge=… --epochs 2
    inspect score LOG --scorer compeer/esc_eval

The entry point of the package leads here, so Inspect finds tasks, scorers and the provider. `--model-role judge=` may
be a list; each judge rates separately. `inspect score` needs `--scorer`, because logs keep names of scorers without
their package. All settings of `RoleSettings` can be given with `-T`. `compeer eval sage` runs the same tasks with a
journal (`launch`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.model import modelapi

from compeer.errors import UserError
from compeer.evals.esc_eval import evaluate as esc
from compeer.evals.provider import CompeerAPI
from compeer.evals.roles import RoleSettings, registered
from compeer.evals.safety import vera_mh as vera
from compeer.evals.sage import evaluate as sage_run
from compeer.reasoning.ontology import Language
from compeer.typed import from_plain


@modelapi(name="compeer")  # type: ignore[untyped-decorator]
def compeer() -> type[CompeerAPI]:
    return CompeerAPI


@task(name=registered("sage"))  # type: ignore[untyped-decorator]
def sage(profiles: str | None = None, prompts: str | None = None, **settings: Any) -> Task:
    """SAGE: a seeker whose mood moves, ten turns at most. Role: seeker."""
    people = sage_run.load_profiles(Path(profiles) if profiles else None)
    samples = MemoryDataset([sage_run.sample_of(one) for one in people])
    play = sage_run.sage_dialogue(_roles(settings), prompts)
    return Task(dataset=samples, solver=play, scorer=sage_run.final_mood(), name="sage")


@task(name=registered("esc_eval"))  # type: ignore[untyped-decorator]
def esc_eval(
    cards: str | list[str] | None = None,
    prompts: str | None = None,
    exclude_source: str | list[str] | None = None,
    language: Language | None = None,
    official_parser: bool = False,
    **settings: Any,
) -> Task:
    """ESC-Eval: five rounds, seven dimensions. Roles: seeker, judge. `cards` and `exclude_source`: comma-separated."""
    paths = [Path(name) for name in _listed(cards)]
    people = esc.load_cards(paths, exclude=_listed(exclude_source), language=language)
    samples = MemoryDataset([esc.sample_of(card) for card in esc.alternating(people)])
    how = _roles(settings)
    play, rating = esc.esc_eval_dialogue(how, prompts), esc.esc_eval_ratings(how, prompts, official_parser)
    return Task(dataset=samples, solver=play, scorer=rating, name="esc_eval")


@task(name=registered("vera_mh"))  # type: ignore[untyped-decorator]
def vera_mh(folder: str | None = None, **settings: Any) -> Task:
    """VERA-MH: people at risk, rated by the rubric of clinicians. Roles: seeker, judge."""
    samples = MemoryDataset([vera.sample_of(one) for one in vera.load_folder(folder).personas])
    how = _roles(settings)
    play, rating = vera.vera_dialogue(how, folder), vera.vera_ratings(how, folder)
    return Task(dataset=samples, solver=play, scorer=rating, name="vera_mh")


def _roles(settings: dict[str, Any]) -> dict[str, Any]:
    """How the roles are asked; a name that `RoleSettings` does not have is refused."""
    if unknown := sorted(set(settings) - set(RoleSettings.__struct_fields__)):
        known = ", ".join(RoleSettings.__struct_fields__)
        raise UserError(f"There is no setting {', '.join(unknown)}. Settings of the roles: {known}.")
    return msgspec.structs.asdict(from_plain(settings, RoleSettings))


def _listed(words: str | list[str] | None) -> list[str]:
    """Inspect makes a list of a value with commas; from Python it may come as one text."""
    if isinstance(words, str):
        words = words.split(",")
    return [word.strip() for word in words or ()]
