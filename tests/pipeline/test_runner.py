"""The stage runner: order, rejects, limits, previews, what it refuses, what it remembers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from weakref import WeakSet

import msgspec
import pytest
from tests.endpoints.process import ROOT, environment
from tests.endpoints.stages import CLASSIFY, JUDGE, SAY, SHOUT, Note

from compeer.errors import UserError
from compeer.models.request import Answer, ModelError, Request, Usage
from compeer.pipeline.ledger import Counts, Manifest, NoAnswers, Spent
from compeer.pipeline.runner import Interrupted, preview, run_stage
from compeer.pipeline.stage import Progress, Stage, Tools, estimate
from compeer.pipeline.work import WINDOW

QUIET = Progress(quiet=True)


class Scripted:
    """A model in this process: says what it is told to."""

    name, sees = "scripted", False

    def __init__(self, *replies: str | Exception) -> None:
        self.replies, self.asked = list(replies), 0

    async def ask(self, request: Request) -> Answer:
        self.asked += 1
        await asyncio.sleep(0)  # others get their turn while an answer is under way
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return Answer(text=reply, finish="stop", usage=Usage(10, 5))

    async def stream(self, request: Request) -> AsyncIterator[str]:
        yield (await self.ask(request)).text

    def rendered(self, request: Request) -> bytes:
        return msgspec.json.encode(request)

    async def close(self) -> None:
        pass


def write(path: Path, *texts: str) -> Path:
    rows = [Note(f"n{number}", text) for number, text in enumerate(texts)]
    path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def judged_by(model: Scripted, seed: int = 0) -> Tools:
    return Tools(models={"judge": model}, seed=seed)


def test_rows_come_in_input_order_however_long_each_takes(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", *(f"sleep {(number * 7) % 5 / 200}" for number in range(100)))
    manifest = run_stage(SHOUT, source, tmp_path / "out.jsonl", concurrency=8, progress=QUIET)
    assert [row["id"] for row in read(tmp_path / "out.jsonl")] == [f"n{number}" for number in range(100)]
    assert manifest.counts.rows_in == manifest.counts.rows_out == 100
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "in.jsonl",
        "out.jsonl",
        "out.manifest.json",
        "out.rejects.jsonl",
    ]


def test_what_goes_no_further_is_rejected_with_its_reason_and_its_row(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", "a", "reject", "twice", "nothing", "wrong", "raise", "b")
    with source.open("ab") as file:
        file.write(b'\n{"id": "x1", "text": 5}\n{"id": "x2", "te\n{"id": "n9", "text": "last"}')
    manifest = run_stage(SHOUT, source, tmp_path / "out.jsonl", concurrency=2, progress=QUIET)
    assert [row["text"] for row in read(tmp_path / "out.jsonl")] == ["A", "twice", "TWICE", "B", "LAST"]
    rejects = read(tmp_path / "out.rejects.jsonl")
    assert [(reject["id"], reject["reason"]) for reject in rejects] == [
        ("n1", "unwanted"),
        ("n3", "empty"),
        ("n4", "error"),
        ("n5", "error"),
        ("x1", "unreadable"),
        ("line 10", "unreadable"),
    ]
    assert rejects[0]["row"] == {"id": "n1", "text": "reject"}
    assert rejects[2]["detail"].startswith("TypeError: the stage shout should make Note, but made str")
    assert "KeyError: 'broken stage' (stages.py, line" in rejects[3]["detail"]
    assert "line 9 (record x1)" in rejects[4]["detail"]
    assert rejects[5]["row"] == '{"id": "x2", "te'
    assert manifest.counts.rows_in == 10
    assert manifest.counts.rejected == {"unwanted": 1, "empty": 1, "error": 2, "unreadable": 2}


def test_a_model_without_an_answer_and_a_wrong_shape_are_rejects(tmp_path: Path) -> None:
    good = '{"keep": true, "mood": "calm", "why": "it is"}'
    source = write(tmp_path / "in.jsonl", "a", "b", "c", "d")
    model = Scripted(good, "no JSON", "still none", ModelError("the server is gone"), "no JSON", good)
    manifest = run_stage(CLASSIFY, source, tmp_path / "out.jsonl", judged_by(model), concurrency=1, progress=QUIET)
    assert [row["id"] for row in read(tmp_path / "out.jsonl")] == ["n0", "n3"]
    rejects = read(tmp_path / "out.rejects.jsonl")
    assert [(reject["id"], reject["reason"]) for reject in rejects] == [("n1", "schema"), ("n2", "no-answer")]
    assert rejects[1]["detail"] == "the server is gone"
    spent = manifest.spent
    assert (spent.asked, spent.asked_again, spent.from_cache) == (6, 2, 0)
    assert (spent.tokens_read, spent.tokens_written) == (50, 25)


def test_limit_is_a_try_and_the_whole_run_goes_on_from_it(tmp_path: Path) -> None:
    source, model = write(tmp_path / "in.jsonl", *"abcdefgh"), Scripted("yes")
    out, tools = tmp_path / "out.jsonl", judged_by(model)
    assert run_stage(SAY, source, out, tools, limit=3, progress=QUIET).counts.rows_in == 3
    assert model.asked == 3
    assert run_stage(SAY, source, out, tools, limit=3, progress=QUIET).counts.rows_in == 3
    assert model.asked == 3  # nothing to do
    whole = run_stage(SAY, source, out, tools, progress=QUIET)
    assert (whole.counts.rows_in, whole.spent.asked, whole.spent.from_cache, model.asked) == (8, 8, 3, 8)
    with pytest.raises(UserError, match=r"holds the results of 8 rows.*--fresh"):
        run_stage(SAY, source, out, tools, limit=3, progress=QUIET)
    assert len(read(out)) == 8


def test_preview_shows_prompts_and_calls_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, model = write(tmp_path / "in.jsonl", "first note", "second note", "third note"), Scripted("yes")
    preview(JUDGE, source, judged_by(model), 2)
    shown = capsys.readouterr().out
    assert "You judge short notes" in shown and "first note" in shown and "second note" in shown
    assert "third note" not in shown and '"mood"' in shown
    assert model.asked == 0
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_estimate_renders_rows_rather_than_guess() -> None:
    rows = [Note(f"n{number}", "word " * 100) for number in range(5)]
    rough, seen = estimate(JUDGE, 1000), estimate(JUDGE, 1000, rows)
    assert (rough.calls, rough.tokens_read, rough.tokens_written) == (2000, 120_000, 60_000)
    assert seen.calls == 2000 and 250_000 < seen.tokens_read < 350_000
    assert str(rough) == "1,000 rows, about 2,000 calls, 120.0k tokens read and 60.0k written"


def test_a_finished_run_has_nothing_to_do_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, model = write(tmp_path / "in.jsonl", *"abc"), Scripted("yes")
    first = run_stage(SAY, source, tmp_path / "out.jsonl", judged_by(model), progress=QUIET)
    again = run_stage(SAY, source, tmp_path / "out.jsonl", judged_by(model))
    assert again == first and model.asked == 3
    assert "nothing to do" in capsys.readouterr().err
    stored = msgspec.json.decode((tmp_path / "out.manifest.json").read_bytes(), type=Manifest)
    assert stored == first and stored.fingerprint.models == {"judge": "scripted"} and stored.version.startswith("0.")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("input", "the input changed"),
        ("prompts", "the prompts changed"),
        ("model", "model judge was scripted, is other"),
        ("seed", "seed was 1, is 2"),
        ("options", "temperature was 0.1, is 0.9"),
    ],
)
def test_another_kind_of_rows_is_refused_and_the_difference_named(tmp_path: Path, change: str, named: str) -> None:
    source, model, out = write(tmp_path / "in.jsonl", *"abc"), Scripted("yes"), tmp_path / "out.jsonl"
    tools = msgspec.structs.replace(judged_by(model, 1), options={"temperature": 0.1})
    run_stage(SAY, source, out, tools, progress=QUIET)
    before = out.read_bytes()
    stage = msgspec.structs.replace(SAY, prompts=("another",)) if change == "prompts" else SAY
    if change == "input":
        write(source, *"abcd")
    if change == "model":
        model.name = "other"
    seed, temperature = 2 if change == "seed" else 1, 0.9 if change == "options" else 0.1
    tools = msgspec.structs.replace(tools, seed=seed, options={"temperature": temperature})
    with pytest.raises(UserError, match=named) as refusal:
        run_stage(stage, source, out, tools, progress=QUIET)
    assert "--fresh" in str(refusal.value) and "another --out" in str(refusal.value)
    assert out.read_bytes() == before
    run_stage(stage, source, out, tools, progress=QUIET, fresh=True)


def test_a_file_of_unknown_origin_is_not_overwritten(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", "a"), write(tmp_path / "out.jsonl", "precious")
    with pytest.raises(UserError, match="no manifest says where it comes from"):
        run_stage(SHOUT, source, out, progress=QUIET)
    assert read(out)[0]["text"] == "precious"


def test_a_stage_without_its_model_and_a_missing_input_are_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="needs a model for: judge"):
        run_stage(SAY, write(tmp_path / "in.jsonl", "a"), tmp_path / "out.jsonl")
    with pytest.raises(UserError, match=r"absent\.jsonl cannot be read: No such file"):
        run_stage(SHOUT, tmp_path / "absent.jsonl", tmp_path / "out.jsonl")


def test_a_silent_server_stops_the_run_and_its_rows_are_asked_again(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", *"abcdefghij"), tmp_path / "out.jsonl"
    model = Scripted("yes", "yes", ModelError("no route"))
    with pytest.raises(NoAnswers, match=r"4 rows in a row got no answer.*no route\n.*run the same command again"):
        run_stage(SAY, source, out, judged_by(model), concurrency=1, give_up_after=4, progress=QUIET)
    assert not out.exists()
    model.replies = ["yes"]
    manifest = run_stage(SAY, source, out, judged_by(model), progress=QUIET)
    assert manifest.counts.rows_out == 10 and manifest.counts.rejected == {} and manifest.sessions == 2


def test_rows_without_an_answer_are_asked_again_by_the_next_run(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", *"abcd"), tmp_path / "out.jsonl"
    model = Scripted("yes", ModelError("busy"), "yes")
    first = run_stage(SAY, source, out, judged_by(model), concurrency=1, progress=QUIET)
    assert first.counts.rejected == {"no-answer": 1} and len(read(out)) == 3
    second = run_stage(SAY, source, out, judged_by(model), concurrency=1, progress=QUIET)
    assert second.counts.rejected == {} and len(read(out)) == 4
    assert (second.spent.asked, second.spent.from_cache, model.asked) == (4, 3, 5)
    assert read(tmp_path / "out.rejects.jsonl") == []


def test_equal_requests_are_answered_once(tmp_path: Path) -> None:
    source, model = write(tmp_path / "in.jsonl", *["same"] * 20), Scripted("yes")
    manifest = run_stage(SAY, source, tmp_path / "out.jsonl", judged_by(model), concurrency=4, progress=QUIET)
    assert model.asked == 1
    assert (manifest.spent.asked, manifest.spent.from_cache, manifest.spent.tokens_read) == (20, 19, 10)


def test_compressed_in_and_out(tmp_path: Path) -> None:
    from compeer.dialogue import read_rows, write_rows

    write_rows(tmp_path / "in.jsonl.gz", [Note("1", "a"), Note("2", "b")])
    run_stage(SHOUT, tmp_path / "in.jsonl.gz", tmp_path / "out.jsonl.zst", progress=QUIET)
    assert [row.text for row in read_rows(tmp_path / "out.jsonl.zst", Note)] == ["A", "B"]
    assert (tmp_path / "out.manifest.json").exists()


class Counted(msgspec.Struct, frozen=True, weakref=True, eq=False):
    """A row whose life can be watched."""

    id: str
    text: str


LIVE: WeakSet[Counted] = WeakSet()
MOST = {"live": 0, "ahead": 0}


async def watch(row: Counted, tools: Tools) -> dict[str, str]:
    LIVE.add(row)
    number = int(row.id)
    MOST["live"] = max(MOST["live"], len(LIVE))
    if number == 100:
        await asyncio.sleep(0.3)  # the others run ahead of this one, but not without end
        MOST["ahead"] = max(MOST["ahead"], MOST["last"] - number)
    MOST["last"] = number
    if number % 50 == 0:
        await asyncio.sleep(0)
    return {"id": row.id}


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    source, count, concurrency = tmp_path / "in.jsonl", 50_000, 8
    with source.open("wb") as file:
        file.writelines(b'{"id": "%d", "text": "some words"}\n' % number for number in range(count))
    stage = Stage("watch", watch, Counted, dict)
    run_stage(stage, source, tmp_path / "out.jsonl", concurrency=concurrency, progress=QUIET)
    assert len(read(tmp_path / "out.jsonl")) == count
    assert MOST["live"] <= 2 * concurrency
    assert MOST["ahead"] <= WINDOW * concurrency


class Interrupting(Progress):
    """Presses Ctrl-C after some rows."""

    def tick(self, counts: Any, spent: Any) -> None:
        if counts.rows_in == 30:
            signal.raise_signal(signal.SIGINT)


def test_an_interrupted_run_says_how_to_go_on_and_goes_on(tmp_path: Path) -> None:
    source, model = write(tmp_path / "in.jsonl", *map(str, range(100))), Scripted("yes")
    out = tmp_path / "out.jsonl"
    with pytest.raises(
        Interrupted, match=r"Stopped after 3\d of 100 rows; nothing is lost. Run the same command again"
    ):
        run_stage(SAY, source, out, judged_by(model), concurrency=4, progress=Interrupting(quiet=True))
    assert not out.exists() and (tmp_path / "out.jsonl.part").exists()
    manifest = run_stage(SAY, source, out, judged_by(model), concurrency=4, progress=QUIET)
    assert manifest.counts.rows_out == 100 and manifest.sessions == 2
    assert 100 <= model.asked <= 104  # only what was under way is asked again
    assert [row["id"] for row in read(out)] == [f"n{number}" for number in range(100)]


def test_control_c_reaches_a_stage_that_never_waits(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    with source.open("wb") as file:
        file.writelines(b'{"id": "%d", "text": "some words"}\n' % number for number in range(400_000))
    script = (
        "import sys; from compeer.pipeline.runner import *; from tests.endpoints.stages import SHOUT\n"
        "try: run_stage(SHOUT, sys.argv[1], sys.argv[2])\n"
        "except Interrupted as told: print(told)"
    )
    command = [sys.executable, "-c", script, str(source), str(tmp_path / "out.jsonl")]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "out.state.json").exists():
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGINT)
    told, _ = process.communicate(timeout=10)
    assert "of 400,000 rows; nothing is lost" in told


class SecondRun(Progress):
    """Tries to start the same run while it is under way, in a thread of its own: a loop cannot hold two."""

    def __init__(self, source: Path, out: Path) -> None:
        super().__init__(quiet=True)
        self.source, self.out, self.refusals = source, out, 0

    def tick(self, counts: Any, spent: Any) -> None:
        thread = threading.Thread(target=self.start_again)
        thread.start()
        thread.join()

    def start_again(self) -> None:
        with pytest.raises(UserError, match="Another run is writing"):
            run_stage(SHOUT, self.source, self.out, progress=QUIET, fresh=True)
        self.refusals += 1


def test_two_runs_cannot_write_one_output(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", "a", "b"), tmp_path / "out.jsonl"
    second = SecondRun(source, out)
    assert run_stage(SHOUT, source, out, progress=second).counts.rows_out == 2
    assert second.refusals == 2


def test_plain_lines_tell_the_progress_where_there_is_no_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, model = write(tmp_path / "in.jsonl", *map(str, range(50))), Scripted("yes")
    run_stage(SAY, source, tmp_path / "out.jsonl", judged_by(model), concurrency=1, progress=Progress(every=0.0))
    told = capsys.readouterr().err
    assert "say: 50 rows, about 50 calls" in told and f"; asking {model.name}\n" in told
    assert "say: 25 of 50 rows, " in told and "tokens read" in told and "left" in told
    assert " 0.0 " not in told


def test_a_slow_stage_tells_a_rate_that_is_not_zero(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter(range(0, 10_000, 45))
    monkeypatch.setattr("compeer.pipeline.stage.time.monotonic", lambda: float(next(clock)))
    progress, counts = Progress(every=0.0), Counts()
    progress.start("reason", 100, counts)
    for _ in range(2):
        counts.rows_in += 1
        progress.tick(counts, Spent())
    told = capsys.readouterr().err
    assert "reason: 2 of 100 rows, 1 min 08 s per row, 1 h 50 min left\n" in told
