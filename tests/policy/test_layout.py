"""The arithmetic of a step: what is derived, what is refused, and in which words."""

from __future__ import annotations

import pytest

from compeer.errors import UserError
from compeer.policy.grpo.arguments import plan


@pytest.mark.parametrize("processes", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("group", [2, 4, 7])
def test_every_process_gets_whole_groups_and_the_step_keeps_its_size(processes: int, group: int) -> None:
    layout = plan(32, group, processes)
    assert layout.micro_batch * layout.accumulation * processes == 32 * group
    assert layout.share % group == 0
    assert 1 <= layout.micro_batch <= 8


def test_one_of_micro_batch_and_accumulation_gives_the_other() -> None:
    assert (plan(8, 4, 2, micro_batch=4).accumulation, plan(8, 4, 2, accumulation=8).micro_batch) == (4, 2)
    assert plan(8, 4, 2, micro_batch=16, accumulation=1).share == 16
    assert plan(8, 4, 2, micro_batch=2).micro_batch == 2, "a micro batch may hold less than a group"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"batch": 32, "processes": 3}, r"32 prompts x 4 outputs = 128 outputs over 3 processes are 42\.6667 each.*"
                                        r"a group would be split.*30 or 33.*1, 2, 4, 8, 16 or 32 processes"),
        ({"batch": 1, "processes": 2}, r"= 4 outputs over 2 processes are 2 each, which is 0\.5 groups of 4"),
        ({"batch": 4, "micro_batch": 3}, r"= 16 outputs a process, which micro_batch 3 does not divide.*1, 2, 4, 8 or 16"),
        ({"batch": 4, "processes": 2, "micro_batch": 2, "accumulation": 3},
         r"micro_batch 2 x accumulation 3 = 6 outputs a process, but 4 prompts x 4 outputs / 2 processes = 8, "
         r"and 6 is not a multiple of 4.*accumulation to 4"),
        ({"batch": 4, "group": 1}, r"group is 1"),
        ({"batch": 0}, r"batch is 0"),
    ],
)  # fmt: skip
def test_a_layout_that_splits_a_group_is_refused_with_the_arithmetic(asked: dict[str, int], said: str) -> None:
    with pytest.raises(UserError, match=said):
        plan(**({"group": 4} | asked))
