"""The plan of a training, before any model is loaded: batches that add up, rows that are not cut off."""

from __future__ import annotations

import pkgutil
from array import array
from pathlib import Path

import pytest

from compeer.errors import UserError
from compeer.training.encode import Example
from compeer.training.sft import ATTRIBUTES, INTERNALS, Plan, _check, micro_batch


@pytest.mark.parametrize(
    ("plan", "gpu", "each", "expected"),
    [
        (Plan(), True, 1, (8, 8)),
        (Plan(), True, 8, (8, 1)),
        (Plan(), False, 1, (4, 16)),
        (Plan(batch_size=6), False, 1, (3, 2)),
        (Plan(batch_size=7), True, 1, (7, 1)),
        (Plan(batch_size=64, micro_batch=1), True, 4, (1, 16)),
    ],
)
def test_micro_batches_times_steps_times_processes_is_the_batch(
    plan: Plan, gpu: bool, each: int, expected: tuple[int, int]
) -> None:
    micro, accumulated = micro_batch(plan, gpu, each)
    assert (micro, accumulated) == expected and micro * accumulated * each == plan.batch_size


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(UserError, match="batch_size 64 cannot be divided among 6 processes"):
        micro_batch(Plan(), True, 6)
    with pytest.raises(UserError, match="micro_batch 3 does not divide the 64 rows"):
        micro_batch(Plan(micro_batch=3), True, 1)


def test_rows_that_are_too_long_are_refused_and_counted() -> None:
    short, long = Example(array("i", [1] * 10), ((8, 10),)), Example(array("i", [1] * 30), ((8, 10),))
    _check([short], [], 10)
    with pytest.raises(UserError, match=r"2 rows are longer than max_length 20 \(the longest has 30 tokens\)"):
        _check([short, long], [long], 20)
    with pytest.raises(UserError, match="nothing to train on"):
        _check([], [short], 20)


@pytest.mark.parametrize("name", INTERNALS)
def test_the_internals_of_the_trainers_are_where_they_were(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None, INTERNALS[name]


def test_so_are_the_attributes() -> None:
    import trl.trainer.sft_trainer as module

    source = Path(module.__file__).read_text(encoding="utf-8")
    for name, reason in ATTRIBUTES.items():
        assert f"self.{name}" in source, reason
