"""The Ray engine gives the rows, rejects and manifest of the local one, and goes on where it was stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.endpoints.process import ScriptedEndpoint
from tests.endpoints.stages import JUDGE, SHOUT, Note

from compeer.errors import UserError
from compeer.pipeline.ledger import Manifest
from compeer.pipeline.runner import Interrupted, run_stage
from compeer.pipeline.stage import Progress, Tools
from compeer.pipeline.work import ModelSpec

ray = pytest.importorskip("ray")
ROWS = 400


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[ScriptedEndpoint]:
    faults = {"fail_every": 10, "broken_content_every": 20, "by": "hash"}
    with ScriptedEndpoint(**faults, latency=0.005, log=tmp_path / "answered.log") as running:
        yield running


class Interrupting(Progress):
    """Presses Ctrl-C in the middle."""

    def tick(self, counts: Any, spent: Any) -> None:
        if counts.rows_in == ROWS // 2:
            signal.raise_signal(signal.SIGINT)


def judge(
    source: Path, out: Path, endpoint: ScriptedEndpoint, engine: Any, progress: Progress | None = None
) -> Manifest:
    return run_stage(
        JUDGE,
        source,
        out,
        Tools(seed=7),
        model_specs={"judge": ModelSpec("openai:scripted", endpoint.base_url)},
        concurrency=16,
        engine=engine,
        workers=2,
        progress=progress or Progress(quiet=True),
    )


def test_two_workers_give_the_rows_of_one_process(cluster: None, endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    notes = [msgspec.json.encode(Note(f"n{number}", f"Note {number}: a long day.")) for number in range(ROWS)]
    source.write_bytes(b"\n".join([*notes[:50], b"broken line", *notes[50:]]))
    here, there = tmp_path / "here" / "out.jsonl", tmp_path / "there" / "out.jsonl"
    local = judge(source, here, endpoint, "local")
    asked = len(endpoint.answered())
    with pytest.raises(Interrupted):
        judge(source, there, endpoint, "ray", Interrupting(quiet=True))
    spread = judge(source, there, endpoint, "ray")
    for name in ("out.jsonl", "out.rejects.jsonl"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / "here" / name).read_bytes()
    assert spread.counts == local.counts and spread.fingerprint == local.fingerprint
    assert (spread.engine, spread.sessions, local.sessions) == ("ray", 2, 1)
    assert asked == len(set(endpoint.answered()[:asked])) == len(set(endpoint.answered()))
    assert len(endpoint.answered()) - 2 * asked <= 16  # beyond those in flight at the interruption nothing is repeated
    assert endpoint.counters()["most_in_flight"] <= 16


def test_open_models_cannot_travel(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_bytes(b'{"id": "1", "text": "a"}\n')
    open_already: Any = {"judge": object()}
    with pytest.raises(UserError, match="name them in model_specs"):
        run_stage(SHOUT, tmp_path / "in.jsonl", tmp_path / "out.jsonl", Tools(models=open_already), engine="ray")
