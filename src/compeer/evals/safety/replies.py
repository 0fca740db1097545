"""A model answers the red-team set, and its answers are checked and judged: before and after training are two runs.

The model answers every turn of a case in reasoning mode, with its own earlier replies in the history and without its
earlier reasoning, as it would in a conversation. Nothing of `compeer.safety` stands around it: this measures the model,
not the protection in front of it. An output that stays outside the contract after the last attempt is kept as it is;
what a person would have read of it is judged.

Answering and judging are stages of the runner, so a run that was stopped asks nothing twice.

    RUN/cases.jsonl, answered.jsonl, judged.jsonl   with manifests and rejects, as every stage leaves them
    RUN/result.json, transcripts.jsonl.gz           as every evaluation leaves them
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.evals.prompts import Prompts, load_prompts
from compeer.evals.result import Result, Transcript, TranscriptTurn, meaning, save_result
from compeer.evals.safety.rubric import (
    DIMENSIONS,
    WORTH,
    CareVerdicts,
    ProportionVerdict,
    ReplyChecks,
    Verdict,
    check_replies,
    judge_request,
    verdicts_by_dimension,
)
from compeer.evals.safety.screening import RiskCase, Split, comparable_safety, load_cases
from compeer.models.ask import ask_json, reason, request_for
from compeer.pipeline.runner import run_stage
from compeer.pipeline.stage import Progress, Stage, Tools
from compeer.pipeline.work import ModelSpec
from compeer.reasoning.ontology import Language
from compeer.reasoning.prompt import Length
from compeer.reasoning.schema import has_words
from compeer.statistics import Figure, share_figure
from compeer.typed import from_plain

SUPPORTER, JUDGE = "supporter", "judge"
_SILENCE = "……"  # stands for an empty reply in the history; servers refuse empty messages


class AnsweredCase(msgspec.Struct, frozen=True):
    """A case with what was said: each turn of the seeker and the reply to it."""

    id: str
    case: RiskCase
    said: tuple[TranscriptTurn, ...]

    @property
    def replies(self) -> list[str]:
        return [one.text for one in self.said if one.speaker == "supporter"]

    @property
    def thoughts(self) -> list[str]:
        return [one.reasoning for one in self.said if one.reasoning]


class JudgedCase(msgspec.Struct, frozen=True):
    """The judge's verdicts on the answers to a case, by dimension."""

    id: str
    verdicts: dict[str, Verdict]
    why: str


class AnswerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the model is asked."""

    temperature: Annotated[float, Meta(ge=0)] = 0.7
    max_tokens: Annotated[int, Meta(ge=1)] = 2_000
    attempts: Annotated[int, Meta(ge=1)] = 3
    grammar: bool = True
    length: Length = "full"


class JudgeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the judge is told: the texts of `Prompts`."""

    prompts: dict[str, str]


async def answer(case: RiskCase, tools: Tools) -> AnsweredCase:
    """Let the model answer each turn."""
    options = from_plain(tools.options, AnswerOptions)
    chat: list[dict[str, Any]] = []
    said: list[TranscriptTurn] = []
    for number, text in enumerate(case.turns):
        chat.append({"role": "user", "content": text})
        request = request_for(
            list(chat),
            case.language,
            length=options.length,
            grammar=options.grammar,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=tools.rng(case.id, number).getrandbits(31),
        )
        turn = await reason(tools.models[SUPPORTER], request, attempts=options.attempts)
        reply = turn.parsed.response.strip()
        thought = turn.raw.strip().removesuffix(reply).strip()
        note = "; ".join(turn.problems)
        said += [
            TranscriptTurn("seeker", text),
            TranscriptTurn("supporter", reply, reasoning=thought or None, note=note or None),
        ]
        chat.append({"role": "assistant", "content": reply if has_words(reply) else _SILENCE})
    return AnsweredCase(case.id, case, tuple(said))


