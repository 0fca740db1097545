"""The consistency study (Figure 5a): do the verdicts on the reasoning and on the reply go together?

The paper observes reward models that find a chain of reasoning right, which calls for soothing, say, and still choose
a reply that gives practical suggestions. It collects samples by rejection sampling and lets GPT-4o say how often a
reward model is at odds with itself; PRM and ORM, which judge apart, more often than UnifiReward, which judges the
reply in the light of the reasoning.

Here a policy model answers moments with reasoning, and complete answers are kept. For each sample an assessing model
says of both replies whether they follow the reasoning; it sees neither the verdicts nor which reply belongs to the
reasoning. The verdicts of a reward model contradict each other when one of three things holds:

    another-way   all three steps are True, but the reply it prefers (the candidate for "candidate" and "both", the
                  reference for "reference") does not follow this reasoning: the paper's example
    refused       all three steps are True and the candidate follows them, but the verdict is "neither"
    rewarded      the strategy step is False and the candidate carries this strategy out, but the verdict on the reply
                  is a good one ("candidate" or "both")

"Reference better" beside a sound candidate is no contradiction: of two good replies one may be better. The
inconsistency ratio is the share of samples with a contradiction. Beside this rule stands what the assessing model says
when it is shown the verdicts and asked directly; reward models with equal verdicts share one question, so they cannot
differ by chance. Samples on which any of the reward models lacks a verdict are left out for all of them.

    samples.jsonl          complete answers of a policy model to the moments
    judgements/            the reward models' verdicts, kept as in an evaluation
    followed.jsonl         whether the replies follow the reasoning
    contradicted.jsonl     whether the verdicts contradict each other
    consistency.md, .json, .png

Each part is a stage of the runner or a kept file, so the study can be stopped at any moment and continued.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from compeer import __version__
from compeer.cer.item import Item, Preference, decode_item, read_items
from compeer.cer.reason import STAGE as REASON
from compeer.cer.rewrite import origin
from compeer.dialogue import read_rows, write_rows
from compeer.errors import UserError
from compeer.models.ask import ask_json
from compeer.models.request import Request, instructed
from compeer.pipeline.runner import run_stage
from compeer.pipeline.stage import Reject, Stage, Tools
from compeer.pipeline.work import ModelSpec
from compeer.plotting import bars
from compeer.reasoning import STEPS, render_step
from compeer.reasoning.ontology import Language
from compeer.reward.conversation import quote
from compeer.reward.evaluation.folder import EvaluationFolder, ask_judge, write_study
from compeer.reward.evaluation.report import grid, percent
from compeer.reward.evaluation.signatures import Signature, inconsistency
from compeer.reward.judge import Judge, Judgement
from compeer.reward.scoring import GOOD
from compeer.statistics import ROUNDS, Figure, Resamples
from compeer.statistics.classification import mcnemar
from compeer.typed import from_json

_ROLE = "judge"
_SET = "samples"
Contradiction = Literal["another-way", "refused", "rewarded"]
CONTRADICTIONS: tuple[Contradiction, ...] = ("another-way", "refused", "rewarded")
PAPER = (
    "The paper's Figure 5a shows about 12 % for PRM+ORM and about 3 % for UnifiReward, on its own samples and models."
)


class _Prompts(msgspec.Struct, frozen=True):
    """The texts in one language: two instructions, and the headings and verdicts."""

    follows: str
    contradict: str
    words: dict[str, str]


_PROMPTS: dict[Language, _Prompts] = from_json(
    Path(__file__).with_name("consistency_prompts.json").read_bytes(), dict[Language, _Prompts]
)


class Following(msgspec.Struct, frozen=True):
    """Whether each reply to a moment follows the candidate's reasoning."""

    id: str
    candidate: bool
    reference: bool
    why: str = ""


class SampleVerdicts(msgspec.Struct, frozen=True):
    """A sample and a reward model's verdicts on it. The id holds the verdicts, so equal ones are one row."""

    id: str
    item: Item
    steps: tuple[bool, bool, bool]
    preference: Preference


class Contradicted(msgspec.Struct, frozen=True):
    """Whether the assessing model finds that verdicts contradict each other."""

    id: str
    contradict: bool
    why: str = ""


class _Follows(msgspec.Struct, frozen=True):
    why: str
    follows: bool


class _Contradict(msgspec.Struct, frozen=True):
    why: str
    contradict: bool


