"""docs/getting-started.md, followed from top to bottom in an empty folder.

Its files are saved as the page says, its commands are given in its order, in this process so that torch is loaded once;
what serves runs in a process of its own until it has answered. The embedded model is a random one of two layers here:
what is tested is that every command works and hands the next one what it needs, not what a model says.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, Command, blocks, commands_in
from typer.testing import CliRunner

PAGE = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8").partition("\n## The demo")[0]
#: what each part of the page leaves, and a later part or the reader takes up
LEFT = (
    "own.jsonl",
    "items.jsonl",
    "dataset/README.md",
    "dataset/jsonl/train.jsonl",
    "scores.jsonl",
    "runs/judge/model/judge.json",
    "runs/judge-eval/report.md",
    "runs/sft/model/adapter_model.safetensors",
    "runs/policy/model/adapter_model.safetensors",
    "runs/policy/samples.jsonl",
    "report/report.html",
    "annotation.db",
)


def test_the_page_can_be_followed(tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from compeer.cli import app

    monkeypatch.chdir(tmp_path)
    for name, value in {
        "COMPEER_WEIGHTS": tiny_gguf,
        "COMPEER_CACHE": tmp_path / "cache",
        "COMPEER_THREADS": 1,
    }.items():
        monkeypatch.setenv(name, str(value))
    for name in ("COMPEER_MODEL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for block in blocks(PAGE):
        if block.language == "yaml" and (name := re.match(r"# (\S+\.yaml)\n", block.text)):
            Path(name[1]).write_text(block.text + "\n", encoding="utf-8")
    given = [command for command in commands_in("docs/getting-started.md", PAGE) if command.words[0] == "compeer"]
    assert len(given) > 15
    for command in given:
        words = command.words[1:]
        if words[0] in ("studio", "serve"):
            serves(command, tmp_path)
            continue
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, f"{command}\n{done.output[-2000:]}\n{done.exception!r}"
    for name in LEFT:
        assert Path(name).stat().st_size, f"{name} is empty"
    assert len(Path("scores.jsonl").read_text().splitlines()) == 2
    samples = Path("runs/policy/samples.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["step"] for line in samples} == {1, 2}
    assert "silver" in Path("runs/judge-eval/report.md").read_text()


def serves(command: Command, folder: Path) -> None:
    """It comes up, answers, and goes when it is asked to."""
    words = [sys.executable, "-m", "compeer.cli", *command.words[1:], "--port", "0"]
    if words[3] == "studio":
        words += ["--data", str(folder / "studio")]
    log = folder / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, env=os.environ, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            address = next((word for word in process.stdout.readline().split() if word.startswith("http")), "")
            assert address, f"{command}: {log.read_text()[-2000:]}"
            asked = address + ("/models" if words[3] == "serve" else "")  # not before the model is there
            with urllib.request.urlopen(asked, timeout=120) as answer:
                assert answer.status == 200
        finally:
            process.terminate()
            assert process.wait(60) in (0, -15)