async def judge(row: AnsweredCase, tools: Tools) -> JudgedCase:
    """Ask the judge about the answers to one case."""
    prompts = Prompts(from_plain(tools.options, JudgeOptions).prompts)
    request = judge_request(row.case, row.said, prompts)
    told: CareVerdicts | ProportionVerdict
    if row.case.risky:
        told, _ = await ask_json(tools.models[JUDGE], request, CareVerdicts)
    else:
        told, _ = await ask_json(tools.models[JUDGE], request, ProportionVerdict)
    return JudgedCase(row.id, verdicts_by_dimension(told), told.why)


ANSWER = Stage(
    name="safety answers",
    function=answer,
    reads=RiskCase,
    writes=AnsweredCase,
    roles=(SUPPORTER,),
    calls_per_row=1.1,
    tokens_per_call=(900, 400),
    options=AnswerOptions,
)
JUDGING = Stage(
    name="safety verdicts",
    function=judge,
    reads=AnsweredCase,
    writes=JudgedCase,
    roles=(JUDGE,),
    calls_per_row=1.0,
    tokens_per_call=(900, 120),
    options=JudgeOptions,
)


class SafetySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured, and how. Without `judge` only the plain checks are applied."""

    model: str = ""
    judge: str | None = None
    split: Split = "test"
    language: Language | None = None
    base_url: str | None = None
    judge_url: str | None = None
    prompts: Path | None = None
    concurrency: int = 16
    limit: int | None = None
    seed: int = 0
    answers: AnswerOptions = AnswerOptions()

    def cases(self) -> list[RiskCase]:
        return load_cases(self.split, self.language)[: self.limit]


def run_replies(settings: SafetySettings, out: Path | None = None, progress: Progress | None = None) -> Result:
    """Let the model answer the cases, have the answers judged, and keep the result."""
    with tempfile.TemporaryDirectory() as passing:
        return _replies(settings, out or Path(passing), progress, keep=out is not None)


def _replies(settings: SafetySettings, folder: Path, progress: Progress | None, *, keep: bool) -> Result:
    cases, prompts = settings.cases(), load_prompts("safety", settings.prompts)
    if settings.judge:  # a wrong name is an error before the work begins
        ModelSpec(settings.judge, settings.judge_url, settings.concurrency).open()
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "cases.jsonl", cases)
    supporter = ModelSpec(settings.model, settings.base_url, settings.concurrency)
    options = msgspec.to_builtins(settings.answers)
    rows, failed = _stage(ANSWER, folder / "cases.jsonl", "answered", options, SUPPORTER, supporter, settings, progress)
    answered = list(read_rows(rows, AnsweredCase))
    if not answered:
        raise UserError(f"{settings.model} answered none of {len(cases)} cases; why stands in {folder}: {failed}.")
    comparable = comparable_safety("replies", cases, settings.split, settings.language) | {
        "judge": settings.judge or "none"
    }
    judged: dict[str, JudgedCase] = {}
    notes = [_short("cases got no answer", failed)]
    if settings.judge:
        comparable["prompts"] = prompts.digest()
        spec = ModelSpec(settings.judge, settings.judge_url, settings.concurrency)
        told = {"prompts": prompts.texts}
        rows, unread = _stage(JUDGING, Path(rows), "judged", told, JUDGE, spec, settings, progress)
        judged = {row.id: row for row in read_rows(rows, JudgedCase)}
        notes.append(_short("answers got no verdict that could be read, and are in no figure of the rubric", unread))
    checked = {row.id: check_replies(row.replies, row.thoughts) for row in answered}
    result = Result(
        "safety",
        settings.model,
        comparable,
        tuple(one for one in _figures(answered, checked, judged) if one.n),
        {
            "seed": settings.seed,
            **options,
            "cases": len(cases),
            "answered": len(answered),
            "judged": len(judged),
            "outside the contract": sum(any(one.note for one in row.said) for row in answered),
        },
        tuple(filter(None, notes)),
    )
    if keep:
        save_result(folder, result, _transcripts(answered, checked, judged))
    return result


def _stage(
    stage: Stage,
    source: Path,
    name: str,
    options: dict[str, Any],
    role: str,
    spec: ModelSpec,
    settings: SafetySettings,
    progress: Progress | None,
) -> tuple[str, dict[str, int]]:
    """Run a stage; its output and how many rows went no further, by reason."""
    manifest = run_stage(
        stage,
        source,
        source.parent / f"{name}.jsonl",
        Tools(seed=settings.seed, options=options),
        model_specs={role: spec},
        concurrency=settings.concurrency,
        progress=progress,
        fresh=stage is JUDGING,  # answers may have been added since; verdicts that are known come from the cache
    )
    return manifest.output, manifest.counts.rejected


def _figures(
    answered: Sequence[AnsweredCase], checked: Mapping[str, ReplyChecks], judged: Mapping[str, JudgedCase]
) -> Iterator[Figure]:
    """The rubric's means and damages by dimension, then what the rules saw."""
    risky = [row for row in answered if row.case.risky]
    verdicts = [judged[row.id].verdicts for row in risky if row.id in judged]
    if verdicts:
        yield share_figure("replies/undamaging", ("damaging" not in one.values() for one in verdicts))
        yield share_figure("replies/all_best", (set(one.values()) == {"best"} for one in verdicts))
    for name in (*DIMENSIONS, "proportion"):
        found = [row.verdicts[name] for row in judged.values() if name in row.verdicts]
        yield share_figure(f"replies/{name}", (WORTH[one] for one in found))
        yield share_figure(f"replies/{name}/damaging", (one == "damaging" for one in found))
    grave = [checked[row.id] for row in risky if row.case.expected == "high"]
    yield share_figure("checks/help_named", (one.help_named for one in grave))
    yield share_figure("checks/helpline", (one.helpline for one in grave))
    yield share_figure("checks/goes_on", (checked[row.id].goes_on for row in risky))
    yield share_figure("checks/no_method", (one.no_method for one in checked.values()))
    yield share_figure("checks/helpline_unneeded", (checked[row.id].helpline for row in answered if not row.case.risky))


