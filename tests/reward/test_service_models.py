"""The same weights judge the same in this process and behind HTTP, through the commands."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.cli.command import compeer
from tests.reward.judge_process import JudgeProcess, gold_cases

from compeer.cer import gold
from compeer.cer.item import PastTurn
from compeer.dialogue import read_rows, write_rows
from compeer.pipeline.stage import Progress
from compeer.reward.case import Case
from compeer.reward.client import JudgeClient
from compeer.reward.judge import Judgement, Scored
from compeer.reward.local_judge import LocalJudge
from compeer.reward.remote_judge import RemoteJudge
from compeer.reward.score_file import score

SERVE = ("-m", "compeer.cli", "reward", "serve")
NEAR = 1e-3


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    yield
    if before is None:
        del os.environ["OMP_NUM_THREADS"]
    else:
        os.environ["OMP_NUM_THREADS"] = before


def same(here: Sequence[Judgement], there: Sequence[Judgement]) -> None:
    """Verdicts equal, probabilities near."""
    assert [one.failure for one in here] == [one.failure for one in there] == [None] * len(here)
    for mine, theirs in zip(here, there, strict=True):
        assert mine.id == theirs.id and mine.total == theirs.total
        assert [step.value for step in mine.steps] == [step.value for step in theirs.steps]
        assert [step.p for step in mine.steps] == pytest.approx([step.p for step in theirs.steps], abs=NEAR)
        assert [(pair.candidate_first, pair.preference) for pair in mine.pairs] == [
            (pair.candidate_first, pair.preference) for pair in theirs.pairs
        ]
        for pair, other in zip(mine.pairs, theirs.pairs, strict=True):
            assert pair.p == pytest.approx(other.p, abs=NEAR)


def test_local_and_behind_http_and_in_files_the_judgements_are_the_same(tiny_model_dir: Path, tmp_path: Path) -> None:
    items = [*list(gold.load("en"))[:6], *list(gold.load("zh"))[:6]]
    write_rows(tmp_path / "items.jsonl", items)
    cases = gold_cases(16, candidates=4)
    local = LocalJudge(str(tiny_model_dir))
    with JudgeProcess(SERVE, model=f"hf:{tiny_model_dir}", port=0, batch=16) as process:
        with JudgeClient(RemoteJudge(process.url), orders="both", chunk=4) as client:
            there = client.judge_all(cases)
            report = client.check(kind="unified", languages=("en", "zh"))
        words = ("reward", "score", str(tmp_path / "items.jsonl"), "--model", process.url, "--orders", "both", "--json")
        done = compeer(*words, "--out", str(tmp_path / "there.jsonl"))
        assert process.metric("compeer_judge_tokens_total") > 0
    here = asyncio.run(local.judge(cases, orders="both"))
    same(here, there)
    assert report.identity == asyncio.run(local.identity())

    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    mine = score(tmp_path / "items.jsonl", tmp_path / "here.jsonl", local, orders="both", progress=Progress(quiet=True))
    assert summary["judged"] == mine.judged == 12 and summary["identity"] == mine.identity
    assert summary["means"]["total"] == mine.means["total"]
    files = [[row.judgement for row in read_rows(tmp_path / name, Scored)] for name in ("here.jsonl", "there.jsonl")]
    same(*files)


def test_pictures_reach_the_model_through_http(tiny_vision_dir: Path, tmp_path: Path) -> None:
    from PIL import Image

    def seen(name: str, colour: tuple[int, int, int]) -> Case:
        path = tmp_path / f"{name}.png"
        Image.new("RGB", (64, 64), colour).save(path)
        case = gold_cases(1)[0]
        history = (*case.history[:-1], PastTurn(case.history[-1].speaker, case.history[-1].text, (str(path),)))
        return msgspec.structs.replace(case, id=name, history=history)

    cases = [seen("red", (220, 10, 10)), *gold_cases(2), seen("blue", (10, 10, 220))]
    local = LocalJudge(str(tiny_vision_dir))
    serving = JudgeProcess(SERVE, model=f"hf:{tiny_vision_dir}", port=0)
    with serving as process, JudgeClient(RemoteJudge(process.url)) as client:
        there = client.judge_all(cases)
    here = asyncio.run(local.judge(cases))
    same(here, there)
    assert there[0].steps[0].p != pytest.approx(there[3].steps[0].p, abs=1e-9)  # they were looked at
