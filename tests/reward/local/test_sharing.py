"""A history, an instruction and a pair are read as few times as they can be."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.reward.groups import groups
from tests.reward.local.comparing import assert_like, close, judged
from tests.reward.reference import Reference

from compeer.reward.case import Case
from compeer.reward.judge import Judgement
from compeer.reward.local_judge import LocalJudge
from compeer.reward.local_scoring import ChatRendering


class TestSharing:
    def test_a_group_costs_a_fraction_of_separate_turns(self, tiny_model_dir: Path, reference: Reference) -> None:
        """64 histories x 4 candidates, counted in tokens against four turns that each read all that came before."""
        cases = groups(64, 4)
        judge = LocalJudge(str(tiny_model_dir), device="cpu", batch=32)
        found = asyncio.run(judge.judge(cases))
        rendered = judge.load().rendering
        separate = 0
        for case, judgement in zip(cases, found, strict=True):
            separate += turns_apart(rendered, case, judgement)
        assert sum(judgement.tokens for judgement in found) == judge.tokens
        assert judge.tokens <= 0.4 * separate, f"{judge.tokens / separate:.1%}"
        before = reference.tokens
        for number in range(0, len(cases), 64):
            assert_like(found[number], cases[number], "unified", reference)
        counted = sum(turns_apart(rendered, cases[n], found[n]) for n in range(0, len(cases), 64))
        assert reference.tokens - before == counted, "and that is what a judge without a cache encodes"

    def test_the_second_order_costs_only_its_pair(self, tiny_model_dir: Path) -> None:
        cases = groups(4, 4, "en")
        one = sum(judgement.tokens for judgement in judged(tiny_model_dir, cases))
        both = sum(judgement.tokens for judgement in judged(tiny_model_dir, cases, "both"))
        assert one < both < 1.4 * one

    def test_a_prm_reads_its_history_once(self, tiny_model_dir: Path) -> None:
        cases = groups(4, 4, "en")
        unified = sum(judgement.tokens for judgement in judged(tiny_model_dir, cases))
        prm = sum(judgement.tokens for judgement in judged(tiny_model_dir, cases, kind="prm"))
        orm = sum(judgement.tokens for judgement in judged(tiny_model_dir, cases, kind="orm"))
        assert unified < prm + orm

    def test_the_instruction_is_kept_from_call_to_call(self, tiny_model_dir: Path) -> None:
        cases = groups(1, 2, "en")
        judge = LocalJudge(str(tiny_model_dir), device="cpu")

        async def twice() -> tuple[list[Judgement], list[Judgement]]:
            return await judge.judge(cases), await judge.judge(cases)

        first, second = asyncio.run(twice())
        close(second, first)
        spared = sum(j.tokens for j in first) - sum(j.tokens for j in second)
        assert spared == len(judge.load().rendering.opening(system_of(cases[0])))


def turns_apart(rendered: ChatRendering, case: Case, judgement: Judgement) -> int:
    """Tokens of the four questions, each asked in a request of its own with all that came before it."""
    from compeer.reward.conversation import messages, threads
    from compeer.reward.verdict import STEP_WORDS

    (thread,) = threads(case, "unified", judgement.pairs[0].candidate_first)
    answers = [STEP_WORDS[case.language][step.value is True] for step in judgement.steps]
    return sum(len(tokens) for tokens in rendered.tokens([messages(thread, answers[:n]) for n in range(4)]))


def system_of(case: Case) -> str:
    from compeer.reward.conversation import system_prompt

    return system_prompt("unified", case.language)
