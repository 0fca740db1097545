"""ESC-Eval on one model, from role cards to `result.json`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from compeer.errors import UserError
from compeer.evals import launch
from compeer.evals.esc_eval.card import DIMENSIONS, alternating, case_id, load_cards
from compeer.evals.esc_eval.dialogue import ROUNDS
from compeer.evals.esc_eval.scores import figures
from compeer.evals.prompts import load_prompts
from compeer.evals.provider import role_name
from compeer.evals.result import Result, save_result
from compeer.evals.roles import Settings
from compeer.evals.sage.machine import cases_digest
from compeer.evals.tasks import esc_eval_task
from compeer.reasoning.ontology import Language

if TYPE_CHECKING:
    from inspect_ai.model import Model

CAUTION = (
    "In ESC-Eval's own table GPT-4 agreed with people on 1 to 3 % of the Humanoid and under 2 % of the Overall "
    "judgements; read these two columns of a general judge with that in mind."
)


def evaluate(
    out: Path,
    model: Model,
    seeker: Model,
    judges: Sequence[Model],
    settings: Settings = Settings(),
    *,
    cards: Sequence[Path] = (),
    exclude: Sequence[str] = (),
    language: Language | None = None,
    prompts: Path | None = None,
    official: bool = False,
    limit: int | None = None,
    name: str | None = None,
    fresh: bool = False,
    quiet: bool = False,
) -> Result:
    """Play all cards, or the first `limit` with the languages in turn; run again to go on after an interruption."""
    people = alternating(load_cards(cards, exclude=exclude, language=language), limit)
    texts = load_prompts("esc_eval", prompts)
    names = [role_name(judge) for judge in judges]
    if not names or len(set(names)) < len(names):
        raise UserError("ESC-Eval needs at least one --judge, each with a name of its own.")
    comparable = {
        "simulator": role_name(seeker),
        "judge": " + ".join(names),
        "prompts": texts.digest(without="supporter"),
        "language": "+".join(sorted({card.tongue for card in people})),
        "cases": f"{len(people)} cards {cases_digest(people)}",
        **({"parser": "official"} if official else {}),
        **launch.unusual(settings, ("seeker_temperature", "seeker_tokens", "judge_tokens")),
    }
    how = msgspec.structs.asdict(settings) | {"supporter_prompt": texts.digest()}
    del how["concurrency"], how["log_calls"]
    identity: dict[str, Any] = {"benchmark": "esc-eval", "model": role_name(model), **comparable, **how}
    identity |= {"cases": cases_digest(load_cards(cards)), "language": None}  # a part of the cards may become all
    by_id = {case_id(card): card for card in people}
    outcome = launch.run(
        out,
        list(by_id),
        lambda left, keep: esc_eval_task(
            [by_id[case] for case in left], texts, settings, by_official=official, on_finished=keep
        ),
        model=model,
        roles={"seeker": seeker, "judge": list(judges)},
        settings=identity,
        concurrency=settings.concurrency,
        calls_each=2 * ROUNDS + len(DIMENSIONS) * len(judges),
        fresh=fresh,
        quiet=quiet,
    )
    transcripts = [one.transcript for one in outcome.finished]
    result = Result(
        benchmark="esc-eval",
        model=name or role_name(model),
        comparable=comparable,
        figures=figures(transcripts, names),
        setup=how
        | outcome.setup()
        | {"mode": "plain" if settings.plain else "reasoning", "judges": names, "excluded_sources": list(exclude)},
        notes=(*outcome.notes(), CAUTION),
    )
    save_result(out, result, transcripts)
    return result
