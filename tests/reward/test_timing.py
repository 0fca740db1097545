"""The time study: judges take turns, sums and ratios are right, a real run is complete."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.reward.evaluation.hand_made import load
from typer.testing import CliRunner

from compeer.cli import app
from compeer.dialogue import write_rows
from compeer.errors import UserError
from compeer.reward.timing import Lap, paces, time_study


def laps(first: list[float], second: list[float]) -> list[Lap]:
    made = []
    for number, (one, two) in enumerate(zip(first, second, strict=True)):
        made += [Lap("apart", number, 0, 4, one, 100, 0), Lap("unified", number, 1, 4, two, 80, 1)]
    return made


def test_times_are_summed_before_they_are_divided() -> None:
    apart, unified = paces(["apart", "unified"], laps([1.0, 3.0], [2.0, 2.5]))
    assert apart.seconds_a_case.value == 4.0 / 8 and unified.seconds_a_case.value == 4.5 / 8
    assert apart.ratio.value == 1.0 and unified.ratio.value == 4.5 / 4.0
    assert (apart.tokens_a_case, unified.tokens_a_case, unified.failures) == (25.0, 20.0, 2)


def test_the_interval_of_the_ratio_comes_from_batches_with_both_times() -> None:
    """A machine whose speed wavers does not widen the ratio when both judges waver together."""
    wavering = [1.0, 5.0, 2.0, 9.0, 1.5, 7.0]
    _, unified = paces(["apart", "unified"], laps(wavering, [1.1 * value for value in wavering]))
    assert unified.ratio.value == pytest.approx(1.1)
    assert unified.ratio.low is None and unified.ratio.high is None  # every resample gives the same ratio
    assert (unified.seconds_a_case.high or 0) > 1.5 * (unified.seconds_a_case.low or 0)


def test_real_judges_take_turns_on_the_same_cases(tmp_path: Path, tiny_model_dir: Path) -> None:
    items, _ = load()
    source = tmp_path / "items.jsonl"
    write_rows(source, items[:6])
    tiny = f"hf:{tiny_model_dir}"
    words = ["reward", "timing", str(source), "--model", f"apart={tiny},{tiny}", "--model", f"unified={tiny}"]
    outcome = CliRunner().invoke(
        app, [*words, "--batch", "2", "--rounds", "2", "--out", str(tmp_path / "time"), "--json"]
    )
    assert outcome.exit_code == 0, outcome.output
    told = json.loads((tmp_path / "time" / "timing.json").read_bytes())
    assert told["cases"] == 6 and [pace["name"] for pace in told["paces"]] == ["apart", "unified"]
    assert Counter((lap["judge"], lap["place"]) for lap in told["laps"]) == {
        ("apart", 0): 3, ("apart", 1): 3, ("unified", 0): 3, ("unified", 1): 3,
    }  # fmt: skip
    assert sum(lap["cases"] for lap in told["laps"] if lap["judge"] == "unified") == 12
    assert all(lap["seconds"] > 0 and lap["failures"] == 0 for lap in told["laps"])
    apart, unified = told["paces"]
    assert (
        apart["ratio"]["value"] == 1.0 and unified["tokens_a_case"] < apart["tokens_a_case"]
    )  # the history is read once
    assert (tmp_path / "time" / "timing.png").stat().st_size > 8_000
    assert "12.5 %" in (tmp_path / "time" / "timing.md").read_text()


def test_a_study_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="at least one judge"):
        time_study({}, [])
