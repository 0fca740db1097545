"""The sweep over tau's multiplier: runs that are made once, the comparison, the front."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from runs.sweep import Point, Value, main, marked, point, sweep, table
from tests.policy.demonstrations import items

from compeer.dialogue import write_rows
from compeer.errors import UserError
from compeer.policy.grpo.config import GrpoConfig, config_of


def config(folder: Path, model: Path = Path("somewhere"), **more: Any) -> GrpoConfig:
    write_rows(folder / "items.jsonl", items())
    raw = {
        "out": str(folder / "unused"), "model": str(model), "data": [str(folder / "items.jsonl")], "device": "cpu",
        "reward": {"source": "rules"}, "length": "brief", "max_prompt": 400, "max_completion": 8, "batch": 2, "group": 2,
        "steps": 2, "learning_rate": 1e-4, "rollout": "transformers",
    }  # fmt: skip
    return config_of(raw | more)


def logged(folder: Path, rewards: list[float], distinct: float, likeness: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "step": at + 1,
            "reward/total": reward,
            "diversity/distinct_2": distinct,
            "diversity/self_similarity": likeness,
        }
        for at, reward in enumerate(rewards)
    ]
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, [*lines, {"step": len(lines), "train_loss": 0}])))


def test_each_multiplier_has_its_run_and_0_is_without_reweighting(tmp_path: Path) -> None:
    made: list[GrpoConfig] = []

    def train(one: GrpoConfig) -> dict[str, Any]:
        made.append(one)
        logged(Path(one.out), [1.0] * 40 + [one.reward.tau_scale] * 10, 0.2 * len(made), 0.9 - 0.2 * len(made))
        return {}

    points = sweep(config(tmp_path), [2, 0, 0.5], tmp_path / "sweep", train=train)
    assert [(one.out, one.reward.reweight, one.reward.tau_scale) for one in made] == [
        (str(tmp_path / "sweep" / "tau-0"), False, 1.0),
        (str(tmp_path / "sweep" / "tau-0.5"), True, 0.5),
        (str(tmp_path / "sweep" / "tau-2"), True, 2.0),
    ]
    assert [(one.tau, one.steps, one.reward.mean) for one in points] == [(0, 50, 1.0), (0.5, 50, 0.5), (2, 50, 2.0)]
    assert [one.front for one in points] == [False, False, True]
    found = json.loads((tmp_path / "sweep" / "sweep.json").read_text())
    assert [row["distinct_2"]["mean"] for row in found] == pytest.approx([0.2, 0.4, 0.6])
    assert table(points) in (tmp_path / "sweep" / "sweep.md").read_text()
    assert (tmp_path / "sweep" / "sweep.png").read_bytes()[:4] == b"\x89PNG"


def at(tau: float, reward: float, distinct: float) -> Point:
    some = Value(0.5, 0.0)
    return Point(
        tau=tau, run="", steps=1, reward=Value(reward, 0.1), distinct_2=Value(distinct, 0.0), self_similarity=some
    )


def test_the_front_holds_what_nothing_beats_in_both() -> None:
    points = marked([at(0, 5.0, 0.1), at(0.5, 4.5, 0.3), at(1, 4.0, 0.3), at(2, 3.0, 0.6), at(3, 3.0, 0.6)])
    assert [one.front for one in points] == [True, True, False, True, True]
    assert "| 0.5 | 1 | 4.500 ± 0.100 | 0.300 ± 0.000 | 0.500 ± 0.000 | yes |" in table(points)


def test_only_the_last_steps_count_with_their_standard_error(tmp_path: Path) -> None:
    logged(tmp_path, [9.0] * 90 + [1.0, 3.0] * 10, 0.5, 0.5)
    found = point(1.0, tmp_path)
    assert found.reward.mean == pytest.approx((9.0 * 2 + 40.0) / 22), "a fifth of 110"
    assert found.reward.error > 0
    assert found.distinct_2 == Value(0.5, 0.0)


def test_what_cannot_be_swept_is_refused(tmp_path: Path) -> None:
    for wrong in ([], [-1.0], [float("nan")]):
        with pytest.raises(UserError, match="numbers of at least 0"):
            sweep(config(tmp_path), wrong, tmp_path)
    with pytest.raises(UserError, match="given twice"):
        sweep(config(tmp_path), [1, 1.0], tmp_path)
    ur = msgspec.structs.replace(config(tmp_path), variant="ur")
    with pytest.raises(UserError, match="has no reweighting to vary"):
        sweep(ur, [1.0], tmp_path)
    with pytest.raises(UserError, match="no metrics to compare"):
        point(1.0, tmp_path / "nowhere")


def test_real_runs_are_made_once_and_taken_as_they_are_the_second_time(
    tiny_model_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "grpo.yaml"
    file.write_bytes(msgspec.yaml.encode(msgspec.to_builtins(config(tmp_path, tiny_model_dir))))
    words = [str(file), "--tau", "0,1", "--out", str(tmp_path / "sweep"), "--json"]
    main(words)
    capsys.readouterr()
    results = [path / "model" / "model.safetensors" for path in sorted((tmp_path / "sweep").glob("tau-*"))]
    before = [path.stat().st_mtime_ns for path in results]
    assert len(before) == 2
    main(words)
    assert [path.stat().st_mtime_ns for path in results] == before
    assert json.loads(capsys.readouterr().out)[0]["steps"] == 2
    with pytest.raises(UserError, match="--tau is a list of numbers"):
        main([*words[:2], "one,two", *words[3:]])
