"""SAGE on one model, from profiles to `result.json`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from compeer.evals import launch
from compeer.evals.prompts import load_prompts
from compeer.evals.provider import role_name
from compeer.evals.result import Result, save_result
from compeer.evals.roles import Settings
from compeer.evals.sage.machine import SAGE, cases_digest, load_profiles
from compeer.evals.sage.scores import figures
from compeer.evals.tasks import sage_task

if TYPE_CHECKING:
    from inspect_ai.model import Model

#: one answer to the opening, then plan, reply and answer for each further turn
CALLS = 1 + 3 * (SAGE.turns - 1)


def evaluate(
    out: Path,
    model: Model,
    seeker: Model,
    settings: Settings = Settings(),
    *,
    profiles: Path | None = None,
    prompts: Path | None = None,
    limit: int | None = None,
    longest: int | None = None,
    name: str | None = None,
    fresh: bool = False,
    quiet: bool = False,
) -> Result:
    """Play all profiles, or the first `limit`; run again to go on after an interruption."""
    everyone = load_profiles(profiles)
    people = everyone[:limit]
    texts = load_prompts("sage", prompts)
    comparable = {
        "simulator": role_name(seeker),
        "prompts": texts.digest(without="supporter"),
        "language": "+".join(sorted({one.language for one in people})),
        "cases": f"{len(people)} profiles {cases_digest(people)}",
        **launch.unusual(settings, ("seeker_temperature", "seeker_tokens")),
        **({"shortened": f"persona and scene to {longest} characters"} if longest else {}),
    }
    how = msgspec.structs.asdict(settings) | {"supporter_prompt": texts.digest()}
    del how["concurrency"], how["log_calls"]
    identity: dict[str, Any] = {"benchmark": "sage", "model": role_name(model), **comparable, **how}
    identity |= {"cases": cases_digest(everyone), "language": None}  # a run with --limit may go on without it
    by_id = {one.id: one for one in people}
    outcome = launch.run(
        out,
        list(by_id),
        lambda left, keep: sage_task(
            [by_id[case] for case in left], texts, settings, longest=longest, on_finished=keep
        ),
        model=model,
        roles={"seeker": seeker},
        settings=identity,
        concurrency=settings.concurrency,
        calls_each=CALLS,
        fresh=fresh,
        quiet=quiet,
    )
    transcripts = [one.transcript for one in outcome.finished]
    final = [one.curve[-1] for one in transcripts]
    result = Result(
        benchmark="sage",
        model=name or role_name(model),
        comparable=comparable,
        figures=figures(final, [len(one.curve) for one in transcripts]),
        setup=how | outcome.setup() | {"mode": "plain" if settings.plain else "reasoning"},
        notes=tuple(outcome.notes()),
    )
    save_result(out, result, transcripts)
    return result
