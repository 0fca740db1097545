"""The consistency study (Figure 5a): do the verdicts on the reasoning and on the reply go together?

The paper observes reward models that find a chain of reasoning right, which calls for soothing, say, and still choose
a reply that gives practical suggestions. It collects samples by rejection sampling and lets GPT-4o say how often a
reward model is at odds with itself; PRM and ORM, which judge apart, more often than UnifiReward, which judges the
reply in the light of the reasoning.

Here: a policy model answers moments with reasoning, and what is complete is kept. For each sample a judge model says
of both replies whether they follow the reasoning (`following`). The verdicts of a reward model contradict each other
when one of three things holds:

    another-way   all three steps are True, but the reply it puts first (the candidate for "candidate" and "both",
                  the reference for "reference") does not follow this reasoning: the paper's example
    refused       all three steps are True and the candidate follows them, but the verdict is "neither": it approves
                  of the thinking and finds what comes of it unacceptable
    rewarded      the strategy step is False and the candidate carries this strategy out, but the verdict on the reply
                  is a good one ("candidate" or "both"): the outcome pays for what the process refuses

"Reference better" beside a sound candidate is no contradiction: of two good replies one may be better. The
inconsistency ratio is the share of samples with a contradiction. Beside this rule stands what the judge model says
when it is shown the verdicts and asked directly. Samples on which any of the reward models lacks a verdict are left
out for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from compeer import __version__
from compeer.cer.item import Item
from compeer.cer.variants import origin
from compeer.reward.evaluation.bootstrap import ROUNDS, Resamples
from compeer.reward.evaluation.grid import grid, percent, shown
from compeer.reward.evaluation.measure import Figure, figure_of
from compeer.reward.evaluation.paired import Paired, paired
from compeer.reward.evaluation.signatures import Signature, inconsistency
from compeer.reward.judge import Judgement
from compeer.reward.scoring import GOOD
from compeer.reward.studies.following import Following, Verdicts

Contradiction = Literal["another-way", "refused", "rewarded"]
CONTRADICTIONS: tuple[Contradiction, ...] = ("another-way", "refused", "rewarded")
PAPER = (
    "The paper's Figure 5a shows about 12 % for PRM+ORM and about 3 % for UnifiReward, on its own samples and models."
)


class Consistency(msgspec.Struct, frozen=True, kw_only=True):
    """One reward model: how often its verdicts contradict each other, by rule and as the judge model says."""

    name: str
    ratio: Figure
    kinds: dict[Contradiction, float]
    asked_ratio: Figure


class Comparison(msgspec.Struct, frozen=True):
    """Two reward models on the same samples, by rule and as asked."""

    first: str
    second: str
    by_rule: Paired
    asked: Paired | None


class ConsistencyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What consistency.json holds."""

    version: str
    samples: int
    dialogues: int
    left_out: int  # samples that a reward model or the judge model did not answer
    follows: float | None  # the share of candidates whose reply follows their reasoning
    agreement: float | None  # how often rule and judge model say the same
    judge_model: str
    policy: str
    results: list[Consistency]
    comparisons: list[Comparison]
    signatures: list[Signature]


def contradiction(judgement: Judgement, following: Following) -> Contradiction | None:
    """How the verdicts of one sample contradict each other, if they do."""
    preference = judgement.preference
    endorsed = all(step.value is True for step in judgement.steps)
    if endorsed and preference in GOOD and not following.candidate:
        return "another-way"
    if endorsed and preference == "reference" and not following.reference:
        return "another-way"
    if endorsed and preference == "neither" and following.candidate:
        return "refused"
    if judgement.steps[2].value is False and preference in GOOD and following.candidate:
        return "rewarded"
    return None


def complete(judgement: Judgement | None) -> bool:
    """Whether every verdict is there."""
    if judgement is None or judgement.failure is not None or judgement.preference is None:
        return False
    return all(step.value is not None for step in judgement.steps)


