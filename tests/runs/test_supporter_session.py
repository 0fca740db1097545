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
from pathlib import Path
from typing import Any

import pytest
from runs.supporter import device, session
from runs.supporter.rows import arm_rows, moments, split_of

from compeer.cer.item import Item
from compeer.reasoning import parse

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
        [sys.executable, str(program), *words], env=env, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def until(ready: Any, seconds: float = 600) -> None:
    end = time.time() + seconds
    while not ready():
        assert time.time() < end
        time.sleep(0.02)


def test_a_session_from_pieces_to_items_survives_a_kill(
    tmp_path: Path, home: Path, tiny_qwen2_dir: Path, tiny_qwen2_gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hashlib

    made = session.make_rows  # a step has an hour here: what is measured elsewhere is the limit, not this machine
    monkeypatch.setattr(session, "make_rows", lambda *given: [one | {"seconds": 3600} for one in made(*given)])

    plan = session.plan_of() | {"most_rows": 6, "most_tokens": 40, "most_moments": 6, "batch": 1, "packages": ["tiny"]}
    plan["learning"] |= {"batch": 2, "rank": 2, "tokens": 1500}
    for arm in plan["arms"]:
        arm |= {"epochs": 1, "batch": 2}
    messages = [{"role": "user", "content": "hi"}]
    session.write_lines(
        home / "pairs.jsonl", [{"messages": messages, "chosen": "Yes.", "rejected": f"{at}"} for at in range(6)]
    )
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
            remote(program, lent, tmp_path / f"take-{number}", "take", str(piece), "--seconds", "3600")
        first = remote(program, lent, tmp_path / "first", "wait", "--seconds", "380")
        assert "brought: " in first, first  # one adapter, long before the rest is over
        answers = lent / "results" / "reading-base-off.jsonl"
        until(lambda: answers.exists() and answers.read_bytes().count(b"\n") >= 2)
        for name in ("conductor.json", "steps/sample.json"):
            os.kill(json.loads((lent / name).read_text())["pid"], signal.SIGKILL)
        with answers.open("a") as file:
            file.write('{"id": "cut of')
        before = [line for line in answers.read_text().splitlines() if line.endswith("}")]
        for number in range(5):
            told = remote(program, lent, tmp_path / f"wait-{number}", "wait", "--seconds", "380")
            if "brought" not in told:
                break
        logs = tmp_path / f"wait-{number}"
        assert " failed" not in told, (logs / "logs.txt").read_text()
        assert told.count(" done ") == len(manifest["steps"]), told
        remote(
            program, lent, tmp_path / "fetch", "fetch", "danger", "judge", "preferred"
        )  # once more, should one be lost
    finally:
        for path in [lent / "conductor.json", *(lent / "steps").glob("*.json")]:
            known = json.loads(path.read_text())
            if known.get("state", "running") == "running" and Path(f"/proc/{known['pid']}").exists():
                os.kill(known["pid"], signal.SIGKILL)
    assert (lent / "overlay" / "tiny" / "__init__.py").exists() and (lent / "overlay" / "beside.py").exists()
    assert answers.read_text().splitlines()[: len(before)] == before  # what was written before the kill is kept
    states = json.loads((logs / "states.json").read_text())
    assert states["sample"]["tries"] == 2 and states["judge"]["tries"] == 1
    assert states["preferred"]["began"] > states["danger"]["ended"], "two trainings at once, not three"

    counts = session.unpack([tmp_path / "first", *sorted(tmp_path.glob("wait-*")), tmp_path / "fetch"])
    assert counts["reading-base-off"] == counts["reading-preferred"] == 6 and counts["danger-danger"] == 6
    judged = session.lines_of(home / "results" / "odds-judge.jsonl")
    assert {len(row["odds"]) for row in judged} == {4} and {len(row["odds"][3]) for row in judged} == {4}
    assert all(sum(turn) == pytest.approx(1, abs=1e-3) for row in judged for turn in row["odds"])
    for name in counts:
        ids = [row["id"] for row in session.lines_of(home / "results" / f"{name}.jsonl")]
        assert len(ids) == len(set(ids))
    for name in ("danger", "judge", "preferred"):
        assert (home / "adapters" / name / "adapter_model.safetensors").stat().st_size > 1000
        record = json.loads((home / "adapters" / name / "job.json").read_text())
        assert record["step"] == record["steps"] == 3 and record["not_finite"] == 0
    assert (home / "adapters" / "danger" / "reader.json").exists()
    assert session.reading_files()[0].startswith("choice: ")


def test_failed_steps_are_tried_twice_replaced_and_mended(tmp_path: Path) -> None:
    program, lent = Path(session.HERE) / "remote.py", tmp_path / "lent"
    steps = [
        {"name": "bad", "run": ["bad.py"], "makes": ["{lent}/adapters/one/job.json"]},
        {"name": "needs", "run": ["good.py"], "after": ["bad"]},
        {"name": "next", "run": ["good.py"], "once_over": ["bad"]},
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
    assert {name: one["state"] for name, one in states.items()} == {"bad": "failed", "needs": "failed", "next": "done"}
    assert states["bad"]["tries"] == 2 and states["bad"]["code"] == 3
    assert (lent / "adapters" / "one.failed").exists()  # so that sampling does not wait for it
    mended = f"from pathlib import Path\none = Path({str(lent)!r}, 'adapters/one')\n" + (
        "one.mkdir(parents=True)\n(one / 'job.json').touch()\n"
    )
    remote(program, lent, tmp_path / "2", "take", head(mended), "--seconds", "200")
    remote(program, lent, tmp_path / "3", "retry", "bad", "needs")
    assert "brought: one" in remote(program, lent, tmp_path / "4", "wait", "--seconds", "60")
    told = remote(program, lent, tmp_path / "5", "wait", "--seconds", "60")
    assert told.count(" done ") == 3 and not (lent / "adapters" / "one.failed").exists(), told


def test_steps_wait_for_memory_and_end_with_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LENT_GIB", "100")
    monkeypatch.setenv("LENT_GRACE", "0")
    program, lent = Path(session.HERE) / "remote.py", tmp_path / "lent"
    steps = [
        {"name": "first", "run": ["nap.py", "2"], "gib": 60},
        {"name": "large", "run": ["nap.py", "0"], "gib": 50},  # waits for the first
        {"name": "small", "run": ["nap.py", "0"], "gib": 30},  # fits beside it
        {"name": "hangs", "run": ["nap.py", "317"], "seconds": 1},
        {"name": "later", "run": ["nap.py", "0"], "once_over": ["hangs"]},
        {"name": "late", "run": ["nap.py", "0"], "once_over": ["first"], "least": 300},
    ]
    files = {"manifest.json": json.dumps({"pieces": {}, "parts": {}, "steps": steps}), "remote.py": program.read_text(),
             "nap.py": "import subprocess, sys\nsubprocess.run(['sleep', sys.argv[1]], start_new_session=True)\n"}  # fmt: skip
    with tarfile.open(tmp_path / "head.tar.gz", "w:gz") as tar:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
            tar.add(tmp_path / name, name)
    remote(program, lent, tmp_path / "0", "take", str(tmp_path / "head.tar.gz"), "--seconds", "200")
    remote(program, lent, tmp_path / "1", "wait", "--seconds", "60")
    states = json.loads((tmp_path / "1" / "states.json").read_text())
    assert {name for name, one in states.items() if one["state"] == "failed"} == {"hangs", "late"}
    assert states["large"]["began"] >= states["first"]["ended"] > states["small"]["ended"]
    assert states["hangs"]["why"] == "its time was over" and states["late"]["why"] == "no time"
    assert states["later"]["state"] == "done"
    held = subprocess.run(["pgrep", "-f", "^sleep 317$"], capture_output=True, text=True, check=False).stdout.split()
    assert not held, "what hung was ended with its children"


def test_what_is_trained_is_what_peft_computes(tmp_path: Path, tiny_qwen2_dir: Path) -> None:
    import torch
    from peft import PeftModel

    asked = {"messages": [{"role": "user", "content": "hi"}]}
    session.write_lines(
        tmp_path / "pairs.jsonl", [{**asked, "chosen": f"yes {at}", "rejected": "no"} for at in range(12)]
    )
    job = {"base": str(tiny_qwen2_dir), "pairs": str(tmp_path / "pairs.jsonl"), "out": str(tmp_path / "adapter"), "rank": 2,
           "rate": 0.02, "batch": 4, "epochs": 8, "likelihood": 0.0, "tokens": 60}  # fmt: skip
    device.prefer(job)
    assert json.loads((tmp_path / "adapter" / "job.json").read_text())["last_loss"] < 0.6  # 0.69 before it has learned
    ids = torch.tensor([[5, 9, 3, 7, 1, 2]])
    lean, tokenizer = device.adapted(job)
    trained = PeftModel.from_pretrained(device.open_base(job["base"])[0], job["out"])
    for mine, theirs in zip(lean.named_parameters(), trained.named_parameters(), strict=True):
        assert mine[0] == theirs[0]
        mine[1].data.copy_(theirs[1].data)
    both = [(one.eval()(ids).logits.float()) for one in (lean, trained)]
    base = device.open_base(job["base"])[0](ids).logits.float()
    assert (both[0] - both[1]).abs().max() < 0.1 * (both[1] - base).abs().max()
    # the same gradient from one batch and from parts of it, also when the memory was too small at first
    rows = [device.encoded_answer({**asked, "answer": "a b" * at}, tokenizer) for at in range(1, 7)]
    learner = device.Learner(lean, {"tokens": 10_000}, 1, device.Clock({}))
    tries = []

    def loss(part: list[Any]) -> tuple[Any, list[Any]]:
        tries.append(len(part))
        if len(tries) == 1:
            raise torch.OutOfMemoryError
        return -device.batched(part, lean, tokenizer.pad_token_id)[0].sum() / 100, []

    monkey = learner.learn(rows, lambda row: len(row[0]), loss)
    whole = learner.slope.clone()
    learner.budget = 30
    assert monkey == pytest.approx(learner.learn(rows, lambda row: len(row[0]), loss), rel=0.02) and len(tries) > 4
    assert (whole - learner.slope).norm() < 0.05 * whole.norm() and whole.norm() > 0


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
        device.sample(job | {"sets": sets, "out": str(tmp_path / "out"), "batch": 4})
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
    manifest = {"pieces": {"gguf-00": {}}, "steps": []}
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


def test_rows_of_the_arms(items: list[Item]) -> None:
    train = [item for item in items if split_of(item.dialogue) == "train"][:120]
    arms = {kind: arm_rows(kind, train, seed=1) for kind in ("steps", "reply")}
    assert len({len(rows) for rows in arms.values()}) == 1
    assert not any("<think>" in row["answer"] for row in arms["reply"])
    assert any(parse(row["answer"]).complete for row in arms["steps"])
