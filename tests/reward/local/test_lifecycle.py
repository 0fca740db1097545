"""A judge among other work: callers, attacks, nothing to do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.reward.attacks import ATTACKS
from tests.reward.groups import gold_cases, groups, varied
from tests.reward.local.comparing import judged

from compeer.reward.case import drop_oldest_turns
from compeer.reward.judge import Judgement
from compeer.reward.local_judge import LocalJudge


class TestLiving:
    def test_other_work_goes_on_meanwhile(self, tiny_model_dir: Path) -> None:
        judge = LocalJudge(str(tiny_model_dir), device="cpu", batch=4)

        async def scenario() -> int:
            await judge.judge(groups(1, 1))  # loaded
            task = asyncio.create_task(judge.judge(groups(16, 4)))
            breaths = 0
            while not task.done():
                await asyncio.sleep(0.001)
                breaths += 1
            assert all(judgement.failure is None for judgement in task.result())
            return breaths

        assert asyncio.run(scenario()) > 50

    def test_several_callers_and_an_impatient_one(self, tiny_model_dir: Path) -> None:
        judge = LocalJudge(str(tiny_model_dir), device="cpu", batch=4)
        cases = groups(16, 4)

        async def scenario() -> tuple[list[list[Judgement]], int]:
            await judge.judge(cases[:1])
            before = judge.tokens
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(judge.judge(cases), 0.05)
            answers = await asyncio.gather(judge.judge(cases[:4]), judge.judge(cases[4:8]))
            spent = judge.tokens - before
            await judge.close()
            return answers, spent

        answers, spent = asyncio.run(scenario())
        found = [judgement for answer in answers for judgement in answer]
        assert [judgement.id for judgement in found] == [case.id for case in cases[:8]]
        each = sum(judgement.tokens for judgement in found) / len(found)
        assert spent < 0.5 * each * len(cases), "nobody waited for the rest"

    def test_attacks_are_judged_like_anything_else(self, tiny_model_dir: Path) -> None:
        case = drop_oldest_turns(gold_cases("en")[0], 99)
        cases = [
            msgspec.structs.replace(case, id=str(number), steps=(attack, case.steps[1], attack), reply=attack + "a")
            for number, attack in enumerate(ATTACKS)
        ]
        for found in judged(tiny_model_dir, cases):
            assert found.failure is None
            assert all(step.value is not None for step in found.steps)
            assert len(found.pairs) == 1

    def test_nothing_to_judge_is_no_work(self, tiny_model_dir: Path) -> None:
        empty = varied(groups(1, 5, "en"))[4]
        assert judged(tiny_model_dir, []) == []
        (found,) = judged(tiny_model_dir, [empty])
        assert (found.total, found.tokens, found.failure) == (-5, 0, None)
