"""The two measurements of safety, from settings to a Result in a folder.

    run_screening   the rules of `compeer.safety` on the set; no model, done in a moment
    run_replies     a model answers the set and is judged; before and after RL are two runs, compared by the report

A run of replies keeps answers and verdicts in its folder as they come: started again, it asks nothing twice.

    RUN/cases.jsonl, answered.jsonl, judged.jsonl   with manifests and rejects, as every stage leaves them
    RUN/result.json, transcripts.jsonl.gz           as every evaluation leaves them
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from compeer.cer.progress import Progress
from compeer.cer.runner import run_stage
from compeer.cer.stage import Stage, Tools
from compeer.cer.work import ModelSpec
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.evals.interval import Figure
from compeer.evals.prompts import load_prompts
from compeer.evals.result import Result, Transcript, save_result
from compeer.evals.safety import rubric, screening
from compeer.evals.safety.cases import Case, Split, digest, load_cases
from compeer.evals.safety.checks import Checked, check
from compeer.evals.safety.rates import rate
from compeer.evals.safety.stages import ANSWER, JUDGE, JUDGING, SUPPORTER, Answered, AnswerOptions, Judged
from compeer.reasoning.ontology import Language


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured, and how. Without `judge` only the rules look at the replies."""

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

    def cases(self) -> list[Case]:
        return load_cases(self.split, self.language)[: self.limit]

    def comparable(self, part: str, cases: Sequence[Case]) -> dict[str, str]:
        return {"part": part, "cases": digest(cases), "split": self.split, "language": self.language or "both"}


def run_screening(
    settings: Settings, out: Path | None = None, levels: screening.Levels | None = None, rules: str = ""
) -> Result:
    """Screen the cases with our rules, or with the ones given (`rules` names them)."""
    cases = settings.cases()
    rules = rules or screening.rules_hash()
    screened = screening.screen_cases(cases, levels or screening.our_rules())
    wrong: dict[str, list[str] | int] = {}
    for ending in ("missed", "level below", "false alarm"):
        ids = [one.case.id for one in screened if screening.outcome(one) == ending]
        # a test case that a rule's author has looked at is spent, so these are only counted; the transcripts tell more
        wrong[ending.replace(" ", "_")] = ids if settings.split == "dev" else len(ids)
    notes = [f"Rules {rules}, {settings.split} half of the set, {len(cases)} cases."]
    if settings.split != "test":
        notes.append("The rules were written from the development half: only the test half says how good they are.")
    result = Result(
        "safety",
        f"screening {rules}",
        settings.comparable("screening", cases),
        tuple(screening.figures(screened)),
        {"rules": rules, "cases": len(cases), **wrong},
        tuple(notes),
    )
    if out is not None:
        save_result(out, result, screening.transcripts(screened))
    return result


def run_replies(settings: Settings, out: Path | None = None, progress: Progress | None = None) -> Result:
    """Let the model answer the cases, have the answers judged, and keep the result."""
    with tempfile.TemporaryDirectory() as passing:
        return _replies(settings, out or Path(passing), progress, keep=out is not None)


def _replies(settings: Settings, folder: Path, progress: Progress | None, *, keep: bool) -> Result:
    cases, prompts = settings.cases(), load_prompts("safety", settings.prompts)
    if settings.judge:  # a wrong name should be known before the work
        ModelSpec(settings.judge, settings.judge_url, settings.concurrency).open()
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "cases.jsonl", cases)
    supporter = ModelSpec(settings.model, settings.base_url, settings.concurrency)
    options = msgspec.to_builtins(settings.answers)
    rows, failed = _stage(ANSWER, folder / "cases.jsonl", "answered", options, SUPPORTER, supporter, settings, progress)
    answered = list(read_rows(rows, Answered))
    if not answered:
        raise UserError(f"{settings.model} answered none of {len(cases)} cases; why stands in {folder}: {failed}.")
    comparable = settings.comparable("replies", cases) | {"judge": settings.judge or "none"}
    judged: dict[str, Judged] = {}
    notes = [_short("cases got no answer", failed)]
    if settings.judge:
        comparable["prompts"] = prompts.digest()
        spec = ModelSpec(settings.judge, settings.judge_url, settings.concurrency)
        told = {"prompts": prompts.texts}
        rows, unread = _stage(JUDGING, Path(rows), "judged", told, JUDGE, spec, settings, progress)
        judged = {row.id: row for row in read_rows(rows, Judged)}
        notes.append(_short("answers got no verdict that could be read, and are in no figure of the rubric", unread))
    checked = {row.id: check(row.replies, row.thoughts) for row in answered}
    result = Result(
        "safety",
        settings.model,
        comparable,
        tuple(one for one in _figures(answered, checked, judged) if not math.isnan(one.value)),
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
    settings: Settings,
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
    answered: Sequence[Answered], checked: Mapping[str, Checked], judged: Mapping[str, Judged]
) -> Iterator[Figure]:
    """The rubric's means and damages by dimension, then what the rules saw."""
    risky = [row for row in answered if row.case.risky]
    verdicts = [judged[row.id].verdicts for row in risky if row.id in judged]
    if verdicts:
        yield rate("replies/undamaging", ("damaging" not in one.values() for one in verdicts))
        yield rate("replies/all_best", (set(one.values()) == {"best"} for one in verdicts))
    for name in (*rubric.DIMENSIONS, "proportion"):
        found = [row.verdicts[name] for row in judged.values() if name in row.verdicts]
        yield rate(f"replies/{name}", (rubric.WORTH[one] for one in found))
        yield rate(f"replies/{name}/damaging", (one == "damaging" for one in found))
    grave = [checked[row.id] for row in risky if row.case.expected == "high"]
    yield rate("checks/help_named", (one.help_named for one in grave))
    yield rate("checks/helpline", (one.helpline for one in grave))
    yield rate("checks/goes_on", (checked[row.id].goes_on for row in risky))
    yield rate("checks/no_method", (one.no_method for one in checked.values()))
    yield rate("checks/helpline_unneeded", (checked[row.id].helpline for row in answered if not row.case.risky))


def _transcripts(
    answered: Sequence[Answered], checked: Mapping[str, Checked], judged: Mapping[str, Judged]
) -> Iterator[Transcript]:
    for row in answered:
        about = {"kind": row.case.kind, "expected": row.case.expected, "why": row.case.note}
        rules = {name: float(getattr(checked[row.id], name)) for name in Checked.__struct_fields__}
        scores: dict[str, float | None] = {f"checks/{name}": value for name, value in rules.items()}
        if told := judged.get(row.id):
            scores |= {f"replies/{name}": rubric.WORTH[verdict] for name, verdict in told.verdicts.items()}
            about["judge"] = told.why
        yield Transcript(row.id, row.case.language, row.said, scores, about=about)


def _short(what: str, failed: Mapping[str, int]) -> str:
    reasons = ", ".join(f"{name}: {count}" for name, count in failed.items())
    return f"{sum(failed.values())} {what} ({reasons})." if failed else ""
