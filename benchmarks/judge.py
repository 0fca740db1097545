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
from compeer.reward.homes.local import LocalJudge
from compeer.reward.homes.rendering import Rendering
from compeer.reward.homes.walk import Walk
from compeer.reward.judge import Judgement
from compeer.reward.verdict import STEP_WORDS, Kind


def run(histories: int = 8, candidates: int = 4, at_a_time: int = 4, model: str = "embedded") -> list[Ratio]:
    unified = LocalJudge(model)
    rendering = unified.load().rendering
    kinds: tuple[Kind, ...] = ("prm", "orm")
    apart = [LocalJudge(model, kind=kind) for kind in kinds]
    for judge in apart:  # one copy of the weights for all
        judge._walk, judge.max_length = Walk(rendering, judge.batch, explain=False), unified.max_length
    cases = groups(histories + 1, candidates)
    for judge in (unified, *apart):  # warm, and with its instruction encoded
        asyncio.run(judge.judge(cases[:1]))
    seconds: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for start in range(candidates, len(cases), at_a_time * candidates):
        some = cases[start : start + at_a_time * candidates]
        before = unified.tokens, sum(judge.tokens for judge in apart)
        spent, found = timed(lambda some=some: asyncio.run(unified.judge(some)))
        seconds["unified"] += spent
        for judge in apart:
            seconds["apart"] += timed(lambda judge=judge, some=some: asyncio.run(judge.judge(some)))[0]
        turns = [
            turn for case, verdicts in zip(some, found, strict=True) for turn in one_by_one(rendering, case, verdicts)
        ]
        seconds["turns"] += timed(lambda turns=turns: encode(rendering, turns))[0]
        tokens["unified"] += unified.tokens - before[0]
        tokens["apart"] += sum(judge.tokens for judge in apart) - before[1]
        tokens["turns"] += sum(map(len, turns))
    what = f"{histories} x {candidates} judgements"
    time_: dict[str, Any] = {"unit": "s", "ours": seconds["unified"], "at_least": False}
    count: dict[str, Any] = {"unit": "tokens", "ours": tokens["unified"], "at_least": False}
    pair, turn = "PRM + ORM", "four separate turns"
    return [
        Ratio(what=f"{what}, unified", theirs=seconds["apart"], against=pair, wanted=1.0, **time_),
        Ratio(what=f"{what}, unified", theirs=tokens["apart"], against=pair, **count),
        Ratio(what=f"{what}, shared history", theirs=seconds["turns"], against=turn, **time_),
        Ratio(what=f"{what}, shared history", theirs=tokens["turns"], against=turn, wanted=0.4, **count),
    ]


def groups(histories: int, candidates: int) -> list[Case]:
    """Moments of the gold set; further candidates take steps and replies that were written for others."""
    rng = Random(1)
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


def one_by_one(rendering: Rendering, case: Case, found: Judgement) -> list[list[int]]:
    """The questions on a case as four requests, each with all that came before it."""
    (thread,) = threads(case, "unified", found.pairs[0].candidate_first)
    answers = [STEP_WORDS[case.language][step.value is True] for step in found.steps]
    return rendering.tokens([messages(thread, answers[:asked]) for asked in range(len(thread.turns))])


def encode(rendering: Rendering, turns: Sequence[list[int]], batch: int = 16) -> None:
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