def _transcripts(
    answered: Sequence[AnsweredCase], checked: Mapping[str, ReplyChecks], judged: Mapping[str, JudgedCase]
) -> Iterator[Transcript]:
    for row in answered:
        about = {"kind": row.case.kind, "expected": row.case.expected, "why": row.case.note}
        rules = {name: float(getattr(checked[row.id], name)) for name in ReplyChecks.__struct_fields__}
        scores: dict[str, float | None] = {f"checks/{name}": value for name, value in rules.items()}
        if told := judged.get(row.id):
            scores |= {f"replies/{name}": WORTH[verdict] for name, verdict in told.verdicts.items()}
            about["judge"] = told.why
        yield Transcript(row.id, row.case.language, row.said, scores, about=about)


def _short(what: str, failed: Mapping[str, int]) -> str:
    reasons = ", ".join(f"{name}: {count}" for name, count in failed.items())
    return f"{sum(failed.values())} {what} ({reasons})." if failed else ""


def replies_markdown(result: Result) -> str:
    """A table by figure, then the notes."""
    lines = [result.model, "", "| figure | value | damaging | n | what it is |", "|---|---:|---:|---:|---|"]
    for figure in result.figures:
        if figure.name.endswith("/damaging"):
            continue
        damaging = damage.text(2) if (damage := result.figure(f"{figure.name}/damaging")) else ""
        told = meaning("safety", figure.name)
        lines.append(f"| {figure.name} | {figure.text(2)} | {damaging} | {figure.n} | {told} |")
    judged = any(result.figure(f"replies/{name}") for name in DIMENSIONS)
    if not judged:
        lines += ["", "No judge was named (--judge): only the plain checks were applied."]
    return "\n".join([*lines, "", *(f"- {note}" for note in result.notes)]).rstrip()
