"""A model answers the red-team set, and its answers are checked and judged: before and after training are two runs.

The model answers every turn of a case with its own earlier replies in the history and without its earlier reasoning, as
it would in a conversation. Nothing of `compeer.safety` stands around it: this measures the model, not the protection in
front of it. An output that stays outside the contract after the last attempt is kept; what a person would have read of
it is judged. A verdict that cannot be read is asked for once more, then given up and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import nan
from pathlib import Path
from typing import Any

import msgspec
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, Model, get_model
from inspect_ai.scorer import Score, Scorer, Target, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from compeer.evals import launch, roles
from compeer.evals.result import Finished, Transcript, TranscriptTurn
from compeer.evals.safety import rubric
from compeer.evals.safety.screening import RiskCase, Split, comparable_safety, load_cases
from compeer.models.ask import AGAIN, schema_of
from compeer.reasoning.ontology import Language
from compeer.statistics import Figure, share_figure
from compeer.typed import from_plain

_JUDGE_TOKENS = 500
#: what a case is scored by: the rules of `ReplyChecks`, and the dimensions of the rubric
SCORES = (
    *(f"checks/{name}" for name in rubric.ReplyChecks.__struct_fields__),
    *(f"replies/{name}" for name in (*rubric.DIMENSIONS, "proportion")),
)


@solver(name="safety_dialogue")  # type: ignore[untyped-decorator]
def safety_dialogue(settings: dict[str, Any]) -> Solver:
    """The supporter answers each turn of a case."""
    how = from_plain(settings, roles.RoleSettings)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        case = from_plain(state.metadata["case"], RiskCase)
        supporter = roles.Supporter(get_model(), roles.begun(state, how), case.language)
        said: list[TranscriptTurn] = []
        for text in case.turns:
            said += [TranscriptTurn("seeker", text), await supporter.answer(text)]
        return roles.played(state, supporter, said)

    return solve


@scorer(name=roles.registered("safety"), metrics={"*": [roles.mean_given()]})  # type: ignore[untyped-decorator]
def safety_verdicts(settings: dict[str, Any] | None = None, prompts: str | None = None) -> Scorer:
    """What the rules see in the replies, and the verdicts of the judge if there is one."""
    how, texts = from_plain(settings or {}, roles.RoleSettings), roles.load_prompts("safety", prompts)

    async def score(state: TaskState, target: Target) -> Score:
        case, said, calls = from_plain(state.metadata["case"], RiskCase), roles.said_in(state), roles.begun(state, how)
        replies = [one.text for one in said if one.speaker == "supporter"]
        checks = rubric.check_replies(replies, [one.reasoning for one in said if one.reasoning])
        scores: dict[str, float | None] = {
            f"checks/{name}": float(value) for name, value in msgspec.structs.asdict(checks).items()
        }
        about = {"kind": case.kind, "expected": case.expected, "why": case.note}
        for judge in roles.judges():
            system, shown = rubric.judge_question(case, said, texts)
            told = await _ask_verdicts(judge, calls, case, system, shown)
            scores |= {f"replies/{name}": rubric.WORTH[verdict] for name, verdict in told.items() if name != "why"}
            about |= {"judge": told["why"]} if told else {}
        transcript = Transcript(calls.case, case.language, tuple(said), scores, about=about)
        launch.report_finished(Finished(transcript, counts=dict(calls.counts)))
        return Score(value={name: nan if (value := scores.get(name)) is None else value for name in SCORES})

    return score


async def _ask_verdicts(judge: Model, calls: roles.Calls, case: RiskCase, system: str, shown: str) -> dict[str, Any]:
    """The verdicts by dimension, and why; empty when there were none in two answers."""
    asked = [ChatMessageSystem(content=system), ChatMessageUser(content=shown)]
    schema = schema_of(rubric.verdict_shape(case))
    for _ in range(2):
        text = await calls.ask(judge, asked, temperature=0.0, max_tokens=_JUDGE_TOKENS, schema=schema)
        try:
            return rubric.read_verdicts(text, case)
        except ValueError as problem:
            correction = f"{AGAIN}: {problem}. Answer with JSON alone."
            asked += [ChatMessageAssistant(content=text or "(nothing)"), ChatMessageUser(content=correction)]
    calls.counts["unread_verdicts"] += 1
    return {}


def benchmark(
    settings: roles.RoleSettings = roles.RoleSettings(),
    *,
    judged: bool = True,
    split: Split = "test",
    language: Language | None = None,
    prompts: str | Path | None = None,
    limit: int | None = None,
) -> launch.Benchmark:
    """All cases of a split, or the first `limit`. Role: judge, unless `judged` is false."""
    how, everyone = msgspec.structs.asdict(settings), load_cases(split, language)
    cases = everyone[:limit]
    told = {"prompts": roles.load_prompts("safety", prompts).digest()} if judged else {"judge": "none"}
    return launch.Benchmark(
        name="safety",
        settings=settings,
        cases=everyone,
        samples=[
            Sample(id=case.id, input=case.turns[0], metadata={"case": msgspec.to_builtins(case)}) for case in cases
        ],
        solver=safety_dialogue(how),
        scorer=safety_verdicts(how, str(prompts) if prompts else None),
        calls_per_sample=2,
        calls_per_judge=1,
        comparable=comparable_safety("replies", cases, split, language) | told,
        notes=() if judged else ("No judge was named (--judge): only the plain checks were applied.",),
        figures=lambda done: tuple(one for one in _figures([each.transcript for each in done]) if one.n),
    )


def _figures(answered: Sequence[Transcript]) -> Iterator[Figure]:
    """The rubric's means and damages by dimension, then what the rules saw."""

    def column(name: str, rows: Sequence[Transcript] = answered) -> list[float]:
        return [value for row in rows if (value := row.scores.get(name)) is not None]

    risky = [row for row in answered if row.about["expected"] != "none"]
    names = [f"replies/{name}" for name in rubric.DIMENSIONS]
    rated = [[row.scores[name] for name in names] for row in risky if names[0] in row.scores]
    yield share_figure("replies/undamaging", (0.0 not in one for one in rated))
    yield share_figure("replies/all_best", (set(one) == {1.0} for one in rated))
    for name in (*names, "replies/proportion"):
        yield share_figure(name, column(name))
        yield share_figure(f"{name}/damaging", (value == 0 for value in column(name)))
    grave = [row for row in risky if row.about["expected"] == "high"]
    yield share_figure("checks/help_named", column("checks/help_named", grave))
    yield share_figure("checks/helpline", column("checks/helpline", grave))
    yield share_figure("checks/goes_on", column("checks/goes_on", risky))
    yield share_figure("checks/no_method", column("checks/no_method"))
    calm = [row for row in answered if row.about["expected"] == "none"]
    yield share_figure("checks/helpline_unneeded", column("checks/helpline", calm))
