"""The plan: every comparison once, sides and pairs balanced, at any moment and for every person."""

from __future__ import annotations

from collections import Counter

import pytest

from compeer.errors import UserError
from compeer.people.arena import Slot, choose, plan


@pytest.mark.parametrize(
    ("cases", "models", "votes", "focus"), [(50, 4, 1, None), (7, 3, 2, None), (5, 4, 3, 2), (1, 2, 1, None)]
)
def test_every_pair_meets_on_every_case_and_sides_differ_by_at_most_one(
    cases: int, models: int, votes: int, focus: int | None
) -> None:
    for seed in range(20):
        slots = plan(cases, models, votes=votes, focus=focus, seed=seed)
        pairs = {(a, b) for a in range(models) for b in range(a + 1, models) if focus is None or focus in (a, b)}
        expected = {(case, *pair, place + 1) for case in range(cases) for pair in pairs for place in range(votes)}
        assert {(slot.case, slot.one, slot.two, slot.place) for slot in slots} == expected
        assert len(slots) == len(expected)
        for pair in pairs:
            left = [slot.one_left for slot in slots if (slot.one, slot.two) == pair]
            assert abs(2 * sum(left) - len(left)) <= 1, pair


def test_the_same_seed_gives_the_same_plan_and_another_seed_another() -> None:
    assert plan(20, 4, seed=5) == plan(20, 4, seed=5) != plan(20, 4, seed=6)


def test_an_arena_that_is_stopped_early_has_compared_all_pairs_equally_often() -> None:
    slots = plan(50, 4, seed=1)
    for end in (6, 60, 150):
        seen = Counter((slot.one, slot.two) for slot in slots[:end])
        assert set(seen.values()) == {end // 6}
    # a quarter of it has seen half of the cases at least, and not some of them over and over
    assert len({slot.case for slot in slots[:75]}) >= 25


@pytest.mark.parametrize("seed", range(5))
def test_each_of_three_people_sees_each_model_on_both_sides_about_as_often(seed: int) -> None:
    free, had = plan(50, 4, seed=seed), {name: list[Slot]() for name in "abc"}
    while free:
        for record in had.values():
            ahead = [
                slot for slot in free if (slot.case, slot.one, slot.two) not in {(s.case, s.one, s.two) for s in record}
            ]
            if ahead:
                chosen = ahead[choose(ahead[:36], record)]
                record.append(chosen)
                free.remove(chosen)
    for record in had.values():
        assert len(record) == 100
        for model in range(4):
            left, right = (sum(getattr(slot, side) == model for slot in record) for side in ("left", "right"))
            assert abs(left - right) <= 4, (model, left, right)
        pairs = Counter((slot.one, slot.two) for slot in record)
        assert max(pairs.values()) - min(pairs.values()) <= 6, pairs
        assert len({slot.case for slot in record}) == 50, "nobody reads one case six times while others wait"


def test_one_model_alone_is_no_comparison() -> None:
    with pytest.raises(UserError, match="at least two models"):
        plan(5, 1)
