"""ESC-Eval, SAGE and VERA-MH for Inspect's own commands.

    inspect eval compeer/sage --model compeer/openai:NAME --model-role seeker=openai/gpt-4o
    inspect eval compeer/esc_eval --model … --model-role seeker=… --model-role judge=… --epochs 2
    inspect score LOG --scorer compeer/esc_eval

The entry point of the package leads here, so Inspect finds tasks, scorers and our models. `--model-role judge=` may
be a list; each judge rates separately. `inspect score` needs `--scorer`, because logs keep names of scorers without
their package. All settings of `RoleSettings` can be given with `-T`. `compeer eval sage` runs the same tasks with a
journal (`launch`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inspect_ai import Task, task

from compeer.errors import UserError
from compeer.evals import esc_eval as esc
from compeer.evals import sage as sage_run
from compeer.evals.roles import RoleSettings, registered
from compeer.evals.safety import vera_mh as vera
from compeer.reasoning.ontology import Language
from compeer.typed import from_plain


@task(name=registered("sage"))  # type: ignore[untyped-decorator]
def sage(profiles: str | None = None, prompts: str | None = None, **settings: Any) -> Task:
    """SAGE: a seeker whose mood moves, ten turns at most. Role: seeker."""
    return sage_run.benchmark(_roles(settings), profiles=Path(profiles) if profiles else None, prompts=prompts).task()


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
    return esc.benchmark(
        _roles(settings),
        cards=[Path(name) for name in _listed(cards)],
        exclude=_listed(exclude_source),
        language=language,
        prompts=prompts,
        official=official_parser,
    ).task()


@task(name=registered("vera_mh"))  # type: ignore[untyped-decorator]
def vera_mh(folder: str | None = None, **settings: Any) -> Task:
    """VERA-MH: people at risk, rated by the rubric of clinicians. Roles: seeker, judge."""
    return vera.benchmark(_roles(settings), folder=folder).task()


def _roles(settings: dict[str, Any]) -> RoleSettings:
    """How the roles are asked; a name that `RoleSettings` does not have is refused."""
    if unknown := sorted(set(settings) - set(RoleSettings.__struct_fields__)):
        known = ", ".join(RoleSettings.__struct_fields__)
        raise UserError(f"There is no setting {', '.join(unknown)}. Settings of the roles: {known}.")
    return from_plain(settings, RoleSettings)


def _listed(words: str | list[str] | None) -> list[str]:
    """Inspect makes a list of a value with commas; from Python it may come as one text."""
    if isinstance(words, str):
        words = words.split(",")
    return [word.strip() for word in words or ()]
