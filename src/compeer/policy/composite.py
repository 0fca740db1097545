"""The reward of the policy, as one callable: parse, format, judge, total, reweight.

Equation 5 reweights the *sum* of all parts with what the whole group said, so it cannot be one reward function among
several; this is the only one. It knows nothing of any trainer. TRL and ms-swift call it with lists of columns
(`__call__`), everything else with groups (`score`).

Beyond the paper:
- an output that the judge did not answer for earns the mean of the judged outputs of its group, after reweighting, so
  that it neither gains nor loses; a group without any judgement earns 0 throughout. Both are marked and counted;
- each part has a weight: 1 for the paper's five, 0 for the further parts `density`, `length` (both read one output)
  and `novelty` (across prompts, see `diversity`). All parts range from -1 to 1;
- `soft` takes the judge's probabilities instead of its verdicts, which leaves fewer groups without any difference;
- with `whole` an output that was cut off at its limit has no reply and is incomplete. Without it a policy can learn
  never to stop: what was cut off reads like a long reply, and judges like those;
- a group that is split, because a batch does not hold whole groups, is refused.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any, Literal, Protocol

import msgspec

from compeer.cer.item import PastTurn
from compeer.errors import UserError
from compeer.models.embedding import Embedder
from compeer.policy.diversity import novelty
from compeer.policy.redundancy import Variant, raised, reweight, similarities, tau
from compeer.reasoning import Parsed, Problem, parse
from compeer.reasoning.ontology import Language, words
from compeer.reward.case import Case, case_of_parsed
from compeer.reward.judge import PARTS, Judgement
from compeer.typed import from_json

Part = Callable[[Case], float]

_EMPTY_ENGLISH = (
    "a an and are as at be but for i if in is it its me my of on or so that the this to was we with you your"
)
_EMPTY = frozenset(words(_EMPTY_ENGLISH)) | frozenset("的了是在我你他她它们和就都而也不着吗呢吧啊")


def density(case: Case) -> float:
    """The share of the reply's words that carry content and are not said twice, from -1 to 1."""
    said = [word.lower() for word in words(case.reply)]
    return 2 * len(set(said) - _EMPTY) / len(said) - 1 if said else -1.0


def moderate_length(case: Case, among: tuple[int, int] | None = None) -> float:
    """1 for a reply whose number of words (Chinese: characters) is in `among`, falling smoothly outside of it.

    Without `among` it is 8 to 80 words, or 12 to 120 characters.
    """
    low, high = among or ((8, 80) if case.language == "en" else (12, 120))
    length = max(1, len(words(case.reply)))
    off = max(0.0, math.log(low / length), math.log(length / high))
    return 2 * math.exp(-off) - 1 if words(case.reply) else -1.0


FURTHER = ("density", "length", "novelty")

Source = Literal["unified", "prm+orm", "rules"]


class PromptRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the outputs of a group reply to: the history, and for the judge the reference."""

    id: str
    language: Language
    history: tuple[PastTurn, ...]
    reference: str


def read_record(row: str) -> PromptRecord:
    """The record as it travels through a trainer's dataset, in JSON."""
    try:
        return from_json(row, PromptRecord)
    except msgspec.MsgspecError as error:
        raise UserError(
            f"This is no prompt_record, the record of a prompt: {error}. "
            "Make them with compeer cer export --format trl-grpo."
        ) from None


class RewardSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the reward is put together. The defaults are the paper's."""

    source: Source = "unified"
    weights: dict[str, float] = {}  # over 1 for each of the paper's parts, 0 for each further one
    length: tuple[int, int] | None = None  # the fewest and most words that the part of this name takes for moderate
    soft: bool = False
    whole: bool = False
    reweight: bool = True
    variant: Variant = "paper"
    alpha: float = 0.5
    beta: float = 5.0
    tau_scale: float = 1.0

    def __post_init__(self) -> None:
        known = (*PARTS, *FURTHER)
        if unknown := [name for name in self.weights if name not in known]:
            raise UserError(f"{unknown[0]!r} is not a part of the reward; the parts are {', '.join(known)}.")
        if self.length is not None and not 1 <= self.length[0] <= self.length[1]:
            raise UserError(f"length: {list(self.length)} is not a range of words; give the minimum, then the maximum.")

    def weight(self, part: str) -> float:
        judged = self.source != "rules" or part == "format"
        return self.weights.get(part, 1.0 if part in PARTS and judged else 0.0)

    def total(self, parts: Mapping[str, float]) -> float:
        """The weighted sum of these parts."""
        return sum(self.weight(name) * value for name, value in parts.items())


