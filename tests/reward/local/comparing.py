"""Asking the local judge, and comparing what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.reward.reference import Reference

from compeer.cer.item import QUESTIONS
from compeer.reward.case import Case
from compeer.reward.judge import Judgement, Orders
from compeer.reward.local_judge import LocalJudge
from compeer.reward.verdict import Kind

NEAR = 1e-4


def painted(path: Path, colour: tuple[int, int, int], size: tuple[int, int]) -> str:
    from PIL import Image

    image = Image.new("RGB", size, colour)
    image.putpixel((3, 5), (0, 255, 0))
    image.save(path)
    return str(path)


def judged(folder: Path | str, cases: Sequence[Case], orders: Orders = "one", **options: Any) -> list[Judgement]:
    return asyncio.run(LocalJudge(str(folder), device="cpu", **options).judge(cases, orders=orders))


def assert_like(judgement: Judgement, case: Case, kind: Kind, reference: Reference) -> None:
    """Every verdict is the reference's, with its probability, and there is no verdict more."""
    assert judgement.failure is None
    shown = [pair.candidate_first for pair in judgement.pairs]
    expected: dict[Any, dict[Any, float]] = {}
    for first in shown or [True]:
        expected |= reference.judge(case, kind, first)
    for question, step in zip(QUESTIONS[:3], judgement.steps, strict=True):
        if question in expected:
            assert step.p == pytest.approx(expected[question][True], abs=NEAR), question
            assert step.value is (expected[question][True] >= 0.5)
        else:
            assert (step.value, step.p) == (None, None)
    assert ("preference", True) in expected or ("preference", False) in expected or not shown
    for pair in judgement.pairs:
        by_origin = expected["preference", pair.candidate_first]
        assert pair.p == pytest.approx(by_origin, abs=NEAR)
        assert pair.preference == max(by_origin, key=lambda name: by_origin[name])


def close(one: Sequence[Judgement], other: Sequence[Judgement], by: float = 1e-5) -> None:
    """The same verdicts, the same probabilities up to rounding."""
    for mine, theirs in zip(one, other, strict=True):
        assert mine.id == theirs.id
        assert mine.failure is None
        assert [step.value for step in mine.steps] == [step.value for step in theirs.steps]
        assert [step.p for step in mine.steps] == [pytest.approx(step.p, abs=by) for step in theirs.steps]
        assert [pair.preference for pair in mine.pairs] == [pair.preference for pair in theirs.pairs]
        assert [pair.p for pair in mine.pairs] == [pytest.approx(pair.p, abs=by) for pair in theirs.pairs]
