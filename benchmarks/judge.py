"""What a judgement costs: one unified judge against PRM and ORM, and a shared history against separate turns.

The same weights (the embedded model in transformers) judge the same groups, a few at a time and in turn, in one run.
Tokens are counted; seconds are those of all turns together. The paper's unified judge takes 12.5 % longer than PRM and
ORM; sharing the history among the turns should make it take no longer.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec

from benchmarks.measure import Ratio
from compeer.cer import gold
from compeer.reward.case import Case, case_of
from compeer.reward.conversation import messages, threads
from compeer.reward.judge import Judgement
from compeer.reward.local_judge import LocalJudge
from compeer.reward.local_scoring import ChatRendering, LocalScorer
from compeer.reward.verdict import STEP_WORDS, Kind


def run(histories: int = 8, candidates: int = 4, alone: int = 16, model: str = "embedded:small") -> list[Ratio]:
    """Groups as training scores them, then moments with one candidate each, as an evaluation does."""
    unified = LocalJudge(model)
    rendering = unified.load().rendering
    kinds: tuple[Kind, ...] = ("prm", "orm")
    apart = [LocalJudge(model, kind=kind, batch=unified.batch) for kind in kinds]
    for judge in apart:  # one copy of the weights for all
        judge._scorer, judge.max_length = LocalScorer(rendering, judge.batch, explain=False), unified.max_length
    for judge in (unified, *apart):  # warm, and with its instruction encoded
        asyncio.run(judge.judge(groups(1, 1, seed=2)))
    grouped = compared(unified, apart, groups(histories, candidates), 2 * candidates, turns=True)
    single = compared(unified, apart, groups(alone, 1, seed=3), 4, turns=False)
    found = []
    for what, (seconds, tokens) in ((f"{histories} x {candidates}", grouped), (f"{alone} x 1", single)):
        for unit, spent in (("s", seconds), ("tokens", tokens)):
            for against, key, wanted in (
                ("PRM + ORM", "apart", 1.0 if unit == "s" else None),
                ("four separate turns", "turns", 0.4 if unit == "tokens" else None),
            ):
                if spent[key]:
                    ratio = {"ours": spent["unified"], "theirs": spent[key], "unit": unit, "wanted": wanted}
                    found.append(Ratio(what=f"{what} judgements", against=against, at_least=False, **ratio))
    return found


def compared(
    unified: LocalJudge, apart: Sequence[LocalJudge], cases: Sequence[Case], at_a_time: int, *, turns: bool
) -> tuple[Counter[str], Counter[str]]:
    """Seconds and tokens of each way, a few cases at a time, so that a busy moment of the machine falls on all."""
    rendering = unified.load().rendering
    seconds: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for start in range(0, len(cases), at_a_time):
        some = cases[start : start + at_a_time]
        before = unified.tokens, sum(judge.tokens for judge in apart)
        spent, found = timed(lambda some=some: asyncio.run(unified.judge(some)))
        seconds["unified"] += spent
        for judge in apart:
            seconds["apart"] += timed(lambda judge=judge, some=some: asyncio.run(judge.judge(some)))[0]
        tokens["unified"] += unified.tokens - before[0]
        tokens["apart"] += sum(judge.tokens for judge in apart) - before[1]
        asked = [each for case, said in zip(some, found, strict=True) for each in one_by_one(rendering, case, said)]
        tokens["turns"] += sum(map(len, asked))
        if turns:
            seconds["turns"] += timed(lambda asked=asked: encode(rendering, asked))[0]
    return seconds, tokens


def groups(histories: int, candidates: int, seed: int = 1) -> list[Case]:
    """Moments of the gold set; further candidates take steps and replies that were written for others."""
    rng = Random(seed)
    known = [case_of(item) for item in gold.load("en")]
    found: list[Case] = []
    for case in rng.sample(known, histories):
        found.append(case)
        for number in range(1, candidates):
            first, second, third = (rng.choice(known).steps[place] for place in range(3))
            reply = rng.choice(known).reply
            found.append(
                msgspec.structs.replace(case, id=f"{case.id}/{number}", steps=(first, second, third), reply=reply)
            )
    return found


def one_by_one(rendering: ChatRendering, case: Case, found: Judgement) -> list[list[int]]:
    """The questions on a case as four requests, each with all that came before it."""
    (thread,) = threads(case, "unified", found.pairs[0].candidate_first)
    answers = [STEP_WORDS[case.language][step.value is True] for step in found.steps]
    return rendering.tokens([messages(thread, answers[:asked]) for asked in range(len(thread.turns))])


def encode(rendering: ChatRendering, turns: Sequence[list[int]], batch: int = 4) -> None:
    """Encode conversations whole, those of like length together: what a server without a prefix cache has to do."""
    import torch

    ordered = sorted(turns, key=len)
    for start in range(0, len(ordered), batch):
        rows = ordered[start : start + batch]
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        ends = torch.tensor(sorted({len(row) - 1 for row in rows}))
        with torch.inference_mode():
            rendering.model(input_ids=ids, attention_mask=mask, logits_to_keep=ends, use_cache=False)


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = action()
    return time.perf_counter() - started, result
