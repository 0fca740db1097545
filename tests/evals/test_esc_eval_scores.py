"""ESC-Eval's ratings: a number out of a reply by two rules, and tables out of official score files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.command import compeer

from compeer.evals.esc_eval import figures, official, proper
from compeer.evals.result import DIMENSIONS, Transcript

#: reply, properly, by the official rule
REPLIES = [
    ("3", 3, 3),
    (" 4\n", 4, 4),
    ("0", 0, 0),
    ("Score: 3", 3, 3),
    ("**Rating:** 2", 2, 2),
    ("评分：3分", 3, 3),
    ("三分", 3, -1),
    ("两分", 2, -1),
    ("四", 4, -1),
    ("３", 3, -1),  # a full-width digit
    ("4 out of 10", None, 0),  # another scale is no answer
    ("4 out of 4", 4, 4),
    ("3/4", 3, 3),
    ("10", None, 0),
    ("5", None, -1),
    ("-1", None, 1),
    ("2.5", None, 2),
    ("3.0", 3, 0),
    ("On the scale from 0 to 4 I give 3", 3, 0),
    ("0-4: 2", 2, 0),
    ("It is a 2 or a 3.", None, 2),
    ("I would say two.", 2, -1),
    ("Step 1: he listens. Score: 4", 4, 1),
    ("no idea", None, -1),
    ("", None, -1),
]


@pytest.mark.parametrize(("reply", "ours", "theirs"), REPLIES)
def test_a_rating_is_read_properly_and_by_the_official_rule(reply: str, ours: int | None, theirs: int) -> None:
    assert (proper(reply), official(reply)) == (ours, theirs)


ROW = {"fluency": 3, "diversity": 3, "empathic": 3, "suggestion": 3, "human": 1, "tech": 3, "overall": 2}


def tables(folder: Path, *options: str) -> dict[tuple[str, str], dict[str, float]]:
    done = compeer("eval", "esc-eval", "--scores", str(folder), "--json", *options)
    assert done.returncode == 0, done.stderr
    return {
        (one["model"], one["language"]): {figure["name"]: figure["value"] for figure in one["figures"]}
        | {"failures": one["failures"], "cards": one["cards"]}
        for one in json.loads(done.stdout)
    }


def test_score_files_become_columns_times_25_and_their_plain_mean(tmp_path: Path) -> None:
    (tmp_path / "alpha_en.json").write_text(json.dumps({"0": ROW, "1": ROW | {"human": 3, "fluency": -1}}))
    (tmp_path / "alpha_zh.json").write_text(json.dumps({"0": ROW | {"overall": 4}}))
    (tmp_path / "beta").mkdir()
    (tmp_path / "beta" / "score_english.json").write_text(json.dumps({"0": dict.fromkeys(DIMENSIONS, 4)}))
    found = tables(tmp_path)
    assert set(found) == {("alpha", "en"), ("alpha", "zh"), ("alpha", "pooled"), ("beta", "en"), ("beta", "pooled")}
    english = found["alpha", "en"]
    assert (english["Fluency"], english["Humanoid"], english["Overall"]) == (75.0, 50.0, 50.0)  # -1 is left out
    assert (english["cards"], english["failures"]) == (2, 1)
    assert english["Average"] == pytest.approx((75 * 5 + 50 + 50) / 7)
    pooled = found["alpha", "pooled"]
    assert pooled["Overall"] == pytest.approx((2 + 2 + 4) / 3 * 25) and pooled["cards"] == 3
    assert found["beta", "en"]["Average"] == 100.0
    assert tables(tmp_path, "--official-parser")["alpha", "en"]["Fluency"] == 25.0  # (3 - 1) / 2 * 25


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("alpha.json", {"0": ROW}, "language"),
        ("alpha_en.json", {"0": {"fluency": 3}}, "diversity"),
        ("alpha_en.json", {"0": ROW | {"tech": 7}}, "tech 7"),
        ("alpha_en.json", [1], "alpha_en.json"),
        ("notes.txt", {}, "no .json files"),
    ],
)
def test_a_folder_that_cannot_be_read_says_why(tmp_path: Path, name: str, content: object, told: str) -> None:
    (tmp_path / name).write_text(json.dumps(content))
    done = compeer("eval", "esc-eval", "--scores", str(tmp_path))
    assert done.returncode == 1 and told in done.stderr and "Traceback" not in done.stderr


def test_judges_are_kept_apart_and_averaged() -> None:
    def card(name: str, language: str, first: int, second: int | None) -> Transcript:
        scores: dict[str, float | None] = {f"a/{key}": first for key in DIMENSIONS}
        return Transcript(name, language, (), scores | {f"b/{key}": second for key in DIMENSIONS})

    found = {one.name: one.value for one in figures([card("1", "en", 4, 2), card("2", "zh", 2, None)])}
    assert (found["a/Fluency"], found["b/Fluency"], found["Fluency"]) == (75.0, 50.0, 62.5)
    assert (found["en/Average"], found["zh/Average"], found["a/en/Average"]) == (75.0, 50.0, 100.0)
    assert found["Average"] == 62.5
