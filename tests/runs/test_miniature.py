"""The miniature at its tiny size: every stage leaves its file, nothing is done twice, tables come from result files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from runs.miniature.__main__ import HERE, main
from runs.miniature.pieces import Piece, Work, run
from runs.miniature.plan import STAGES, plan
from runs.miniature.settings import load
from runs.miniature.tables import MARKED, NOTHING, filled

from compeer.errors import UserError


@pytest.fixture(scope="module")
def words(tiny_model_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return ["--tiny", "--base", str(tiny_model_dir), "--out", str(tmp_path_factory.mktemp("miniature") / "out")]


@pytest.fixture(scope="module")
def done(words: list[str], tiny_gguf: Path) -> Path:
    """The whole of it, without packages that a GPU machine may not have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPEER_WEIGHTS", str(tiny_gguf))
        patch.setenv("COMPEER_REVISION", "as given")
        patch.setenv("CUDA_VISIBLE_DEVICES", os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        for missing in ("typer", "pydantic"):
            patch.setitem(sys.modules, missing, None)
        assert main(words) == 0
    return Path(words[-1])


def note(out: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "notes" / f"{name}.json").read_text())
    return found


def test_every_piece_leaves_a_note_that_says_how_it_was_made(done: Path) -> None:
    pieces = plan(load(tiny=True))
    assert {piece.stage for piece in pieces} == set(STAGES)
    for piece in pieces:
        told = note(done, piece.name.replace("/", "."))
        assert (told["piece"], told["revision"], told["seed"]) == (piece.name, "as given", piece.seed)
        assert told["seconds"] >= 0 and set(told["settings"]) == set(piece.settings)
        assert set(told["data"]) == set(piece.reads), piece.name
    assert note(done, "sft.train")["results"]["items"]["learned"] > 0
    assert [len(note(done, f"grpo.{one}-0")["results"]["curve"]) for one in ("por", "ur", "urp", "urp-sign")] == [2] * 4


def test_a_second_run_repeats_nothing_and_other_settings_are_refused(
    done: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in done.rglob("*") if path.is_file()}
    assert main([stage for stage in STAGES if stage != "tables"] + words) == 0
    assert "0 pieces were run, 0 are left" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in done.rglob("*") if path.is_file()} == before
    assert main(["sft", *words[:2], "elsewhere", *words[3:]]) == 1
    assert "sft/train was finished with other settings (base)" in capsys.readouterr().err


def test_no_dialogue_of_the_test_set_or_of_the_evaluation_judge_is_trained_on(done: Path) -> None:
    from compeer.cer.item import Item
    from compeer.dialogue import read_rows

    def dialogues(name: str) -> set[str]:
        return {item.dialogue for item in read_rows(done / "data" / f"{name}.jsonl.gz", Item)}

    judge, evaluation, test = (dialogues(name) for name in ("judge", "evaluation", "test"))
    assert judge and evaluation and test
    assert not judge & evaluation and not (judge | evaluation) & test
    assert dialogues("sft") | dialogues("prompts") <= judge | evaluation
    assert dialogues("moments") <= test


def test_answers_to_other_moments_are_refused(done: Path, words: list[str], tmp_path: Path) -> None:
    from runs.miniature import choosing, data

    from compeer.dialogue import write_rows

    out = tmp_path / "out"
    shutil.copytree(done, out)
    settings = load(tiny=True)
    work = Work(settings=settings, out=out, data=None, base=words[2], tiny=True, results=out, docs=out)
    kept = data.read(work.items("choice"))
    write_rows(work.items("choice"), kept[:-1])
    with pytest.raises(UserError, match=r"choice-sft.*answers other moments"):
        choosing.ask(work, "sft")


def test_a_mean_of_runs_says_what_each_of_them_was(done: Path) -> None:
    config = json.loads((done / "runs" / "candidates" / "short-mean" / "run.json").read_text())["config"]
    assert config["the mean of"] == {"short-0": {"seed": 0}, "short-1": {"seed": 1}}
    assert config["reward"]["weights"] == {"length": 1.0, "novelty": 1.0} and "seed" not in config