class Scored(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One output with everything that went into its reward."""

    id: str
    output: str
    reply: str
    complete: bool
    problems: tuple[str, ...]  # codes of what the format lacks
    parts: dict[str, float]
    total: float  # the weighted sum, before equation 5
    reward: float
    s_in: float = 0.0
    s_hi: float = 0.0
    tau: float = 0.0
    raised: bool = False  # a negative reward that equation 5 made less negative
    failure: str | None = None  # why the judge had no answer
    strategy: str = ""  # the one that was stated, where the output is complete


class Judging(Protocol):
    """What the reward needs of a judge: `compeer.reward.client.JudgeClient`."""

    def judge_all(self, cases: Sequence[Case]) -> list[Judgement]: ...


class CompositeReward:
    """The reward function. `group` is G; with None, neighbouring rows of one id make a group."""

    __name__ = "reward"  # TRL names its metrics after it

    def __init__(
        self,
        judge: Judging | None,
        embedder: Embedder | None = None,
        settings: RewardSettings = RewardSettings(),
        *,
        group: int | None = None,
    ) -> None:
        if judge is None and settings.source != "rules":
            raise UserError(f"A reward of source {settings.source} needs a judge; only `rules` does without.")
        self.judge, self.settings, self.group = judge, settings, group
        self.on_scored: Callable[[list[Scored]], None] | None = None  # whoever watches gets every row
        self.embedder = embedder or Embedder()
        further: dict[str, Part] = {"density": density, "length": partial(moderate_length, among=settings.length)}
        self.further = {name: part for name, part in further.items() if settings.weight(name)}
        self.ends: frozenset[int] = frozenset()  # tokens that a whole output ends with; whoever knows them sets them
        self.seconds: dict[str, float] = {"judge": 0.0, "embedder": 0.0, "other": 0.0}

    def __call__(
        self,
        prompts: Any = None,
        completions: Sequence[Any] = (),
        prompt_record: Sequence[str] = (),
        *,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float]:
        """TRL's signature. The dataset's column `prompt_record` holds each row's `PromptRecord` as JSON."""
        if len(prompt_record) != len(completions):
            raise UserError(
                f"{len(completions)} outputs came with {len(prompt_record)} rows of the column `prompt_record`."
            )
        sizes = () if self.group is None else (self.group,)
        groups = grouped([text_of(one) for one in completions], prompt_record, sizes)
        scored = self.score(groups, cut=self._cut(columns.get("completion_ids")))
        if log_metric:
            for name, value in summary(scored).items():
                log_metric(name, value)
        if log_extra:
            for name in PARTS:
                log_extra(name, [row.parts.get(name, 0.0) for row in scored])
            log_extra("s_in", [row.s_in for row in scored])
            log_extra("s_hi", [row.s_hi for row in scored])
        if self.on_scored:
            self.on_scored(scored)
        return [row.reward for row in scored]

    def score(self, groups: Sequence[tuple[PromptRecord, Sequence[str]]], *, cut: Sequence[bool] = ()) -> list[Scored]:
        """The rewards of all outputs, group after group, with one call to the judge.

        `cut` says for each output whether it was cut off at the limit; empty means that none was.
        """
        began, judging, embedding = time.perf_counter(), self.seconds["judge"], self.embedder.seconds
        flags = iter(cut or itertools.repeat(False))
        parsed = [[_read(output, next(flags)) for output in outputs] for _, outputs in groups]
        cases = [
            [
                case_of_parsed(f"{record.id}/{number}", record.language, record.history, record.reference, one)
                for number, one in enumerate(read)
            ]
            for (record, _), read in zip(groups, parsed, strict=True)
        ]
        judgements = iter(self._judged([case for group in cases for case in group]))
        further = self._further(cases)
        scored: list[Scored] = []
        for (prompt_record, outputs), read, group, more in zip(groups, parsed, cases, further, strict=True):
            scored += self._group(prompt_record, outputs, read, group, [next(judgements) for _ in group], more)
        judging, embedding = self.seconds["judge"] - judging, self.embedder.seconds - embedding
        self.seconds["embedder"] += embedding
        self.seconds["other"] += time.perf_counter() - began - judging - embedding
        return scored

    def _judged(self, cases: list[Case]) -> list[Judgement]:
        if self.judge is None:
            return [Judgement(id=case.id, complete=case.complete) for case in cases]
        began = time.perf_counter()
        judgements = self.judge.judge_all(cases)
        self.seconds["judge"] += time.perf_counter() - began
        return judgements

    def _further(self, groups: Sequence[Sequence[Case]]) -> list[list[dict[str, float]]]:
        """The values of the further parts that have a weight, for every output of every group."""
        found = [[{name: part(case) for name, part in self.further.items()} for case in group] for group in groups]
        if self.settings.weight("novelty"):
            for group, values in zip(found, novelty([[case.reply for case in group] for group in groups]), strict=True):
                for parts, value in zip(group, values, strict=True):
                    parts["novelty"] = 2 * value - 1
        return found

    def _group(
        self,
        prompt_record: PromptRecord,
        outputs: Sequence[str],
        read: list[Parsed],
        cases: list[Case],
        judged: list[Judgement],
        further: list[dict[str, float]],
    ) -> list[Scored]:
        parts = [judgement.parts(self.settings.soft) | more for judgement, more in zip(judged, further, strict=True)]
        there = [judgement.failure is None for judgement in judged]
        totals = filled([self.settings.total(one) if known else None for one, known in zip(parts, there, strict=True)])
        replies = [one.response for one in read]
        scale, s_in, s_hi, rewards = 0.0, [0.0] * len(replies), [0.0] * len(replies), totals
        if self.settings.reweight:
            mean_length = sum(len(words(reply)) for reply in replies) / len(replies)
            scale = self.settings.tau_scale * tau(mean_length, self.settings.alpha, self.settings.beta)
            said = [turn.text for turn in prompt_record.history]
            s_in, s_hi = similarities(replies, said, self.embedder(prompt_record.language))
            # what was not judged must not gain by being unlike the others, so its reward is filled in again
            rewards = filled(
                [
                    reweight(total, within, before, scale, self.settings.variant) if known else None
                    for total, within, before, known in zip(totals, s_in, s_hi, there, strict=True)
                ]
            )
        return [
            Scored(
                id=case.id,
                output=output,
                reply=one.response,
                complete=one.complete,
                problems=tuple(problem.code for problem in one.problems),
                parts=parts[number],
                total=totals[number],
                reward=rewards[number],
                s_in=s_in[number],
                s_hi=s_hi[number],
                tau=scale,
                raised=there[number] and raised(totals[number], rewards[number]),
                failure=judged[number].failure,
                strategy=one.reasoning.strategy.strategy if one.complete and one.reasoning else "",
            )
            for number, (case, output, one) in enumerate(zip(cases, outputs, read, strict=True))
        ]

    def _cut(self, ids: Sequence[Sequence[int]] | None) -> list[bool]:
        """Which outputs were cut off; nothing where that does not matter (`whole`) or cannot be known."""
        if not (self.settings.whole and self.ends and ids):
            return []
        return [not one or one[-1] not in self.ends for one in ids]


def grouped(
    outputs: Sequence[str], records: Sequence[str], sizes: Sequence[int] = ()
) -> list[tuple[PromptRecord, list[str]]]:
    """Neighbouring outputs to the same prompt, in groups of the first of `sizes` that divides their number. Without
    `sizes` they are one group."""
    groups: list[tuple[PromptRecord, list[str]]] = []
    for record, rows in itertools.groupby(zip(records, outputs, strict=True), lambda row: row[0]):
        prompt, written = read_record(record), [output for _, output in rows]
        size = next((size for size in sizes or [len(written)] if len(written) % size == 0), None)
        if size is None:
            raise UserError(
                f"{len(written)} outputs for {prompt.id} are in this process, and groups have "
                f"{' or '.join(map(str, sizes))}: a group was split. Choose a batch per process that this divides "
                "(micro_batch x accumulation; in ms-swift per_device_train_batch_size x steps_per_generation)."
            )
        groups += [(prompt, written[at : at + size]) for at in range(0, len(written), size)]
    return groups


def summary(scored: Sequence[Scored]) -> dict[str, float]:
    """Means over a batch, for the log."""
    if not scored:
        return {}
    count = len(scored)
    judged = [row for row in scored if row.failure is None]
    found = {}
    for name in (*PARTS, *FURTHER):
        if values := [row.parts[name] for row in judged if name in row.parts]:
            found[f"part/{name}"] = fmean(values)
    return found | {
        "reward/total": fmean(row.total for row in scored),
        "reward/reweighted": fmean(row.reward for row in scored),
        "redundancy/s_in": fmean(row.s_in for row in scored),
        "redundancy/s_hi": fmean(row.s_hi for row in scored),
        "redundancy/tau": fmean(row.tau for row in scored),
        "redundancy/raised": sum(row.raised for row in scored) / count,
        "format/incomplete": sum(not row.complete for row in scored) / count,
        "judge/unanswered": (count - len(judged)) / count,
    }


def _read(output: str, cut: bool) -> Parsed:
    """The parsed output; the reply of an output that was cut off is empty."""
    parsed = parse(output)
    if not cut:
        return parsed
    problem = Problem("cut-off", "the output did not come to its end within the limit")
    return msgspec.structs.replace(parsed, complete=False, response="", problems=(*parsed.problems, problem))


def text_of(completion: Any) -> str:
    """The text of a completion, plain or as a list of messages; several turns of the supporter are joined."""
    if isinstance(completion, str):
        return completion
    said = [message["content"] for message in completion if message["role"] == "assistant"]
    return "\n".join(
        one if isinstance(one, str) else "".join(part.get("text", "") for part in one) for one in said if one
    )


def filled(group: Sequence[float | None]) -> list[float]:
    """The values of a group, with the mean of the known values in place of None; 0 for all when none is known.

    >>> filled([1.0, None, 2.0]), filled([None])
    ([1.0, 1.5, 2.0], [0.0])
    """
    known = [value for value in group if value is not None]
    mean = sum(known) / len(known) if known else 0.0
    return [mean if value is None else value for value in group]
