"""What a judgement costs: one unified judge against PRM and ORM, and a shared history against separate turns.

The same weights (the embedded model in transformers) judge the same groups in turn, in one process. Tokens are counted,
time is the median of the rounds. The paper's unified judge takes 12.5 % longer than PRM and ORM; sharing the history
among the turns should make it take no longer.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from benchmarks.measure import Ratio
from compeer.cer import gold
from compeer.reward.case import Case, case_of
from compeer.reward.conversation import Thread, messages, threads
from compeer.reward.judge import Judgement
from compeer.reward.local import LocalJudge
from compeer.reward.rendering import Rendering
from compeer.reward.verdict import STEP_WORDS, Kind


def run(histories: int = 8, candidates: int = 4, rounds: int = 3) -> list[Ratio]:
    cases = groups(histories, candidates)
    unified = LocalJudge("embedded")
    rendering = unified.load().rendering
    kinds: tuple[Kind, ...] = ("prm", "orm")
    apart = [LocalJudge("embedded", kind=kind) for kind in kinds]
    for judge in apart:  # one copy of the weights for all
        judge.max_length = unified.max_length
        judge._walk = type(unified.load())(rendering, judge.batch, explain=False)

    def together() -> list[Judgement]:
        return asyncio.run(unified.judge(cases))

    def prm_and_orm() -> None:
        for judge in apart:
            asyncio.run(judge.judge(cases))

    verdicts = together()  # warm, with the instructions encoded
    prm_and_orm()
    turns = [turn for case, found in zip(cases, verdicts, strict=True) for turn in separate(rendering, case, found)]
    before = unified.tokens, sum(judge.tokens for judge in apart)
    seconds: dict[str, list[float]] = {"unified": [], "apart": [], "turns": []}
    for _ in range(rounds):
        seconds["unified"].append(timed(together))
        seconds["apart"].append(timed(prm_and_orm))
        seconds["turns"].append(timed(lambda: encode(rendering, turns)))
    ours, theirs, each = (statistics.median(seconds[name]) for name in ("unified", "apart", "turns"))
    tokens = (unified.tokens - before[0]) / rounds
    tokens_apart = (sum(judge.tokens for judge in apart) - before[1]) / rounds
    what = f"{histories} x {candidates} judgements"
    time_, count = {"unit": "s", "at_least": False}, {"unit": "tokens", "at_least": False}
    one, shared = f"{what}, unified", f"{what}, shared history"
    turn_tokens = sum(map(len, turns))
    return [
        Ratio(what=one, ours=ours, theirs=theirs, against="PRM + ORM", wanted=1.0, **time_),
        Ratio(what=one, ours=tokens, theirs=tokens_apart, against="PRM + ORM", **count),
        Ratio(what=shared, ours=ours, theirs=each, against="four separate turns", **time_),
        Ratio(what=shared, ours=tokens, theirs=turn_tokens, against="four separate turns", wanted=0.4, **count),
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


def separate(rendering: Rendering, case: Case, found: Judgement) -> list[list[int]]:
    """The questions on a case as four requests, each with all that came before it."""
    thread: Thread
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


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started
