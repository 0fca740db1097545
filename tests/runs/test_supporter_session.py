"""One GPU session rehearsed on this machine: pieces, background steps, a kill, time limits, and what comes back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from runs.open_cer.items import dataset
from runs.supporter import device, session
from runs.supporter.rows import arm_rows, candidate_prompts, half_of, moments, split_of, unlearned
from typer.testing import CliRunner

from compeer.cer.item import Item, read_items
from compeer.cli import app
from compeer.dialogue import write_rows
from compeer.reasoning import parse, render

ESCONV_ROW = {
    "experience_type": "Current Experience", "emotion_type": "sadness", "problem_type": "job crisis",
    "situation": "I lost my job.", "survey_score": {"seeker": {}, "supporter": {}},
    "dialog": [
        {"text": f"{who} {number}", "speaker": who, **({"strategy": "Question"} if who == "sys" else {})}
        for number in range(5) for who in ("usr", "sys")
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return list(moments())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(session, "HOME", tmp_path / "runs" / "out" / "session")
    return session.HOME


def remote(program: Path, lent: Path, out: Path, *words: str) -> str:
    """One device call: the program runs with its own $OUT and ends."""
    out.mkdir(parents=True)
    env = {**os.environ, "LENT": str(lent), "OUT": str(out), "LENT_PAUSE": "0.05", "CUDA_VISIBLE_DEVICES": "",
           "OMP_NUM_THREADS": "1"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(program), *words], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def until(ready: Any, seconds: float = 90) -> None:
    end = time.time() + seconds
    while not ready():
        assert time.time() < end
        time.sleep(0.02)


def test_a_session_from_pieces_to_items_survives_a_kill(
    tmp_path: Path, home: Path, items: list[Item], tiny_qwen2_dir: Path, tiny_qwen2_gguf: Path
) -> None:
    import hashlib

    plan = session.plan_of() | {
        "engine": "hf", "most_rows": 6, "most_tokens": 5, "most_moments": 12, "most_prompts": 12, "batch": 2, "packages": ["tiny"],
        "candidates": {"test": 6, "valid": 0, "train": 6}, "steer": [], "judged": ["test", "attacks"],
        "reading": [{"arm": "base-off", "think": "off", "length": "full"}, {"arm": "voice", "adapter": "voice"}],
    }  # fmt: skip
    plan["arms"] = [
        {"name": "part-a", "kind": "steps", "part": "a", "rate": 1e-4, "save_at": [0.3]},
        {"name": "voice", "kind": "prefer", "rate": 1e-4, "micro": 2, "most": 4},
        {"name": "unified", "kind": "judge", "rate": 1e-4},
    ]
    plan["learning"] |= {"batch": 2, "rank": 2}
    session.write_lines(home / "results" / "off-base.jsonl", [
        {"id": item.id, "output": "I see.", "ended": True} for item in items if split_of(item.dialogue) == "train"
    ])  # fmt: skip
    (home / "wheels").mkdir(parents=True)
    with zipfile.ZipFile(home / "wheels" / "tiny-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny/__init__.py", "here = 1\n")
        wheel.writestr("tiny-1.data/purelib/beside.py", "")
        wheel.writestr("tiny-1.data/scripts/tiny", "")
    (home / "wheels" / "wheels.json").write_text('{"packages": ["tiny"], "wheels": ["tiny-1-py3-none-any.whl"]}')
    shutil.copytree(tiny_qwen2_dir, home / "tokenizer", ignore=shutil.ignore_patterns("model*", "config.json"))
    (tmp_path / "esconv").mkdir()
    (tmp_path / "esconv" / "valid.txt").write_text(f"{json.dumps(ESCONV_ROW)}\n" * 8)
    digest = hashlib.sha256(tiny_qwen2_gguf.read_bytes()).hexdigest()
    manifest = session.pack(plan, tiny_qwen2_gguf, tmp_path / "esconv", sha256=digest, piece=200_000)
    pieces = [home / "pieces" / name for name in ("head.tar.gz", *manifest["pieces"])]
    assert len(manifest["parts"]["gguf"]["pieces"]) > 1

    program, lent = Path(session.HERE) / "remote.py", tmp_path / "lent"
    try:
        for number, piece in enumerate(pieces):
            remote(program, lent, tmp_path / f"take-{number}", "take", str(piece), "--seconds", "200")
        answers = lent / "results" / "reading-base-off.jsonl"
        until(lambda: answers.exists() and answers.read_bytes().count(b"\n") >= 2)
        for name in ("conductor.json", "steps/sample-hf.json"):
            os.kill(json.loads((lent / name).read_text())["pid"], signal.SIGKILL)
        with answers.open("a") as file:
            file.write('{"id": "cut of')
        before = [line for line in answers.read_text().splitlines() if line.endswith("}")]
        told = remote(program, lent, tmp_path / "wait", "wait", "--seconds", "120")
        assert " failed" not in told, (tmp_path / "wait" / "logs.txt").read_text()
        assert told.count(" done ") == len(manifest["steps"]), told
        remote(program, lent, tmp_path / "fetch", "fetch", "part-a", "part-a-0.3")
    finally:
        for path in [lent / "conductor.json", *(lent / "steps").glob("*.json")]:
            known = json.loads(path.read_text())
            if known.get("state", "running") == "running" and Path(f"/proc/{known['pid']}").exists():
                os.kill(known["pid"], signal.SIGKILL)
    assert (lent / "overlay" / "tiny" / "__init__.py").exists() and (lent / "overlay" / "beside.py").exists()
    assert answers.read_text().splitlines()[: len(before)] == before  # what was written before the kill is kept
    states = json.loads((tmp_path / "wait" / "states.json").read_text())
    assert states["sample-hf"]["tries"] == 2 and states["part-a"]["tries"] == 1

    counts = session.unpack([tmp_path / "wait", tmp_path / "fetch"])
    assert counts["reading-base-off"] == counts["reading-voice"] == 12 and counts["mend"] % 2 == 0
    assert counts["candidates-base"] == 2 and counts["candidates-part-a"] > 2
    judged = session.lines_of(home / "results" / "odds-unified.jsonl")
    assert {len(row["odds"]) for row in judged} == {4} and {len(row["odds"][3]) for row in judged} == {4}
    assert all(sum(turn) == pytest.approx(1, abs=1e-3) for row in judged for turn in row["odds"])
    assert counts["danger-voice"] == 6
    for name in counts:
        ids = [row["id"] for row in session.lines_of(home / "results" / f"{name}.jsonl")]
        assert len(ids) == len(set(ids))
    for name in ("part-a", "part-a-0.3"):
        assert (home / "adapters" / name / "adapter_model.safetensors").stat().st_size > 1000
        assert json.loads((home / "adapters" / name / "job.json").read_text())["rate"] == 1e-4
    assert session.reading_files()[0].startswith("choice: ")


def test_failed_steps_are_tried_twice_replaced_and_mended(tmp_path: Path) -> None:
    program, lent = Path(session.HERE) / "remote.py", tmp_path / "lent"
    steps = [
        {"name": "bad", "run": ["bad.py"], "makes": ["{lent}/adapters/one/job.json"]},
        {"name": "needs", "run": ["good.py"], "after": ["bad"]},
        {"name": "spare", "run": ["good.py"], "instead_of": "bad"},
    ]

    def head(bad: str) -> str:
        files = {"manifest.json": json.dumps({"pieces": {}, "parts": {}, "steps": steps}), "bad.py": bad, "good.py": ""}
        with tarfile.open(tmp_path / "head.tar.gz", "w:gz") as tar:
            for name, text in {**files, "remote.py": program.read_text()}.items():
                (tmp_path / name).write_text(text)
                tar.add(tmp_path / name, name)
        return str(tmp_path / "head.tar.gz")

    remote(program, lent, tmp_path / "0", "take", head("raise SystemExit(3)"), "--seconds", "200")
    remote(program, lent, tmp_path / "1", "wait", "--seconds", "60")
    states = json.loads((tmp_path / "1" / "states.json").read_text())
    assert {name: one["state"] for name, one in states.items()} == {"bad": "failed", "needs": "failed", "spare": "done"}
    assert states["bad"]["tries"] == 2 and states["bad"]["code"] == 3
    assert (lent / "adapters" / "one.failed").exists()  # so that sampling does not wait for it
    mended = f"from pathlib import Path\none = Path({str(lent)!r}, 'adapters/one')\n" + (
        "one.mkdir(parents=True)\n(one / 'job.json').touch()\n"
    )
    remote(program, lent, tmp_path / "2", "take", head(mended), "--seconds", "200")
    remote(program, lent, tmp_path / "3", "retry", "bad", "needs")
    told = remote(program, lent, tmp_path / "4", "wait", "--seconds", "60")
    assert told.count(" done ") == 3 and not (lent / "adapters" / "one.failed").exists(), told


def test_jobs_stop_in_time_and_save(tmp_path: Path, tiny_qwen2_dir: Path) -> None:
    asked = {"messages": [{"role": "user", "content": "hi"}]}
    session.write_lines(tmp_path / "rows.jsonl", [{**asked, "answer": f"yes {at}"} for at in range(2000)])
    session.write_lines(tmp_path / "prompts.jsonl", [{**asked, "id": "one", "n": 5000}])
    job = {"base": str(tiny_qwen2_dir), "spare": 20, "seconds": 22, "seed": 1}
    began = time.time()
    device.train(job | {"rows": str(tmp_path / "rows.jsonl"), "out": str(tmp_path / "adapter"), "rank": 2, "batch": 1})
    record = json.loads((tmp_path / "adapter" / "job.json").read_text())
    assert 0 < record["step"] < record["steps"] == 4000
    sets = [{"name": "many", "prompts": str(tmp_path / "prompts.jsonl"), "most": 4}]
    with pytest.raises(SystemExit):
        device.sample(job | {"engine": "hf", "sets": sets, "out": str(tmp_path / "out"), "batch": 4})
    assert 0 < len(session.lines_of(tmp_path / "out" / "many.jsonl")) < 5000
    assert time.time() - began < 22
    session.write_lines(tmp_path / "ask.jsonl", [{**asked, "id": "one"}])
    score = {
        "base": str(tiny_qwen2_dir),
        "adapter": str(tmp_path / "adapter"),
        "prompts": [str(tmp_path / "ask.jsonl")],
    }
    device.score(score | {"answers": ["none", "watch"], "out": str(tmp_path / "out" / "danger.jsonl")})
    (row,) = session.lines_of(tmp_path / "out" / "danger.jsonl")
    assert row["set"] == "danger" and sum(row["odds"]) == pytest.approx(1, abs=1e-3)


def test_hidden_tree_is_small_locked_and_comes_back(tmp_path: Path, home: Path) -> None:
    def git(*words: str) -> subprocess.CompletedProcess[str]:
        name = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        return subprocess.run(["git", *name, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    git("init", "-q")
    (tmp_path / "small.py").write_text("1\n")
    (tmp_path / "large.bin").write_bytes(bytes(70_000_000))
    (tmp_path / ".gitignore").write_text("runs/out/\n")
    git("add", "small.py", "large.bin", ".gitignore")
    git("commit", "-qm", "first")
    (home / "pieces").mkdir(parents=True)
    for name in ("head.tar.gz", "gguf-00"):
        (home / "pieces" / name).write_bytes(bytes(60_000_000))
    manifest = {"pieces": {"gguf-00": {}}}
    with pytest.raises(SystemExit, match="run `hide`"):
        session.calls(session.plan_of(), manifest, tmp_path)
    assert session.hide(tmp_path, ("small.py",)) == 2
    found = session.calls(session.plan_of(), manifest, tmp_path)
    assert found[1]["carry"] == ["runs/out/session/pieces/gguf-00"] and found[1]["bytes"] == 60_000_002
    assert all(len(one["command"]) <= 2000 and one["timeout_s"] <= 600 for one in found)
    (tmp_path / "small.py").write_text("2\n")
    assert "index.lock" in git("commit", "-qam", "while hidden").stderr
    session.show(tmp_path)
    assert git("status", "--short").stdout == " M small.py\n"
    assert git("commit", "-qam", "after").returncode == 0


def test_rows_of_the_arms_and_prompts_of_the_candidates(items: list[Item]) -> None:
    train = [item for item in items if split_of(item.dialogue) == "train"][:120]
    arms = {kind: arm_rows(kind, train, seed=1) for kind in ("steps", "reply", "two-steps")}
    assert len({len(rows) for rows in arms.values()}) == 1
    assert not any("<think>" in row["answer"] for row in arms["reply"])
    assert not any("<strategy>" in row["answer"] for row in arms["two-steps"])
    assert any(parse(row["answer"]).complete for row in arms["steps"])
    prompts, regexes = candidate_prompts(
        [item for item in items if unlearned(item)], {"test": 60, "valid": 30, "train": 90}, 1
    )
    rows = [row for found in prompts.values() for row in found]
    assert len({row["id"] for row in rows}) == 180 and Counter(row["pin_fits"] for row in rows)[False] > 30
    dialogues = {item.id: item.dialogue for item in items}
    for row in rows:
        if split_of(dialogues[row["moment"]]) == "train":
            assert half_of(dialogues[row["moment"]]) == "b"  # the model has learned from half a
    assert {row["regex"] for row in prompts["base"]} == set(regexes) and len(regexes) <= 2


def test_candidates_become_items_and_disputes_go_to_the_third(home: Path, items: list[Item]) -> None:
    item = next(one for one in items if split_of(one.dialogue) == "test")
    assert item.reference_reasoning
    told = {
        "moment": item.id,
        "generator": "half-a",
        "temperature": 0.9,
        "pin": {"strategy": "question"},
        "pin_fits": False,
    }
    whole = {**told, "id": f"{item.id}~1-0001", "ended": True, "output": render(item.reference_reasoning, "And you?")}
    broken = {**whole, "id": f"{item.id}~1-0002", "output": "<think> no"}
    session.write_lines(home / "results" / "candidates-half-a.jsonl", [whole, broken])
    session.write_lines(home / "results" / "mend.jsonl", [])
    for name in ("base", "part"):
        row = {"id": item.id, "output": f"A reply of {name}.", "ended": True}
        session.write_lines(home / "results" / f"off-{name}.jsonl", [row])
    (made,), dropped = session.candidate_items(2800)
    beside = made.trace["compared_with"]
    assert dropped == {"half-a": 1} and made.split == "test"
    assert made.reference == (item.reference if beside == "written" else f"A reply of {beside}.")
    assert made.candidate and made.candidate.response == "And you?" and made.candidate.generator == "1.5b/half-a"
    assert made.trace["temperature"] == 0.9 and made.trace["pin_fits"] is False
    write_rows(home / "candidates.jsonl", [made])
    first, second, third = ({"history": True, "emotion": right, "strategy": True} for right in (True, False, False))
    two = labelled_by(home, first=first, second=second)
    (again,) = session.disputed(two)
    assert again.id == made.id and not again.votes and again.label_source is None
    assert not any(dataset(read_items(two)).values())  # one question is still open
    (done,) = dataset(read_items(labelled_by(home, first=first, second=second, third=third)))["test"]
    assert done.label_source == "author" and done.labels.emotion is False and len(done.votes) == 12
    assert session.disputed(home / "labelled-3.jsonl") == []


def labelled_by(home: Path, **people: dict[str, bool]) -> Path:
    """The items after these labellers, by the commands that the README names."""
    answers, run = [], CliRunner()
    for name, said in people.items():
        tasks = home / f"tasks-{name}.jsonl"
        assert run.invoke(
            app, ["cer", "label", "export", f"{home}/candidates.jsonl", "--annotator", name, "-o", str(tasks)]
        )
        (task,) = session.lines_of(tasks)
        assert "1.5b" not in tasks.read_text()
        session.write_lines(
            home / f"answers-{name}.jsonl", [{"task": task["id"], "annotator": name, "preference": "neither", **said}]
        )
        answers += ["--judgements", f"{home}/answers-{name}.jsonl", "--keys", f"{tasks}.keys"]
    out = home / f"labelled-{len(people)}.jsonl"
    done = run.invoke(app, ["cer", "label", "import", f"{home}/candidates.jsonl", *answers, "-o", str(out)])
    assert done.exit_code == 0, done.output
    return out