def verdicts(item: Item, judgement: Judgement) -> Verdicts:
    """A sample with the verdicts on it, for the direct question."""
    first, second, third = (step.value is True for step in judgement.steps)
    assert judgement.preference is not None
    said = "".join("T" if step else "F" for step in (first, second, third))
    return Verdicts(f"{item.id}|{said}|{judgement.preference}", item, (first, second, third), judgement.preference)


def measured(
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
    """Measure reward models, by name, on the same samples. `asked`: by id of `verdicts`, whether they contradict."""
    known = list(judgements.values())
    answered = [item for item in items if item.id in following and all(complete(told.get(item.id)) for told in known)]
    if asked is not None:
        answered = [item for item in answered if all(verdicts(item, told[item.id]).id in asked for told in known)]
    resamples = Resamples([origin(item) for item in answered], rounds, seed)
    rule: dict[str, list[Contradiction | None]] = {}
    direct: dict[str, list[bool]] = {}
    for name, told in judgements.items():
        rule[name] = [contradiction(told[item.id], following[item.id]) for item in answered]
        direct[name] = [asked[verdicts(item, told[item.id]).id] for item in answered] if asked is not None else []
    by_rule = {name: [kind is not None for kind in kinds] for name, kinds in rule.items()}
    pairs = [(by_rule[name][row], direct[name][row]) for name in direct for row in range(len(direct[name]))]
    results = [
        Consistency(
            name=name,
            ratio=_share(by_rule[name], resamples),
            kinds={kind: rule[name].count(kind) / max(1, len(answered)) for kind in CONTRADICTIONS},
            asked_ratio=_share(direct[name], resamples),
        )
        for name in judgements
    ]
    names = list(judgements)
    return ConsistencyReport(
        version=__version__,
        samples=len(answered),
        dialogues=resamples.dialogues,
        left_out=len(items) - len(answered),
        follows=sum(following[item.id].candidate for item in answered) / len(answered) if answered else None,
        agreement=sum(one == other for one, other in pairs) / len(pairs) if pairs else None,
        judge_model=judge_model,
        policy=policy,
        results=results,
        comparisons=[
            Comparison(
                names[0],
                other,
                paired(by_rule[names[0]], by_rule[other], resamples),
                paired(direct[names[0]], direct[other], resamples) if asked is not None else None,
            )
            for other in names[1:]
        ],
        signatures=[finding for result in results for finding in inconsistency(result.name, result.ratio)],
    )


def markdown(report: ConsistencyReport) -> str:
    """The study as a table and sentences."""
    head = ("reward model", "inconsistent %", *(f"{kind} %" for kind in CONTRADICTIONS), "as the judge model says %")
    rows = [
        [one.name, shown(one.ratio), *(percent(one.kinds[kind]) for kind in CONTRADICTIONS), shown(one.asked_ratio)]
        for one in report.results
    ]
    lines = [
        "# Consistency of process and outcome verdicts",
        "",
        f"{report.samples:,} samples of {report.dialogues:,} dialogues"
        + (f", written by {report.policy}" if report.policy else "")
        + f", assessed by {report.judge_model or 'a judge model'}; {report.left_out:,} left out for want of an answer. "
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


def draw(report: ConsistencyReport, path: Path) -> None:
    """Figure 5a: a bar for each reward model."""
    from compeer.reward.evaluation.bars import bars

    rows = [(one.name, one.ratio, f"{one.ratio.value:.1%}") for one in report.results if one.ratio.value is not None]
    below = f"{report.samples:,} samples of {report.dialogues:,} dialogues"
    bars(path, "Inconsistency ratio", below, "share of samples", rows, lambda value: f"{value:.0%}")


def _share(column: Sequence[bool], resamples: Resamples) -> Figure:
    values = np.array(column, dtype=np.float64)
    return figure_of(float(values.mean()), resamples.mean(values)) if len(values) else Figure()


def _compared(entry: Comparison, pair: Paired) -> str:
    first, second = entry.first, entry.second
    return (
        f"{first} less {second}: {shown(pair.difference, sign=True)} points. {first} alone contradicts itself in "
        f"{pair.only_first:,} samples, {second} alone in {pair.only_second:,} (McNemar p = {pair.p:.3g})"
    )