def test_answers_at_home_go_on_where_they_were_cut_off(done: Path, words: list[str], tmp_path: Path) -> None:
    from runs.miniature import data, home

    out = tmp_path / "out"
    shutil.copytree(done, out)
    settings = load(tiny=True)
    work = Work(settings=settings, out=out, data=None, base=words[2], tiny=True, results=out, docs=out)
    answered = data.read(out / "samples" / "home-sft.jsonl.gz")
    before = [item.candidate.raw for item in answered if item.candidate]
    assert len(before) == settings.data.moments
    (out / "samples" / "home-sft.jsonl.gz").unlink()
    kept = json.dumps([answered[0].id, {"text": "kept", "finish": "stop"}])
    (out / "samples" / "home-sft.part.jsonl").write_text(kept + "\n" + kept[: len(kept) // 2])
    home.home(work)
    after = [item.candidate.raw for item in data.read(out / "samples" / "home-sft.jsonl.gz") if item.candidate]
    assert after == ["kept", *before[1:]]
    assert not list((out / "samples").glob("*.part.jsonl"))


def test_what_is_shipped_opens_in_both_homes_and_is_small(done: Path) -> None:
    from safetensors.torch import load_file

    shipped = note(done, "adapters.both")["results"]
    assert shipped["fits"] and shipped["supporter"] == "sft"  # noise is never complete
    for role in ("supporter", "judge"):
        folder = done / "adapters" / role
        weights = load_file(folder / "adapter_model.safetensors")
        assert {str(tensor.dtype) for tensor in weights.values()} == {"torch.bfloat16"}
        assert (folder / "adapter.gguf").read_bytes()[:4] == b"GGUF"
        assert "CC BY-NC 4.0" in (folder / "README.md").read_text()
    size = sum(path.stat().st_size for path in (done / "adapters").rglob("*") if path.is_file())
    assert size == shipped["shipped bytes"]
    assert not list((done / "runs").rglob("checkpoint-*"))


def test_tables_are_made_from_the_result_files_alone(done: Path, tmp_path: Path) -> None:
    page = (done / "results.md").read_text()
    assert NOTHING not in page and len(MARKED.findall(page)) == len(list((done / "results").iterdir()))
    emptied = MARKED.sub(r"\1\3", page)
    assert filled(emptied, done / "results") == page
    assert filled(emptied, tmp_path).count(NOTHING) == len(MARKED.findall(page))


def test_tables_are_made_of_what_is_finished_so_far(done: Path, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "out" / "notes").mkdir(parents=True)
    shutil.copy(done / "notes" / "table1.report.json", tmp_path / "out" / "notes")
    assert main(["tables", *words[:-1], str(tmp_path / "out")]) == 0
    assert [path.name for path in (tmp_path / "out" / "results").iterdir()] == ["table1.json"]
    page = (tmp_path / "out" / "results.md").read_text()
    assert "UnifiReward" in page and page.count(NOTHING) == len(MARKED.findall(page)) - 1


def test_the_tables_of_the_documentation_are_those_of_the_shipped_result_files() -> None:
    results = HERE / "results"
    marked: set[str] = set()
    for page in (HERE.parent.parent / "docs" / "results.md", HERE / "rounds.md"):
        text = page.read_text(encoding="utf-8")
        marked |= {name for _, name, _ in MARKED.findall(text)}
        assert filled(text, results) == text, "run python -m runs.miniature tables"
    assert {path.stem for path in results.glob("*.json")} <= marked, "a result file that no table shows"


def test_the_blind_reading_on_the_page_is_that_of_its_file() -> None:
    page = (HERE.parent.parent / "docs" / "results.md").read_text(encoding="utf-8")
    shown = page.split("<!-- reading: esconv-60 -->")[1].split("<!-- end -->")[0].strip().splitlines()[2:]
    rows = json.loads((HERE.parent / "readings" / "esconv-60.json").read_text(encoding="utf-8"))["rows"]
    assert len(shown) == len(rows)
    for line, (name, mean, low, high, share, better) in zip(shown, rows, strict=True):
        wins = "" if better is None else f"{better} %"
        assert line == f"| {name} | {mean:.2f} [{low:.2f}, {high:.2f}] | {share} % | {wins} |"


def test_pieces_side_by_side_wait_for_what_they_need_and_a_failure_stops_only_what_stands_on_it(
    tmp_path: Path,
) -> None:
    settings = load(tiny=True)
    work = Work(settings=settings, out=tmp_path, data=None, base="x", tiny=True, results=tmp_path, docs=tmp_path)
    pieces = [
        Piece(name="a/one", work=lambda _: {}),
        Piece(name="a/bad", work=lambda _: {}),
        Piece(name="b/one", work=lambda _: {}, needs=("a/one",)),
        Piece(name="b/bad", work=lambda _: {}, needs=("a/bad",)),
        Piece(name="c/bad", work=lambda _: {}, needs=("b/bad",)),
        Piece(name="d/long", work=lambda _: {}, minutes=60),
    ]
    mark = "import sys, pathlib; n = sys.argv[1]; p = pathlib.Path(sys.argv[2]); "
    mark += "assert n != 'b/one' or (p / 'a.one').exists(); (p / n.replace('/', '.')).touch(); sys.exit(n == 'a/bad')"
    made = run(
        work, pieces, parallel=3, minutes=30, command=lambda name: [sys.executable, "-c", mark, name, str(tmp_path)]
    )
    assert made == ["a/one", "b/one"]


def test_a_runner_that_is_ended_leaves_nothing_running(tmp_path: Path) -> None:
    alive = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(60)"
    script = (
        "import sys; from pathlib import Path; from runs.miniature.pieces import Piece, Work, run\n"
        "from runs.miniature.settings import load; out = Path(sys.argv[1])\n"
        "work = Work(settings=load(), out=out, data=None, base='x', tiny=True, results=out, docs=out)\n"
        "run(work, [Piece(name='a/one', work=lambda _: {})], parallel=2,\n"
        f"    command=lambda name: [sys.executable, '-c', {alive!r}, str(out / 'pid')])\n"
    )
    runner = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=HERE.parent.parent)
    pid = tmp_path / "pid"
    while not (pid.is_file() and pid.read_text()):
        assert runner.poll() is None
        time.sleep(0.05)
    runner.terminate()
    assert runner.wait(timeout=30) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_without_data_only_the_tiny_size_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "--out", str(tmp_path / "out")]) == 1
    assert "--data" in capsys.readouterr().err
    assert main(["nonsense", "--tiny", "--out", str(tmp_path / "out")]) == 1
    with pytest.raises(UserError, match="not usable"):
        (tmp_path / "config.yaml").write_text("seed: 0\nnonsense: 1\n")
        load(path=tmp_path / "config.yaml")


def test_answers_written_in_batches_are_those_of_their_prompts(tiny_model_dir: Path) -> None:
    import torch
    from runs.miniature.writing import _batch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from compeer.models.request import Request

    model = AutoModelForCausalLM.from_pretrained(tiny_model_dir).eval()
    tokenizer = AutoTokenizer.from_pretrained(tiny_model_dir)
    prompts = ["I lost my job. " * times for times in (3, 1, 2)]
    request = Request(messages=[], max_tokens=6, temperature=1e-4)
    for prompt, written in zip(prompts, _batch(model, tokenizer, prompts, request, seed=0), strict=True):
        ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False)])
        whole = model.generate(ids, max_new_tokens=6, do_sample=False, eos_token_id=tokenizer.eos_token_id)
        assert tokenizer.decode(whole[0, ids.shape[1] :], skip_special_tokens=True) == written.text
        assert written.finish == ("stop" if tokenizer.eos_token_id in whole[0, ids.shape[1] :] else "length")
