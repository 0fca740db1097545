"""What does not fit loses its oldest turns, and no more."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.reward.groups import gold_cases, groups
from tests.reward.local.comparing import close, judged

from compeer.reward.case import Case, drop_oldest_turns
from compeer.reward.local_judge import LocalJudge


class TestLength:
    def test_a_long_history_loses_its_oldest_turns_and_no_more(self, tiny_model_dir: Path) -> None:
        case = max(gold_cases("en"), key=lambda case: len(case.history))
        judge = LocalJudge(str(tiny_model_dir), device="cpu")
        limit = longest(judge, case) - 40
        expected = next(
            less for less in (drop_oldest_turns(case, n) for n in range(9)) if longest(judge, less) <= limit
        )
        assert 0 < expected.left_out < len(case.history) - 1
        close(judged(tiny_model_dir, [case], max_length=limit), judged(tiny_model_dir, [expected]))

    def test_a_reply_without_end_is_cut(self, tiny_model_dir: Path) -> None:
        case = msgspec.structs.replace(gold_cases("en")[0], reply="You matter. " * 3000)
        (found,) = judged(tiny_model_dir, [case], max_length=2500)
        assert found.failure is None
        assert found.tokens <= 2500
        assert found.preference is not None

    def test_one_long_case_does_not_shorten_its_neighbours(self, tiny_model_dir: Path) -> None:
        cases = groups(1, 3, "en")
        long = msgspec.structs.replace(cases[1], reply="You matter. " * 3000)
        alone = judged(tiny_model_dir, [cases[0], cases[2]], max_length=2500)
        among = judged(tiny_model_dir, [cases[0], long, cases[2]], max_length=2500)
        close([among[0], among[2]], alone)

    def test_no_room_at_all_is_a_failure_in_words(self, tiny_model_dir: Path) -> None:
        (found,) = judged(tiny_model_dir, [gold_cases("en")[0]], max_length=100)
        assert "too small" in (found.failure or "")


def longest(judge: LocalJudge, case: Case) -> int:
    """Tokens of the conversation with the longest answers."""
    from compeer.reward.conversation import messages, threads

    (thread,) = threads(case, "unified", True)
    answers = ["False."] * 3 + ["The two sentences are almost good."]
    return len(judge.load().rendering.tokens([messages(thread, answers)], waiting=False)[0])
