"""The demo with a tiny random model: every stage leaves its result, a killed one goes on, a finished one is told."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console
from tests.cli.command import compeer
from tests.cli.hidden import hide
from tests.demo.tiny import SIZES

from compeer.demo.folder import Sizes, opened
from compeer.demo.story import STAGES, run_demo
from compeer.errors import UserError

NAMES = [stage.name for stage in STAGES]


@pytest.fixture(scope="module")
def patch() -> object:
    """The demo sets variables for its process; here they go again."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def told(home: Path, base: Path) -> str:
    shown = io.StringIO()
    run_demo(home, sizes=SIZES, base=str(base), browser=False, console=Console(file=shown, width=200))
    return shown.getvalue()


@pytest.fixture(scope="module")
def killed(tiny_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo that was killed in the middle of SFT, after a whole checkpoint."""
    home = tmp_path_factory.mktemp("demo") / "demo"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.demo.tiny", str(tiny_model_dir), str(home)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
    )
    while not list(home.glob("sft/checkpoints/checkpoint-*/complete.json")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return home


@pytest.fixture(scope="module")
def finished(killed: Path, tiny_model_dir: Path, patch: object) -> tuple[Path, str]:
    """The same, started again and run to its end."""
    return killed, told(killed, tiny_model_dir)


def test_a_killed_demo_goes_on_where_it_was(finished: tuple[Path, str]) -> None:
    home, shown = finished
    for name, part in zip(NAMES, re.split(r"^\d/6 ", shown, flags=re.MULTILINE)[1:], strict=True):
        assert part.startswith(name) and ("done before, in" in part) == (name in ("data", "judge"))
    sessions = json.loads((home / "sft" / "run.json").read_text())["sessions"]
    assert len(sessions) == 2 and "checkpoint-" in sessions[1]["resumed_from"]


def test_every_stage_says_what_it_does_and_leaves_what_the_commands_leave(
    finished: tuple[Path, str],
) -> None:
    home, shown = finished
    for stage in STAGES:
        assert stage.does in shown and stage.paper in shown and stage.command in shown
    for run in ("judge", "sft", "policy"):
        assert json.loads((home / run / "run.json").read_text())["finished"]
        assert (home / run / "model" / "adapter_model.safetensors").is_file()
    assert len((home / "policy" / "metrics.jsonl").read_text().splitlines()) >= SIZES.grpo_steps
    results = {path.name: json.loads((path / "result.json").read_text()) for path in (home / "results").iterdir()}
    assert {"reward-before", "reward-after", "control-after"} <= set(results)
    assert results["reward-before"]["comparable"] == results["reward-after"]["comparable"]
    kept = next(figure for figure in results["control-after"]["figures"] if figure["name"] == "adherence")
    assert kept["n"] == SIZES.pinned - 1, "one output is left free"
    page = (home / "report" / "report.html").read_text()
    assert "does not show that training helps" in page
    assert str(home / "report" / "report.html") in shown and "compeer chat" in shown and "compeer studio" in shown


def test_no_conversation_is_both_learnt_from_and_measured_on(finished: tuple[Path, str]) -> None:
    def dialogues(name: str) -> set[str]:
        return {json.loads(line)["dialogue"] for line in (finished[0] / "data" / f"{name}.jsonl").open()}

    assert dialogues("moments") and not dialogues("moments") & (dialogues("judge") | dialogues("sft"))
    assert not dialogues("moments") & dialogues("prompts")


def test_a_finished_demo_is_told_and_not_repeated(finished: tuple[Path, str], tiny_model_dir: Path) -> None:
    home = finished[0]
    before = {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()}
    shown = told(home, tiny_model_dir)
    assert shown.count("done before, in") == len(STAGES)
    after = {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()}
    assert after | {home / ".lock": 0} == before | {home / ".lock": 0}


def test_other_settings_and_other_folders_are_refused_and_fresh_clears_only_its_own(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    with opened(home, SIZES, "x") as folder:
        (home / "mine.txt").touch()
        (home / "notes").mkdir()
        assert folder.note("data") is None
        with pytest.raises(UserError, match="Another demo is running"), opened(home, SIZES, "x"):
            pass
    with pytest.raises(UserError, match=r"other settings \(base\)"), opened(home, SIZES, "y"):
        pass
    with opened(home, Sizes(), "y", fresh=True) as folder:
        assert folder.base == "y" and (home / "mine.txt").is_file() and not (home / "notes").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(UserError, match="holds no demo"), opened(tmp_path / "other", SIZES, "x", fresh=True):
        pass


def test_a_light_installation_says_what_is_missing(tmp_path: Path) -> None:
    done = compeer("demo", "--out", str(tmp_path / "demo"), env=hide(tmp_path, "torch", "trl"))
    assert done.returncode == 1 and not (tmp_path / "demo").exists()
    assert "missing: torch, trl" in done.stderr and "compeer-esc[demo]" in done.stderr and "--quick" in done.stderr


def test_a_quick_demo_is_one_turn_without_torch(tiny_gguf: Path, tmp_path: Path) -> None:
    hidden = hide(tmp_path, "torch", "transformers", "safetensors", "peft")
    done = compeer("demo", "--quick", env={"COMPEER_WEIGHTS": str(tiny_gguf)} | hidden)
    assert done.returncode == 0, done.stderr
    assert "Format and pins: kept." in done.stdout
