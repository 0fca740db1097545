"""A build killed three times, once with its endpoint, ends as an undisturbed one, and asks nothing twice.

The endpoint fails one request in ten and answers one in twenty with broken JSON. Its log of answered requests is the
witness: a request answered before a kill may stand there twice only if it was in flight at that kill.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import msgspec
from tests.endpoints.process import ROOT, ScriptedEndpoint, environment
from tests.endpoints.stages import Note

from compeer.pipeline.ledger import Manifest

ROWS, CONCURRENCY = 1500, 16


def start(source: Path, out: Path, endpoint: ScriptedEndpoint) -> subprocess.Popen[bytes]:
    words = [str(source), str(out), endpoint.base_url, str(CONCURRENCY)]
    return subprocess.Popen([sys.executable, "-m", "tests.endpoints.stages", *words], cwd=ROOT, env=environment())


def finish(run: subprocess.Popen[bytes], out: Path) -> Manifest:
    assert run.wait(timeout=60) == 0
    return msgspec.json.decode(out.with_name("out.manifest.json").read_bytes(), type=Manifest)


def wait_until(endpoint: ScriptedEndpoint, answered: int, run: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 40
    while len(endpoint.answered()) < answered:
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)


def test_killed_three_times_it_ends_as_if_undisturbed(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    notes = [Note(f"n{number}", f"Note number {number}: I could not sleep.") for number in range(ROWS)]
    source.write_bytes(b"".join(msgspec.json.encode(note) + b"\n" for note in notes))
    faults = {"answer": "auto", "latency": 0.005, "fail_every": 10, "broken_content_every": 20, "by": "hash"}

    calm = tmp_path / "calm" / "out.jsonl"
    with ScriptedEndpoint(**faults, log=tmp_path / "calm.log") as endpoint:
        manifest = finish(start(source, calm, endpoint), calm)
        expected = endpoint.answered()
        port = endpoint.options["port"]  # the same again: the address is part of what the rows depend on
        assert endpoint.counters()["failed"] > ROWS / 20 and endpoint.counters()["broken_contents"] > ROWS / 40
    assert len(expected) == len(set(expected)) == manifest.spent.asked  # no kill, no repetition
    assert manifest.counts.rejected.keys() == {"dropped", "schema"}

    out = tmp_path / "killed" / "out.jsonl"
    with ScriptedEndpoint(**faults, log=tmp_path / "killed.log", port=port) as endpoint:
        for kill in (1, 2, 3):
            run = start(source, out, endpoint)
            wait_until(endpoint, len(expected) * kill // 4, run)
            if kill == 2:
                endpoint.kill()
            run.kill()
            run.wait()
            assert not out.exists()
            if kill == 2:
                endpoint.start()
        manifest = finish(start(source, out, endpoint), out)
        answered = endpoint.answered()

    assert out.read_bytes() == calm.read_bytes()
    assert out.with_name("out.rejects.jsonl").read_bytes() == calm.with_name("out.rejects.jsonl").read_bytes()
    assert manifest.sessions == 4 and manifest.counts.rows_in == ROWS
    assert set(answered) == set(expected)  # every request of the undisturbed run, and no other
    assert len(answered) - len(expected) <= 3 * CONCURRENCY
    assert manifest.spent.from_cache > 0
