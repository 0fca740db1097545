"""Pictures: in one run with other cases, once for a group, and lost ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reward.groups import gold_cases, groups, with_pictures
from tests.reward.local.comparing import assert_like, judged, painted
from tests.reward.reference import Reference

from compeer.reward.verdict import Kind


class TestPictures:
    def test_cases_with_and_without_pictures_in_one_run(
        self, tiny_vision_dir: Path, seeing: Reference, photo: str, tmp_path: Path, wide: None
    ) -> None:
        other = painted(tmp_path / "other.png", (10, 30, 200), (140, 56))
        first, second, third = groups(1, 2, "en"), groups(1, 2, "zh", seed=2), groups(2, 1, "en", seed=3)
        cases = [
            *(with_pictures(case, photo, other) for case in first),
            *second,
            with_pictures(third[0], other),
            third[1],
        ]
        found = judged(tiny_vision_dir, cases, "both")
        for judgement, case in zip(found, cases, strict=True):
            assert_like(judgement, case, "unified", seeing)
        unseen = judged(tiny_vision_dir, first, "both")
        assert unseen[0].steps[0].p != pytest.approx(found[0].steps[0].p, abs=1e-3), "the pictures matter"

    @pytest.mark.parametrize("kind", ["prm", "orm"])
    def test_the_baselines_see_them_too(self, kind: Kind, tiny_vision_dir: Path, seeing: Reference, photo: str) -> None:
        case = with_pictures(gold_cases("en")[5], photo)
        (judgement,) = judged(tiny_vision_dir, [case], "both", kind=kind)
        assert_like(judgement, case, kind, seeing)

    def test_a_picture_is_encoded_once_for_a_group(self, tiny_vision_dir: Path, photo: str) -> None:
        cases = [with_pictures(case, photo) for case in groups(1, 4, "en")]
        without = sum(judgement.tokens for judgement in judged(tiny_vision_dir, groups(1, 4, "en")))
        extra = sum(judgement.tokens for judgement in judged(tiny_vision_dir, cases)) - without
        assert 0 < extra < 2 * (84 // 28) * (112 // 28) + 8

    def test_a_lost_picture_fails_its_own_group_alone(self, tiny_vision_dir: Path, photo: str, tmp_path: Path) -> None:
        good, bad = groups(1, 2, "en"), groups(1, 2, "en", seed=5)
        cases = [
            *good,
            *(with_pictures(case, str(tmp_path / "lost.png")) for case in bad),
            with_pictures(good[0], photo),
        ]
        found = judged(tiny_vision_dir, cases)
        assert ["lost.png" in (judgement.failure or "") for judgement in found] == [False, False, True, True, False]
        assert found[2].total == -3  # nothing but the format counts
        assert all(step.value is not None for judgement in (found[0], found[1], found[4]) for step in judgement.steps)

    def test_a_judge_without_eyes_says_so(self, tiny_model_dir: Path, photo: str) -> None:
        case = gold_cases("en")[0]
        blind, seen = judged(tiny_model_dir, [with_pictures(case, photo), case])
        assert "cannot see images" in (blind.failure or "")
        assert seen.failure is None
