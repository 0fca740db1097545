"""The whole chain: both languages, pictures, a server that fails, kill -9, and Ray, all to the same dataset."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.endpoints.process import ScriptedEndpoint, environment

from compeer.cer.build import Build, build
from compeer.cer.item import read_items
from compeer.cer.split import leaks
from compeer.config import load
from compeer.corpora import bundled
from compeer.dialogue import Dialogue, write_rows
from compeer.errors import UserError
from compeer.pipeline.stage import Progress

ROOT = Path(__file__).parents[2]
FAULTS = {"answer": "agreeable", "fail_every": 10, "broken_body_every": 20, "by": "hash", "latency": 0.02}


def picture(path: Path, shade: int) -> str:
    from PIL import Image

    Image.new("RGB", (8, 8), (shade, 80, 120)).save(path)
    return str(path)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations in both languages; every fourth seeker shows a picture."""
    folder = tmp_path_factory.mktemp("corpus")
    dialogues: list[Dialogue] = []
    for number, dialogue in enumerate(
        itertools.chain(itertools.islice(bundled.load("en"), 26), itertools.islice(bundled.load("zh"), 12))
    ):
        first, *rest = dialogue.utterances
        if number % 4 == 0:
            first = msgspec.structs.replace(first, images=(picture(folder / f"{number}.png", number),))
        dialogues.append(msgspec.structs.replace(dialogue, utterances=(first, *rest)))
    write_rows(folder / "dialogues.jsonl", dialogues)
    return folder / "dialogues.jsonl"


def settings(corpus: Path, out: Path, base_url: str, **more: Any) -> dict[str, Any]:
    model = {"spec": "openai:scripted", "base_url": base_url, "concurrency": 8}
    roles = ("filter", "generator", "generator-2", "profiler", "rewriter", "judge")
    return {
        "name": "test",
        "out": str(out),
        "corpora": [{"corpus": "plain", "path": str(corpus)}],
        "models": dict.fromkeys(roles, model),
        "concurrency": 8,
        "sample": {"n_samples": 2},
        "labels": "silver",
        "silver": {"per_dialogue": 2},
        "rewrite": True,
        "split": {"test": 12, "valid": 6},
        **more,
    }


def run(config: dict[str, Any]) -> list[Any]:
    return build(msgspec.convert(config, Build), progress=Progress(quiet=True))


def published(out: Path) -> dict[str, bytes]:
    """Everything of the dataset that a rerun must reproduce."""
    files = [*(out / "dataset" / "jsonl").glob("*.jsonl"), *out.glob("train-*.jsonl"), out / "04-candidates.jsonl"]
    return {file.name: file.read_bytes() for file in sorted(files)}


@pytest.fixture(scope="module")
def port() -> int:
    """The same for all servers here: a candidate remembers which server wrote it."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, port: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    with ScriptedEndpoint(answer="agreeable", port=port) as endpoint:
        run(settings(corpus, out, endpoint.base_url))
        asked = endpoint.counters()["requests"]
        run(settings(corpus, out, endpoint.base_url))
        assert endpoint.counters()["requests"] == asked, "a second run asked again"
    return out


def test_both_languages_and_pictures_reach_the_dataset(undisturbed: Path) -> None:
    items = list(read_items(undisturbed))
    assert {item.language for item in items} == {"en", "zh"}
    pictures = [image for item in items for turn in item.history for image in turn.images]
    assert pictures and all((undisturbed / "dataset" / image).is_file() or Path(image).is_file() for image in pictures)
    assert any(item.variant == "persona" for item in items), "no rewriting came through"
    assert leaks(items) == []
    assert (undisturbed / "clusters.png").read_bytes()[:4] == b"\x89PNG"
    card = (undisturbed / "dataset" / "README.md").read_text()
    assert "CC BY 4.0" in card and "silver" in card
    report = json.loads((undisturbed / "drop-report.json").read_text())
    assert report["total"]["kept"] > 0


def test_killed_three_times_over_a_failing_server_the_dataset_is_the_same(
    corpus: Path, port: int, undisturbed: Path, tmp_path: Path
) -> None:
    log = tmp_path / "answered.jsonl"
    with ScriptedEndpoint(**FAULTS, port=port, log=log) as endpoint:
        config = settings(corpus, tmp_path / "out", endpoint.base_url)
        (tmp_path / "build.yaml").write_text(yaml.safe_dump(config))
        command = [sys.executable, "-m", "compeer.cli", "cer", "build", str(tmp_path / "build.yaml")]
        for kill in range(3):
            process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wanted = 40 * (kill + 1)
            while process.poll() is None and len(log.read_text().splitlines() if log.exists() else []) < wanted:
                time.sleep(0.02)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        answered = [json.loads(line)["body"] for line in log.read_text().splitlines()]
        in_flight = endpoint.counters()["most_in_flight"]  # a row may ask two models, so this is not the row count
    assert published(tmp_path / "out") == published(undisturbed)
    assert in_flight <= 2 * 8
    assert len(answered) - len(set(answered)) <= 3 * in_flight, "more was asked again than was in flight at the kills"


def test_on_ray_the_rows_are_the_same(corpus: Path, port: int, undisturbed: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the ray extra is not installed")
    with ScriptedEndpoint(answer="agreeable", port=port) as endpoint:
        run(settings(corpus, tmp_path / "out", endpoint.base_url, engine="ray", workers=2))
    assert published(tmp_path / "out") == published(undisturbed)


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "cer").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_configuration_can_be_read(path: Path) -> None:
    assert load(path, Build).corpora


def test_a_configuration_with_a_mistake_names_the_field(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("name: x\nout: y\ncorpora: []\nlabels: gold\n")
    with pytest.raises(UserError, match="labels"):
        load(tmp_path / "bad.yaml", Build)
    (tmp_path / "typo.yaml").write_text("name: x\nout: y\ncorpora: []\nsampel: {}\n")
    with pytest.raises(UserError, match="sampel"):
        load(tmp_path / "typo.yaml", Build)