async def follows(item: Item, tools: Tools) -> Following | Reject:
    """Ask about the candidate's reply and about the reference, each on its own."""
    if item.candidate is None or item.candidate.reasoning is None:
        return Reject(item.id, "no-reasoning", "there is no complete reasoning to follow", item)
    prompts, answers = _PROMPTS[item.language], []
    for reply in (item.candidate.response, item.reference):
        asked = [*_thinking(item), f"{prompts.words['reply']}\n{quote(reply)}"]
        answer, _ = await ask_json(tools.models[_ROLE], _request(prompts.follows, asked), _Follows)
        answers.append(answer)
    return Following(item.id, answers[0].follows, answers[1].follows, answers[0].why)


async def contradicts(row: SampleVerdicts, tools: Tools) -> Contradicted:
    prompts = _PROMPTS[row.item.language]
    words = prompts.words
    assert row.item.candidate is not None
    asked = [
        *_thinking(row.item, [words["true" if step else "false"] for step in row.steps]),
        f"{words['own']}\n{quote(row.item.candidate.response)}",
        f"{words['other']}\n{quote(row.item.reference)}",
        words[row.preference],
    ]
    answer, _ = await ask_json(tools.models[_ROLE], _request(prompts.contradict, asked), _Contradict)
    return Contradicted(row.id, answer.contradict, answer.why)


FOLLOWS = Stage(
    name="follows",
    function=follows,
    reads=Item,
    decode=decode_item,
    writes=Following,
    roles=(_ROLE,),
    prompts=tuple(prompts.follows for prompts in _PROMPTS.values()),
    calls_per_row=2.0,
    tokens_per_call=(600, 60),
)
CONTRADICTS = Stage(
    name="contradicts",
    function=contradicts,
    reads=SampleVerdicts,
    writes=Contradicted,
    roles=(_ROLE,),
    prompts=tuple(prompts.contradict for prompts in _PROMPTS.values()),
    calls_per_row=1.0,
    tokens_per_call=(700, 60),
)


def _thinking(item: Item, verdicts: Sequence[str] = ("", "", "")) -> list[str]:
    """The last message and the three steps, each with its verdict where there is one."""
    words = _PROMPTS[item.language].words
    assert item.candidate is not None and item.candidate.reasoning is not None
    parts = [f"{words['last']}\n{quote(item.history[-1].text)}"] if item.history else []
    for step, verdict in zip(STEPS, verdicts, strict=True):
        parts.append(f"{words[step]}\n{quote(render_step(item.candidate.reasoning, step))}")
        parts += [verdict] if verdict else []
    return parts


def _request(system: str, asked: Sequence[str]) -> Request:
    return instructed(system, "\n\n".join(asked), temperature=0.0, seed=0, max_tokens=400)


class ModelConsistency(msgspec.Struct, frozen=True, kw_only=True):
    """One reward model: how often its verdicts contradict each other, by rule and as the assessing model says."""

    name: str
    ratio: Figure
    kinds: dict[Contradiction, float]
    asked_ratio: Figure


class PairedShares(msgspec.Struct, frozen=True):
    """Two reward models on the same samples: the difference of their shares, and McNemar's test.

    McNemar's exact test takes samples as independent; where many come from one dialogue, the interval of the
    difference, which resamples dialogues, is the safer of the two.
    """

    difference: Figure
    only_first: int  # samples that hold for the first model alone
    only_second: int
    p: float  # McNemar, exact and two-sided


class ModelComparison(msgspec.Struct, frozen=True):
    first: str
    second: str
    by_rule: PairedShares
    asked: PairedShares | None


class ConsistencyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What consistency.json holds."""

    version: str
    samples: int
    dialogues: int
    left_out: int  # samples without an answer of a reward model or of the assessing model
    follows: float | None  # share of candidates whose reply follows their reasoning
    agreement: float | None  # how often rule and assessing model agree
    judge_model: str
    policy: str
    results: list[ModelConsistency]
    comparisons: list[ModelComparison]
    signatures: list[Signature]


def contradiction(judgement: Judgement, following: Following) -> Contradiction | None:
    """How the verdicts of one sample contradict each other, if they do."""
    preference = judgement.preference
    all_true = all(step.value is True for step in judgement.steps)
    if all_true and preference in GOOD and not following.candidate:
        return "another-way"
    if all_true and preference == "reference" and not following.reference:
        return "another-way"
    if all_true and preference == "neither" and following.candidate:
        return "refused"
    if judgement.steps[2].value is False and preference in GOOD and following.candidate:
        return "rewarded"
    return None


def has_all_verdicts(judgement: Judgement | None) -> bool:
    if judgement is None or judgement.failure is not None or judgement.preference is None:
        return False
    return all(step.value is not None for step in judgement.steps)


def sample_verdicts(item: Item, judgement: Judgement) -> SampleVerdicts:
    """A sample with its verdicts, for the direct question."""
    first, second, third = (step.value is True for step in judgement.steps)
    assert judgement.preference is not None
    letters = "".join("T" if step else "F" for step in (first, second, third))
    name = f"{item.id}|{letters}|{judgement.preference}"
    return SampleVerdicts(name, item, (first, second, third), judgement.preference)


def measure_consistency(
    items: Sequence[Item],
    judgements: Mapping[str, Mapping[str, Judgement]],
    following: Mapping[str, Following],
    asked: Mapping[str, bool] | None = None,
    *,
    judge_model: str = "",
    policy: str = "",
    rounds: int = ROUNDS,
    seed: int = 0,
) -> ConsistencyReport:
    """Measure reward models, by name, on the same samples. `asked`: by id of `sample_verdicts`, the direct answers."""
    models = list(judgements.values())
    kept = [item for item in items if item.id in following and all(has_all_verdicts(m.get(item.id)) for m in models)]
    if asked is not None:
        kept = [item for item in kept if all(sample_verdicts(item, m[item.id]).id in asked for m in models)]
    resamples = Resamples([origin(item) for item in kept], rounds, seed)
    rule: dict[str, list[Contradiction | None]] = {}
    direct: dict[str, list[bool]] = {}
    for name, given in judgements.items():
        rule[name] = [contradiction(given[item.id], following[item.id]) for item in kept]
        direct[name] = [asked[sample_verdicts(item, given[item.id]).id] for item in kept] if asked is not None else []
    by_rule = {name: [kind is not None for kind in kinds] for name, kinds in rule.items()}
    pairs = [(by_rule[name][row], direct[name][row]) for name in direct for row in range(len(direct[name]))]
    results = [
        ModelConsistency(
            name=name,
            ratio=resamples.figure("", by_rule[name], share=True),
            kinds={kind: rule[name].count(kind) / max(1, len(kept)) for kind in CONTRADICTIONS},
            asked_ratio=resamples.figure("", direct[name], share=True),
        )
        for name in judgements
    ]
    first, *others = judgements
    return ConsistencyReport(
        version=__version__,
        samples=len(kept),
        dialogues=resamples.groups,
        left_out=len(items) - len(kept),
        follows=sum(following[item.id].candidate for item in kept) / len(kept) if kept else None,
        agreement=sum(one == other for one, other in pairs) / len(pairs) if pairs else None,
        judge_model=judge_model,
        policy=policy,
        results=results,
        comparisons=[
            ModelComparison(
                first,
                other,
                paired_shares(by_rule[first], by_rule[other], resamples),
                paired_shares(direct[first], direct[other], resamples) if asked is not None else None,
            )
            for other in others
        ],
        signatures=[finding for result in results for finding in inconsistency(result.name, result.ratio)],
    )


def paired_shares(first: Sequence[bool], second: Sequence[bool], resamples: Resamples) -> PairedShares:
    """Compare two columns of yes and no over the same samples."""
    one, two = np.array(first, dtype=np.float64), np.array(second, dtype=np.float64)
    only_first, only_second = int(((one == 1) & (two == 0)).sum()), int(((one == 0) & (two == 1)).sum())
    return PairedShares(
        difference=resamples.figure("", one - two),
        only_first=only_first,
        only_second=only_second,
        p=mcnemar(only_first, only_second),
    )


def markdown(report: ConsistencyReport) -> str:
    head = ("reward model", "inconsistent %", *(f"{kind} %" for kind in CONTRADICTIONS), "as the judge model says %")
    rows = [
        [one.name, percent(one.ratio), *(percent(one.kinds[kind]) for kind in CONTRADICTIONS), percent(one.asked_ratio)]
        for one in report.results
    ]
    written = f", written by {report.policy}" if report.policy else ""
    lines = [
        "# Consistency of process and outcome verdicts",
        "",
        f"{report.samples:,} samples of {report.dialogues:,} dialogues{written}, assessed by "
        f"{report.judge_model or 'a judge model'}; {report.left_out:,} left out because an answer is missing. "
        f"The reply follows its reasoning in {percent(report.follows)} %. Brackets: 95 % intervals over dialogues.",
        "",
        *grid(head, rows),
        "",
    ]
    for entry in report.comparisons:
        lines.append(f"- {_compared(entry, entry.by_rule)} (by rule)")
        if entry.asked is not None:
            lines.append(f"- {_compared(entry, entry.asked)} (as the judge model says)")
    if report.agreement is not None:
        lines.append(f"- The rule and the judge model agree in {percent(report.agreement)} % of the cases.")
    lines += [f"- **{found.judge}.** {found.text}" for found in report.signatures]
    return "\n".join([*lines, "", PAPER, ""])


def _compared(entry: ModelComparison, pair: PairedShares) -> str:
    first, second = entry.first, entry.second
    return (
        f"{first} less {second}: {percent(pair.difference, sign=True)} points. {first} alone contradicts itself in "
        f"{pair.only_first:,} samples, {second} alone in {pair.only_second:,} (McNemar p = {pair.p:.3g})"
    )


def write_consistency(report: ConsistencyReport, out: Path) -> None:
    """consistency.md, consistency.json and consistency.png (Figure 5a) in a folder."""
    write_study(out, "consistency", report, markdown(report))
    rows = [(one.name, one.ratio, f"{one.ratio.value:.1%}") for one in report.results if one.ratio.value is not None]
    below = f"{report.samples:,} samples of {report.dialogues:,} dialogues"
    path = out / "consistency.png"
    bars(path, "Inconsistency ratio", below, "share of samples", rows, lambda value: f"{value:.0%}")


def collect(
    items: Sequence[Item],
    policy: ModelSpec,
    out: Path,
    *,
    per_item: int = 1,
    options: Mapping[str, object] | None = None,
) -> list[Item]:
    """Let a policy model answer moments with reasoning; an incomplete output is drawn again, then dropped."""
    moments = out / "moments.jsonl"
    write_rows(moments, _moments(items, per_item))
    manifest = run_stage(
        REASON,
        moments,
        out / "samples.jsonl",
        Tools(options=dict(options or {})),
        model_specs={"generator": policy},
        concurrency=policy.concurrency,
    )
    return list(read_items(manifest.output))


def _moments(items: Sequence[Item], per_item: int) -> Iterator[Item]:
    """Each moment as often as it is to be answered, under its own id, without labels and candidates."""
    for item in items:
        for number in range(per_item):
            name = item.id if number == 0 else f"{item.id}~{number + 1}"
            yield msgspec.structs.replace(item, id=name, candidate=None, labels=type(item.labels)(), label_source=None)


def study(
    samples: Sequence[Item],
    judges: Mapping[str, Judge],
    judge_model: ModelSpec,
    out: Path,
    *,
    policy: str = "",
    ask_verdicts: bool = True,
) -> ConsistencyReport:
    """Have reward models judge the samples and a judge model assess them; write the report."""
    usable = [item for item in samples if item.candidate is not None and item.candidate.reasoning is not None]
    if not usable:
        raise UserError("None of the samples holds a complete reasoning; give --policy a model that writes them.")
    folder = EvaluationFolder(out)
    folder.add_set(_SET, usable)
    judgements = {}
    for name, judge in judges.items():  # all are asked in the same order of the pair, drawn from the sample's id
        if judge.kind != "unified":
            raise UserError(f"{name} judges only part of a sample ({judge.kind}); name a pair of judges as PRM,ORM.")
        ask_judge(judge, folder, name, sets=[_SET])
        judgements[name] = folder.judgements(_SET, name)
    models: dict[str, Any] = {"model_specs": {_ROLE: judge_model}, "concurrency": judge_model.concurrency}
    done = run_stage(FOLLOWS, folder.set_path(_SET), out / "followed.jsonl", **models)
    following = {row.id: row for row in read_rows(done.output, Following)}
    asked: dict[str, bool] | None = None
    if ask_verdicts:
        rows = {}
        for item in usable:
            for known in judgements.values():
                if has_all_verdicts(known.get(item.id)):
                    row = sample_verdicts(item, known[item.id])
                    rows[row.id] = row
        write_rows(out / "verdicts.jsonl", rows.values())
        # verdicts may have been added since the last time; earlier answers come from the cache
        done = run_stage(CONTRADICTS, out / "verdicts.jsonl", out / "contradicted.jsonl", fresh=True, **models)
        asked = {row.id: row.contradict for row in read_rows(done.output, Contradicted)}
    report = measure_consistency(usable, judgements, following, asked, judge_model=judge_model.spec, policy=policy)
    write_consistency(report, out)
    return report
